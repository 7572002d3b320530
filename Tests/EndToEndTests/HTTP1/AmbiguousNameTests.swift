import Crypto
import Foundation
import TestSupport
import Testing

/// A certificate of our CA with two common names: programs differ in which of them they take, so none counts.
@Suite(.stagedOverBoth) struct `A certificate with two common names` {
  private func twice(_ scene: Scene, _ cast: Cast) throws -> IdentityFiles {
    var builder = CertificateBuilder(commonName: "alice", .leaf([.clientAuth]))
    builder.subject = [(.commonName, "alice"), (.commonName, "bob")]
    return try scene.identity("twice", builder.signed(by: cast.authority.root, key: .generate()))
  }

  @Test func `gets in by no rule on names, and has no name in a variable`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(
      scene,
      locations: """
        location / { return 200 "cn=$ssl_client_s_dn_cn;"; }
        location /alice { ssl_client_allow cn=alice; return 200 in; }
        location /bob { ssl_client_allow cn=bob; return 200 in; }
        location /not-eve { ssl_client_deny cn=eve; return 200 in; }
        """)
    let twice = try twice(scene, cast)
    for (path, status) in [("/alice", 403), ("/bob", 403), ("/not-eve", 403), ("/", 200)] {
      let result = try await scene.curl(cast.to(front.port) + twice.curl + ["https://localhost\(path)"])
      #expect(result.status == status, "\(path)")
      if path == "/" { #expect(result.text == "cn=;") }
    }
    try await front.daemon.logged("[error]", "access forbidden by rule at", "the certificate's cn is ambiguous")
    let alone = try await scene.curl(cast.to(front.port) + cast.alice.curl + ["https://localhost/"])
    #expect(alone.text == "cn=alice;")
    #expect(try await scene.curl(cast.to(front.port) + cast.alice.curl + ["https://localhost/alice"]).status == 200)
  }

  /// Without a subjectAltName the common name counts, as in nginx: where there is one.
  @Test func `is no upstream that either of them names`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    func server(_ names: [String], _ file: String) async throws -> UInt16 {
      var builder = CertificateBuilder(commonName: "", .leaf([.serverAuth]))
      builder.subject = names.map { (.commonName, $0) }
      let files = try scene.identity(file, builder.signed(by: cast.authority.root, key: .generate()))
      return try await OpenSSLServer.start(scene, files, name: file, "-www").port
    }
    let (one, two) = (try await server(["up.test"], "one"), try await server(["other.test", "up.test"], "two"))
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); proxy_ssl_verify on; proxy_ssl_trusted_certificate ca.pem;
        proxy_ssl_name up.test;
        location /one { proxy_pass https://127.0.0.1:\(one)/; } location /two { proxy_pass https://127.0.0.1:\(two)/; } }
      """)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/one"]).status == 200)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/two"]).status == 502)
  }
}
