import Crypto
import Foundation
import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `What the upstream learns of the client` {
  @Test func `the ssl variables say what openssl says`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let names = [
      "s_dn", "i_dn", "s_dn_legacy", "i_dn_legacy", "serial", "fingerprint", "v_start", "v_end", "v_remain",
      "escaped_cert",
      "verify",
    ]
    let front = try await MutualProxy(
      scene,
      location: names.map { "proxy_set_header X-\($0.replacing("_", with: "-")) $ssl_client_\($0);" }.joined()
        + """
        proxy_set_header X-protocol $ssl_protocol; proxy_set_header X-cipher $ssl_cipher;
        proxy_set_header X-sni $ssl_server_name; proxy_set_header X-reused $ssl_session_reused;
        """)
    let result = try await scene.curl(
      cast.to(front.port) + cast.alice.curl + ["--tlsv1.2", "--tls-max", "1.2", "https://localhost/head"])
    #expect(result.status == 200)
    let seen = HTTPMessage(head: Array(front.upstream.receivedText.utf8))
    func openssl(_ arguments: String...) async throws -> String {
      try await scene.succeed(
        "sh", "-c", "openssl x509 -noout -in '\(cast.alice.certificate)' \(arguments.joined(separator: " "))")
    }
    #expect(try await openssl("-subject -nameopt RFC2253") == "subject=" + (seen["X-s-dn"] ?? ""))
    #expect(try await openssl("-issuer -nameopt RFC2253") == "issuer=" + (seen["X-i-dn"] ?? ""))
    #expect(try await openssl("-serial") == "serial=" + (seen["X-serial"] ?? ""))
    let fingerprint = try await openssl("-fingerprint -sha1").replacing(":", with: "").lowercased()
    #expect(fingerprint == "sha1 fingerprint=" + (seen["X-fingerprint"] ?? ""))
    #expect(try await openssl("-startdate") == "notBefore=" + (seen["X-v-start"] ?? ""))
    #expect(try await openssl("-enddate") == "notAfter=" + (seen["X-v-end"] ?? ""))
    #expect(seen["X-s-dn-legacy"] == "/C=SE/O=Example \\+ Sons/CN=alice")
    #expect(seen["X-i-dn-legacy"] == "/CN=Test Root")
    #expect(["364", "365"].contains(seen["X-v-remain"]))
    #expect(seen["X-escaped-cert"]?.removingPercentEncoding == cast.alice.certified.certificate.pem)
    #expect(seen["X-verify"] == "SUCCESS")
    #expect(seen["X-protocol"] == "TLSv1.2")
    #expect(seen["X-cipher"]?.contains("ECDHE") == true)
    #expect(seen["X-sni"] == "localhost")
    #expect(seen["X-reused"] == ".")
  }

  @Test(arguments: ["X-Client-DN", "x-client-dn", "X_Client_DN", "x-Client_dn", "X.Client.DN"])
  func `a forged identity field never reaches the upstream`(forged: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(
      scene, server: "underscores_in_headers on; ignore_invalid_headers off;",
      location: "proxy_set_header X-Client-DN $ssl_client_s_dn;")
    let result = try await scene.curl(
      cast.to(front.port) + cast.alice.curl + [
        "-H", "\(forged): CN=root", "-H", "X-Other: stays", "https://localhost/head",
      ])
    #expect(result.status == 200)
    #expect(!front.upstream.receivedText.contains("CN=root"))
    #expect(front.upstream.receivedText.contains("X-Client-DN: CN=alice,"))
    #expect(front.upstream.receivedText.contains(scene.sent("X-Other: stays")))
  }

  /// The fields of a server block's variables are removed in all of its locations. Early-Data says nothing of the client.
  @Test func `a field of any variable that says who the client is can't be forged in another location`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(
      scene,
      server: """
        location /sets { proxy_pass http://127.0.0.1:9; proxy_set_header X-Verdict $ssl_client_verdict;
          proxy_set_header X-Left $ssl_client_v_remain; proxy_set_header X-Early $ssl_early_data; }
        """)
    let result = try await scene.curl(
      cast.to(front.port) + cast.alice.curl + [
        "-H", "X-Verdict: forged", "-H", "X-Left: forged", "-H", "X-Early: stays", "https://localhost/head",
      ])
    #expect(result.status == 200)
    #expect(!front.upstream.receivedText.contains("forged"), "\(front.upstream.receivedText)")
    #expect(front.upstream.receivedText.contains(scene.sent("X-Early: stays")))
  }

  @Test func `a field of the configuration's own ssl variable can't be forged in another location`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      map $http_user_agent $ssl_client_s_dn_cn { default ""; }
      server {
        listen 127.0.0.1:\(port);
        location / { proxy_pass http://127.0.0.1:\(upstream.port); proxy_set_header X-Name $ssl_client_s_dn_cn; }
        location /own { proxy_pass http://127.0.0.1:\(upstream.port); proxy_set_header X-Other yes; }
      }
      """)
    for path in ["", "own"] {
      let result = try await scene.curl(["-H", "X-Name: root", "http://127.0.0.1:\(port)/\(path)"])
      #expect(result.status == 200)
    }
    #expect(!upstream.receivedText.contains("root"), "\(upstream.receivedText)")
  }

  @Test func `an identity field whose variable is empty is left out, forged or not`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server {
        listen 127.0.0.1:\(port) ssl; server_name localhost; ssl_certificate server.pem; ssl_certificate_key server.key;
        ssl_client_certificate ca.pem; ssl_verify_client optional; underscores_in_headers on;
        location / { proxy_pass http://127.0.0.1:\(upstream.port); proxy_set_header X-Client-DN $ssl_client_s_dn; }
      }
      """)
    let result = try await scene.curl(
      cast.to(port) + ["-H", "X-Client-DN: CN=root", "-H", "X_Client_DN: CN=root", "https://localhost/head"])
    #expect(result.status == 200)
    #expect(!upstream.receivedText.lowercased().contains("client"))
  }

  @Test(arguments: [("off", false), ("on", true)]) func `underscores_in_headers decides on names with an underscore`(
    setting: String, passes: Bool
  ) async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, server: "underscores_in_headers \(setting);")
    let result = try await proxy.curl("/head", ["-H", "X_Odd: one", "-H", "X-Even: two"])
    #expect(result.status == 200)
    #expect(result.text.contains(scene.sent("X_Odd: one")) == passes)
    #expect(result.text.contains(scene.sent("X-Even: two")))
  }
}
