import TestSupport
import Testing

/// Clients of other houses over HTTP/2 with mutual TLS. What they spoke is what the access log says.
@Suite(.staged) struct `Clients that speak HTTP 2` {
  private struct Front {
    let scene: Scene
    let port: UInt16
    let files: [String]

    /// `verify`: whether a certificate is demanded.
    init(_ scene: Scene, verify: String = "on") async throws {
      self.scene = scene
      let cast = try Cast(scene), upstream = try ScriptedUpstream.echo(scene, records: false)
      files = [cast.alice.certificate, cast.alice.key]
      try scene.pkcs12("alice", cast.alice.certified)
      port = try scene.port()
      _ = try await Sallyport.serve(
        scene,
        """
        log_format seen '$server_protocol|$ssl_client_s_dn_cn|$request_method $uri|$status';
        access_log seen.log seen; client_max_body_size 0;
        server { listen 127.0.0.1:\(port) ssl; http2 on; server_name localhost; \(Cast.tls(verify: verify))
          location / { proxy_pass http://127.0.0.1:\(upstream.port); \(PlainProxy.kept) }
          location /page { return 200 "$server_protocol $ssl_client_s_dn_cn"; } }
        """)
    }

    func url(_ path: String) -> String { "https://localhost:\(port)\(path)" }

    /// Waits for so many access records, which must all be of HTTP/2, with this client's name, and answered.
    func expectSpoken(_ count: Int, by name: String = "alice") async throws {
      func lines() -> [Substring] { scene.text("seen.log").split(separator: "\n") }
      try await until("\(count) access records") { lines().count >= count }
      #expect(lines().count == count)
      #expect(lines().allSatisfy { $0.hasPrefix("HTTP/2.0|\(name)|") && $0.hasSuffix("|200") }, "\(lines())")
    }
  }

  private static let size = 3_000_000

  @Test func `curl gets many responses and sends a large body over one connection`() async throws {
    let scene = try Scene.ofTest(), front = try await Front(scene), body = Pattern.bytes(Self.size)
    let common = ["--http2", "--cacert", scene.path("ca.pem"), "--cert", front.files[0], "--key", front.files[1]]
    let sent = try await scene.curl(common + [front.url("/echo")], input: body)
    #expect(sent.status == 200 && Pattern.equal(sent.body, body))
    // All at once: a response of N bytes becomes the file N.
    let result = try await scene.run(
      "curl",
      ["-q", "-sS", "--noproxy", "*", "--parallel", "--parallel-max", "50", "-o", "#1", "-w", "%{num_connects}\n"]
        + common + [front.url("/bytes/[1001-1050]")])
    #expect(result.status == 0, "\(result.errors)")
    #expect(result.text.split(separator: "\n").count { $0 == "1" } == 1, "one connection")
    for size in 1001...1050 { #expect(scene.bytes("\(size)") == Pattern.bytes(size)) }
    try await front.expectSpoken(51)
  }

  /// curl loses a response whose stream is reset while it sends.
  @Test(arguments: [3000, 100_000, 5_000_000])
  func `curl gets a response that comes before the end of its body`(size: Int) async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); http2 on; client_max_body_size 1k;
        location /any { client_max_body_size 0; return 404; } }
      """)
    for _ in 0..<10 {
      for (path, status) in [("/", 413), ("/any", 404)] {
        let url = "http://127.0.0.1:\(port)\(path)"
        let result = try await scene.curl(["--http2-prior-knowledge", url], input: Pattern.bytes(size))
        #expect(result.exit == 0 && result.status == status, "\(path)")
      }
    }
  }

  @Test(.enabled("nghttp2-client is not installed") { await Scene.succeeds("nghttp", ["--version"]) })
  func `nghttp gets responses and sends a large body`() async throws {
    let scene = try Scene.ofTest(), front = try await Front(scene), body = Pattern.bytes(Self.size)
    let file = try scene.write("body", body)
    func nghttp(_ arguments: String...) async throws -> ToolResult {
      try await scene.run(
        "nghttp", ["--cert=\(front.files[0])", "--key=\(front.files[1])"] + arguments,
        environment: ["SSL_CERT_FILE": scene.path("ca.pem")])
    }
    let sent = try await nghttp("-d", file, front.url("/echo"))
    #expect(sent.status == 0 && Pattern.equal(sent.output, body), "\(sent.errors)")
    #expect(!sent.errors.contains("verification failed"))
    // Several requests at once; the responses follow each other in no set order.
    let many = try await nghttp("-n", "-s", "-m", "20", front.url("/bytes/70000"))
    #expect(many.text.ranges(of: " 200 ").count == 20, "\(many.everything)")
    try await front.expectSpoken(21)
  }

  /// It can't present a certificate.
  @Test(.enabled("nghttp2-client is not installed") { await Scene.succeeds("h2load", ["--version"]) })
  func `h2load gets a response to each of its requests`() async throws {
    let scene = try Scene.ofTest(), front = try await Front(scene, verify: "optional")
    let result = try await scene.run(
      "h2load", ["-n", "600", "-c", "6", "-m", "25", front.url("/bytes/20000")])
    #expect(result.text.contains("Application protocol: h2\n"), "\(result.everything)")
    #expect(result.text.contains("600 succeeded, 0 failed, 0 errored, 0 timeout"), "\(result.everything)")
    try await front.expectSpoken(600, by: "-")
  }

  @Test(
    .enabled("python3-h2 and python3-httpx are not installed") {
      await Scene.succeeds(GRPCScripts.python, ["-c", "import h2, httpx"])
    })
  func `Python's httpx gets many responses and sends a large body`() async throws {
    let scene = try Scene.ofTest(), front = try await Front(scene)
    let script = try scene.write(
      "ask.py",
      text: #"""
        import asyncio, httpx, ssl, sys
        ca, cert, key, url = sys.argv[1:]
        context = ssl.create_default_context(cafile=ca)
        context.load_cert_chain(cert, key)
        async def main():
            async with httpx.AsyncClient(http2=True, http1=False, verify=context, trust_env=False) as client:
                page = await client.get(url + "/page")
                print(page.http_version, page.text)
                answers = await asyncio.gather(*[client.get(f"{url}/bytes/{1000 + i}") for i in range(100)])
                print([len(answer.content) for answer in answers] == [1000 + i for i in range(100)])
                body = bytes(range(251)) * 12000
                print((await client.post(url + "/echo", content=body)).content == body)
                async def pieces():
                    for start in range(0, len(body), 100000): yield body[start:start + 100000]
                print((await client.post(url + "/echo", content=pieces())).content == body)
        asyncio.run(main())
        """#)
    let result = try await scene.run(
      GRPCScripts.python, [script, scene.path("ca.pem")] + front.files + [front.url("")], within: .seconds(90))
    #expect(result.text == "HTTP/2 HTTP/2.0 alice\nTrue\nTrue\nTrue\n", "\(result.everything)")
    try await front.expectSpoken(103)
  }

  /// A runtime without a compiler can't launch a source file.
  @Test(.enabled("no JDK is installed") { await Scene.succeeds("java", ["--describe-module", "jdk.compiler"]) })
  func `Java's HttpClient gets many responses and sends a large body`() async throws {
    let scene = try Scene.ofTest(), front = try await Front(scene)
    let program = try scene.write(
      "Client.java",
      text: """
        import java.io.*;
        import java.net.URI;
        import java.net.http.*;
        import java.security.KeyStore;
        import java.security.cert.CertificateFactory;
        import java.util.*;
        import java.util.concurrent.CompletableFuture;
        import javax.net.ssl.*;

        class Client {
          public static void main(String[] words) throws Exception {
            var password = words[2].toCharArray();
            var keys = KeyStore.getInstance("PKCS12");
            keys.load(new FileInputStream(words[1]), password);
            var keyManagers = KeyManagerFactory.getInstance("SunX509");
            keyManagers.init(keys, password);
            var anchors = KeyStore.getInstance(KeyStore.getDefaultType());
            anchors.load(null);
            var ca = CertificateFactory.getInstance("X.509").generateCertificate(new FileInputStream(words[0]));
            anchors.setCertificateEntry("ca", ca);
            var trustManagers = TrustManagerFactory.getInstance("PKIX");
            trustManagers.init(anchors);
            var context = SSLContext.getInstance("TLS");
            context.init(keyManagers.getKeyManagers(), trustManagers.getTrustManagers(), null);
            var client = HttpClient.newBuilder().sslContext(context).version(HttpClient.Version.HTTP_2).build();
            var text = HttpResponse.BodyHandlers.ofString();
            var bytes = HttpResponse.BodyHandlers.ofByteArray();

            var page = client.send(HttpRequest.newBuilder(URI.create(words[3] + "/page")).build(), text);
            System.out.println(page.version() + " " + page.body());
            var answers = new ArrayList<CompletableFuture<HttpResponse<byte[]>>>();
            for (int i = 0; i < 60; i++)
              answers.add(client.sendAsync(
                HttpRequest.newBuilder(URI.create(words[3] + "/bytes/" + (1000 + i))).build(), bytes));
            boolean isWhole = true;
            for (int i = 0; i < 60; i++) isWhole &= answers.get(i).get().body().length == 1000 + i;
            System.out.println(isWhole);
            var body = new byte[\(Self.size)];
            new Random(7).nextBytes(body);
            var post = HttpRequest.newBuilder(URI.create(words[3] + "/echo"));
            var publisher = HttpRequest.BodyPublishers.ofByteArray(body);
            System.out.println(Arrays.equals(body, client.send(post.POST(publisher).build(), bytes).body()));
          }
        }
        """)
    let result = try await scene.run(
      "java", [program, scene.path("ca.pem"), scene.path("alice.p12"), IdentityFiles.password, front.url("")],
      within: .seconds(90))
    #expect(result.text == "HTTP_2 HTTP/2.0 alice\ntrue\ntrue\n", "\(result.everything)")
    try await front.expectSpoken(62)
  }

  @Test(Chromium.needed) func `Chromium shows a page`() async throws {
    let scene = try Scene.ofTest(), front = try await Front(scene)
    let chromium = try await Chromium(
      scene,
      policies: #"{"AutoSelectCertificateForUrls": ["{\"pattern\": \"\#(front.url(""))\", \"filter\": {}}"]}"#)
    try await chromium.trust(scene.path("ca.pem"))
    try await chromium.take(scene.path("alice.p12"), password: IdentityFiles.password)
    let page = try await chromium.open(front.url("/page"))
    #expect(page.document.contains("HTTP/2.0 alice"), "\(page)")
    try await until("the access record") { scene.text("seen.log").contains("|GET /page|200\n") }
    let lines = scene.text("seen.log").split(separator: "\n")
    #expect(lines.allSatisfy { $0.hasPrefix("HTTP/2.0|alice|") }, "\(lines)")
  }
}
