/// The text that the demo prints once it listens, with commands to paste, and a file that explains how to set up each
/// kind of client.
struct DemoGuide {
  static let fileName = "guide.md"

  let files: DemoFiles
  let port: UInt16
  let configuration: String
  /// The upstream is the user's own application.
  let isOwnUpstream: Bool
  let hasTLSUpstream: Bool
  let verification: DemoVerification
  /// What `--name` and `--listen` gave.
  let names: [DemoName]
  let listen: [DemoListen]
  /// The first port of `--bad-servers`; nil: there are none.
  let badServers: UInt16?
  /// Of the server's own key.
  let pin: String

  private var url: String { "https://localhost:\(port)/" }
  private var curl: String { "curl --cacert \(quoted("ca.crt"))" }

  /// What a client gets that is let in.
  private var answer: String { isOwnUpstream ? "your application's answer" : "200" }

  private var forwards: String {
    if !isOwnUpstream { return "a TLS upstream whose key is pinned" }
    return hasTLSUpstream ? "your application, whose key is pinned" : "your application"
  }

  private var whoGetsIn: String {
    switch verification {
    case .on: "asks for a client certificate on \(url)"
    case .optional: "accepts clients with or without a certificate on \(url)"
    }
  }

  private var withoutCertificate: String {
    switch verification {
    case .on: "Without a certificate: 400."
    case .optional: "Without a certificate: \(answer) too, because --verify is optional."
    }
  }

  /// A command for each `--name`. The machine's resolver need not know the name: --connect-to gives curl the address.
  private var byName: String {
    names.filter { !DemoName.standard.contains($0) }.map { name in
      let authority = "\(name.text.contains(":") ? "[\(name.text)]" : name.text):\(port)"
      return """
        With the name \(name.text): \(answer). For programs other than curl, add the name to DNS or /etc/hosts.
          \(curl) \(with("client")) --connect-to \(shellWord("\(authority):127.0.0.1:\(port)")) \(shellWord("https://\(authority)/"))

        """
    }.joined()
  }

  /// Whom `--listen` lets in, and how they get there.
  private var otherMachines: String {
    guard !listen.isEmpty else { return "" }
    let names = listen.flatMap(\.names).map(\.text).reduce(into: [String]()) { if !$0.contains($1) { $0.append($1) } }
    return """
      Containers and other machines: https://NAME:\(port)/, where NAME is one of \(names.joined(separator: ", ")).
      They need ca.crt, client.crt and client.key of the demo's folder. Whoever reaches the port can connect.

      """ + "\n"
  }

  private var bad: String {
    guard let badServers else { return "" }
    return """
      Servers that a client must refuse, each on a port of its own, and by its name on port \(badServers):
        \(curl) https://expired.localhost:\(badServers)/
      All of them in one loop: \(Self.fileName). What clients accepted that they shouldn't:
        sallyport demo --report --dir \(quoted(""))

      """ + "\n"
  }

  private func with(_ name: String) -> String {
    "--cert \(quoted("\(name).crt")) --key \(quoted("\(name).key"))"
  }

  var text: String {
    """

    sallyport \(whoGetsIn)
    and forwards requests to \(forwards).
    Configuration: \(configuration)

    With the client certificate: \(answer)\(isOwnUpstream ? "." : ", and a report of what the server saw.")
      \(curl) \(with("client")) \(url)
    The same certificate as PKCS#12, with the password \(DemoFiles.password):
      \(curl) --cert-type P12 --cert \(quoted("client.p12", then: ":\(DemoFiles.password)")) \(url)
    \(byName)\(withoutCertificate)
      \(curl) \(url)
    Invalid certificates, as .crt and .key, and as .p12: expired, not-yet-valid, revoked, wrong-ca. Each gets 400 and the reason.
      \(curl) \(with("revoked")) \(url)

    \(otherMachines)\(bad)\
    Python, Java, Go, Node.js, Rust, .NET, Swift, browsers, an iOS simulator: \(files.folder.file(Self.fileName))
    Next: who may do what by the configuration\(hasTLSUpstream ? ", and the handshake with the upstream" : ""):
      sallyport check --config \(shellWord(configuration))
    \(hasTLSUpstream ? "  sallyport probe --config \(shellWord(configuration))\n" : "")\
    \(isOwnUpstream ? "" : "Your own application behind it: sallyport demo --upstream http://127.0.0.1:3000\n")\
    Ctrl-C ends the demo. The files stay for the next start.

    """ + "\n"
  }

  /// The content of guide.md.
  ///
  /// Tests run the lines for curl, Python, Java, Go, Node.js and Chromium where these are installed. The lines for Rust were
  /// compiled with reqwest 0.11 of Debian 12, whose verifier takes no CA with name constraints; the same calls of a later
  /// reqwest get in, and so do those of .NET 8 (DemoClientTests, each by its binding for Python). Those for Apple's platforms
  /// have never run: none was to be had.
  var everything: String {
    """
    # The local endpoint

    sallyport \(whoGetsIn). Its folder contains these files:

    | file | contents |
    | --- | --- |
    | `ca.crt` | the CA that clients have to trust. Name constraints limit the CA to the demo's names |
    | `client.crt`, `client.key`, `client.p12` | the valid client certificate |
    | `expired.*`, `not-yet-valid.*`, `revoked.*`, `wrong-ca.*` | invalid client certificates: sallyport responds with 400 and the reason, which it also logs |
    | `\(DemoProfile.fileName)` | CA and client for an iOS simulator or device |

    No key has a pass phrase. The password of every .p12 file is `\(DemoFiles.password)`. The demo renews each certificate a week before it expires,
    with the same key and under the same CA. If you copied a certificate, copy it again after that.

    \(isOwnUpstream ? "Every path is your application's." : "Paths: `/` reports what the server saw (a page for browsers, JSON for others). To test clients: `/delay/SECONDS`, `/bytes/N`, `/status/CODE`, `/upload`, `/ws` (WebSocket echo).")

    ## curl

        \(curl) \(with("client")) \(url)

    ## Python

        import requests
        print(requests.get("\(url)", cert=(\(literal("client.crt")), \(literal("client.key"))),
                           verify=\(literal("ca.crt"))).text)

    ## Java

    Save the lines as Demo.java and run `java Demo.java`, with Java 11 or later.

        import java.io.*;
        import java.net.URI;
        import java.net.http.*;
        import java.security.KeyStore;
        import java.security.cert.CertificateFactory;
        import javax.net.ssl.*;

        class Demo {
          public static void main(String[] arguments) throws Exception {
            var password = "\(DemoFiles.password)".toCharArray();
            var keys = KeyManagerFactory.getInstance("PKIX");
            keys.init(KeyStore.getInstance(new File(\(literal("client.p12"))), password), password);
            var anchors = KeyStore.getInstance("PKCS12");
            anchors.load(null, null);
            try (var file = new FileInputStream(\(literal("ca.crt")))) {
              anchors.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(file));
            }
            var trust = TrustManagerFactory.getInstance("PKIX");
            trust.init(anchors);
            var context = SSLContext.getInstance("TLS");
            context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
            var response = HttpClient.newBuilder().sslContext(context).build()
                .send(HttpRequest.newBuilder(URI.create("\(url)")).build(), HttpResponse.BodyHandlers.ofString());
            System.out.println(response.statusCode() + " " + response.body());
          }
        }

    ## Go

    Save the lines as demo.go and run `go run demo.go`, with Go 1.16 or later.

        package main

        import (
            "crypto/tls"
            "crypto/x509"
            "fmt"
            "io"
            "log"
            "net/http"
            "os"
        )

        func main() {
            pair, err := tls.LoadX509KeyPair(\(literal("client.crt")), \(literal("client.key")))
            if err != nil {
                log.Fatal(err)
            }
            pem, err := os.ReadFile(\(literal("ca.crt")))
            if err != nil {
                log.Fatal(err)
            }
            roots := x509.NewCertPool()
            roots.AppendCertsFromPEM(pem)
            client := &http.Client{Transport: &http.Transport{
                ForceAttemptHTTP2: true,
                TLSClientConfig:   &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots},
            }}
            response, err := client.Get("\(url)")
            if err != nil {
                log.Fatal(err)
            }
            defer response.Body.Close()
            body, _ := io.ReadAll(response.Body)
            fmt.Println(response.StatusCode, response.Proto, string(body))
        }

    ## Node.js

    Save the lines as demo.mjs and run `node demo.mjs`, with Node.js 18 or later.

        import { readFileSync } from "node:fs";
        import https from "node:https";

        const options = {
          ca: readFileSync(\(literal("ca.crt"))),
          cert: readFileSync(\(literal("client.crt"))),
          key: readFileSync(\(literal("client.key"))),
        };
        https.get("\(url)", options, (response) => {
          let body = "";
          response.on("data", (part) => (body += part));
          response.on("end", () => console.log(response.statusCode, body));
        });

    ## Rust

    Run `cargo add reqwest@0.12 --no-default-features --features blocking,rustls-tls`, save the lines as src/main.rs and run
    `cargo run`.

        use std::{error::Error, fs::read};

        use reqwest::{blocking::Client, Certificate, Identity};

        fn main() -> Result<(), Box<dyn Error>> {
            let pair = [read(\(literal("client.key")))?, read(\(literal("client.crt")))?].concat();
            let client = Client::builder()
                .use_rustls_tls()
                .tls_built_in_root_certs(false)
                .add_root_certificate(Certificate::from_pem(&read(\(literal("ca.crt")))?)?)
                .identity(Identity::from_pem(&pair)?)
                .build()?;
            let response = client.get("\(url)").send()?;
            println!("{} {}", response.status().as_u16(), response.text()?);
            Ok(())
        }

    ## .NET

    Run `dotnet new console`, save the lines as Program.cs and run `dotnet run`, with .NET 9 or later.
    The project's tests make these calls on .NET 8, but for X509CertificateLoader, which .NET 9 brought.

        using System.Security.Cryptography.X509Certificates;

        var handler = new SocketsHttpHandler();
        handler.SslOptions.ClientCertificates =
            [X509CertificateLoader.LoadPkcs12FromFile(\(literal("client.p12")), "\(DemoFiles.password)")];
        handler.SslOptions.CertificateChainPolicy = new X509ChainPolicy
        {
            TrustMode = X509ChainTrustMode.CustomRootTrust,
            CustomTrustStore = { X509CertificateLoader.LoadCertificateFromFile(\(literal("ca.crt"))) },
            RevocationMode = X509RevocationMode.NoCheck,
        };
        using var client = new HttpClient(handler);
        var response = await client.GetAsync("\(url)");
        Console.WriteLine($"{(int)response.StatusCode} {await response.Content.ReadAsStringAsync()}");

    ## Swift, URLSession on Apple platforms

    The project has no Apple device: nobody has run these lines.

        // Put client.p12 into the bundle. Install the CA in the system or by the profile below.
        func urlSession(_ session: URLSession, didReceive challenge: URLAuthenticationChallenge) async
            -> (URLSession.AuthChallengeDisposition, URLCredential?) {
          guard challenge.protectionSpace.authenticationMethod == NSURLAuthenticationMethodClientCertificate else {
            return (.performDefaultHandling, nil)
          }
          var items: CFArray?
          let options = [kSecImportExportPassphrase: "\(DemoFiles.password)"] as CFDictionary
          guard SecPKCS12Import(archive as CFData, options, &items) == errSecSuccess,
            let first = (items as? [[CFString: Any]])?.first, let identity = first[kSecImportItemIdentity]
          else { return (.cancelAuthenticationChallenge, nil) }
          return (.useCredential, URLCredential(identity: identity as\("!") SecIdentity, certificates: nil, persistence: .forSession))
        }

    On Linux, URLSession of FoundationNetworking can't present a client certificate. Use curl or swift-nio-ssl there.

    ## A browser

    Firefox: under Settings, Certificates, import `ca.crt` under Authorities and `client.p12` under Your Certificates.
    Chromium and other browsers with an NSS store: run `sallyport demo trust nss --dir \(quoted(""))`. Chromium then asks which certificate
    to present. To skip the question, put this line into a file in `/etc/chromium/policies/managed`; headless mode needs it:

        {"AutoSelectCertificateForUrls": ["{\\"pattern\\": \\"https://localhost:\(port)\\", \\"filter\\": {}}"]}

    `chromium --headless --screenshot=demo.png \(url)` then writes a screenshot of the page.

    ## An iOS simulator

    Drag `\(files.folder.file(DemoProfile.fileName))` onto the simulator. Install the profile under Settings, General, VPN & Device Management,
    and enable the CA under General, About, Certificate Trust Settings.

    \(DemoTrialGuide(self).text)\
    ## The whole system

    `sudo sallyport demo trust system --dir \(quoted(""))` adds `ca.crt` to the system's trust store; `--remove` removes it.

    """
  }

  /// A file as a string literal of Python, Java, Go, JavaScript, Rust and C#, which escape alike.
  func literal(_ name: String) -> String {
    "\"" + files.folder.file(name).replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
  }

  func quoted(_ name: String, then suffix: String = "") -> String {
    shellWord((name.isEmpty ? files.folder.path : files.folder.file(name)) + suffix)
  }

  /// Quotes a word for a shell if necessary.
  private func shellWord(_ word: String) -> String {
    let plain = word.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "/._-:".contains($0)) }
    return plain
      ? word : "'" + word.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
  }
}
