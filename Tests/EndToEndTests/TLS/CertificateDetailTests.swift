import Crypto
import TestSupport
import Testing

/// Details of certificates in which nginx's users rely on its words.
@Suite(.staged) struct `Details of certificates` {
  @Test func `a CA that stands twice in the bundle is named once to clients`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let other = try TestAuthority("Other")
    let pem = cast.authority.root.certificate.pem
    try scene.write("twice.pem", text: pem + other.root.certificate.pem + pem)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; ssl_certificate server.pem; ssl_certificate_key server.key;
        ssl_client_certificate twice.pem; ssl_verify_client on; location / { return 200; } }
      """)
    let result = try await scene.run(
      "openssl", ["s_client", "-connect", "127.0.0.1:\(port)", "-tls1_2"], input: [])
    let names = result.text.withPlainNames.split(separator: "\n").filter {
      $0.hasPrefix("CN=Test Root") || $0.hasPrefix("CN=Other")
    }
    #expect(names.sorted() == ["CN=Other Root", "CN=Test Root"], "\(result.text)")
  }

  @Test func `a client of a CA that its parent has revoked is told as revoked, also without a list of that CA`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let client = try scene.identity("inner", cast.authority.client(.viaIntermediate))
    let list = RevocationListBuilder(
      revoking: [cast.authority.intermediate.certificate])
    try scene.write("crl.pem", text: list.pem(signedBy: cast.authority.root))
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) ssl_verify_depth 3; ssl_crl crl.pem;
        location / { return 200 in; } }
      """)
    let refused = try await scene.curl(cast.to(port) + client.curl + ["https://localhost/"])
    #expect(refused.status == 400)
    try await daemon.logged("certificate revoked")
    #expect(try await scene.curl(cast.to(port) + cast.alice.curl + ["https://localhost/"]).text == "in")
  }

  @Test func `an empty proxy_ssl_certificate presents none, and an inner one takes an outer one's place`() async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let (port, up) = try (scene.port(), scene.port())
    _ = try await NginxUpstream.start(
      scene, ports: [up],
      """
      server { listen 127.0.0.1:\(up) ssl; ssl_certificate \(scene.path("server.pem"));
        ssl_certificate_key \(scene.path("server.key")); ssl_client_certificate \(scene.path("ca.pem"));
        ssl_verify_client optional; location / { return 200 "$ssl_client_verify"; } }
      """)
    _ = cast
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name localhost;
        proxy_ssl_certificate alice.pem; proxy_ssl_certificate_key alice.key;
        location /shown { proxy_pass https://127.0.0.1:\(up); }
        location /empty { proxy_ssl_certificate ""; proxy_pass https://127.0.0.1:\(up); }
      }
      """)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/shown"]).text == "SUCCESS")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/empty"]).text == "NONE")
  }

  @Test func `add_header with the client's certificate adds one line, and no field of its author's`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; http2 on; server_name localhost; \(Cast.tls)
        add_header X-Cert $ssl_client_cert always; location / { return 200 in; } }
      """)
    for version in ["--http1.1", "--http2"] {
      let result = try await scene.curl(cast.to(port) + cast.alice.curl + [version, "https://localhost/"])
      let value = try #require(result["X-Cert"])
      #expect(!value.contains("\n"))
      #expect(
        value.filter { $0 != "\t" && $0 != " " }
          == cast.alice.certified.certificate.pem.filter { $0 != "\n" && $0 != " " })
    }
  }
}
