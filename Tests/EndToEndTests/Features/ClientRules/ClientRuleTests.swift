import Crypto
import Foundation
import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `Rules on who a client is` {
  static let versions = [["--tlsv1.2", "--tls-max", "1.2"], ["--tlsv1.3"]]

  @Test(arguments: versions) func `rules let in whom they name, deny first, and say which line denied`(
    version: [String]
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(
      scene,
      server: """
        ssl_client_allow "o=Example + Sons" dns=alice.example;
        ssl_client_allow cn=bob;
        ssl_client_allow cn=eve;
        ssl_client_deny  email=~eve@.*;
        """)
    let clients = try ["bob", "eve", "carol"].map {
      try scene.identity($0, cast.authority.client(commonName: $0))
    }
    for (client, status) in zip([cast.alice] + clients, [200, 200, 403, 403]) {
      let result = try await scene.curl(cast.to(front.port) + client.curl + version + ["https://localhost/"])
      #expect(result.status == status, "\(client.certificate)")
      if status == 403 { #expect(result.text.contains("403 Forbidden")) }
    }
    #expect(front.upstream.connections == 2)
    let line =
      scene.text("sallyport.conf").split(separator: "\n", omittingEmptySubsequences: false)
      .firstIndex { $0.hasPrefix("ssl_client_allow \"o=") } ?? 0
    try await front.daemon.logged(
      "[error]", "access forbidden by rule at",
      "sallyport.conf:\(line + 4):1: ssl_client_deny email=~eve@.*, subject: \"CN=eve,")
    try await front.daemon.logged(
      "[error]", "access forbidden by rule at", "sallyport.conf:\(line + 1):1: no ssl_client_allow matches \"CN=carol,")
  }

  @Test func `on one connection each location has its own word`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(
      scene, server: "ssl_client_allow cn=alice;",
      locations: """
        location / { proxy_pass UPSTREAM; }
        location /bob/ { ssl_client_allow cn=bob; proxy_pass UPSTREAM; }
        location /both/ { ssl_client_allow cn=bob; ssl_client_allow cn=alice; proxy_pass UPSTREAM;
          location /both/nested/ { proxy_pass UPSTREAM; }
          location /both/less/ { ssl_client_deny cn=alice; proxy_pass UPSTREAM; } }
        """)
    let answers = try await scene.ask(tls: front.port, identity: cast.alice) { client in
      try ["/", "/bob/", "/", "/both/", "/both/nested/", "/both/less/", "/bob/", "/"].map { path in
        try client.get(path).status
      }
    }
    #expect(answers == [200, 403, 200, 200, 200, 403, 403, 200])
  }

  @Test(arguments: versions) func `an optional certificate is demanded where a rule asks for one`(
    version: [String]
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(
      scene, verify: "optional",
      locations: """
        location / { return 200 "open"; }
        location /closed/ { ssl_client_allow cn=**; proxy_pass UPSTREAM; location /closed/in/ { proxy_pass UPSTREAM; } }
        location /said/ { ssl_client_allow cn=**; return 200 "secret"; }
        location /page/ { ssl_client_allow cn=**; error_page 403 =200 /sorry; proxy_pass UPSTREAM; }
        location /loop/ { ssl_client_allow cn=**; error_page 403 =200 /said/; proxy_pass UPSTREAM; }
        location /named/ { ssl_client_allow cn=**; error_page 403 =200 @said; proxy_pass UPSTREAM; }
        location /into/ { error_page 404 =200 /closed/x; return 404; }
        location /denied/ { ssl_client_deny cn=alice; return 200 "open"; }
        location = /sorry { return 200 "a certificate, please"; }
        location @said { ssl_client_allow cn=**; return 200 "secret"; }
        """)
    func ask(_ path: String, _ identity: IdentityFiles? = nil) async throws -> CurlResult {
      try await scene.curl(cast.to(front.port) + (identity?.curl ?? []) + version + ["https://localhost\(path)"])
    }
    #expect(try await ask("/").text == "open")
    for path in ["/closed/", "/closed/in/x", "/closed", "/said/", "/loop/", "/named/", "/into/"] {
      let result = try await ask(path)
      #expect(result.status == 403, "\(path)")
      #expect(!result.text.contains("secret") && result.text.contains("403 Forbidden"), "\(path)")
    }
    #expect(front.upstream.connections == 0)
    // The page of a location without rules is shown.
    #expect(try await ask("/page/").text == "a certificate, please")
    #expect(try await ask("/denied/").status == 200)
    try await front.daemon.logged("[error]", "access forbidden by rule at", "no verified certificate")
    for (path, status) in [
      ("/closed/", 200), ("/closed/in/x", 200), ("/closed", 301), ("/said/", 200), ("/denied/", 403),
    ] {
      #expect(try await ask(path, cast.alice).status == status, "\(path)")
    }
  }

  @Test func `a return of the server itself is for whom its rules let in`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(
      scene, verify: "optional", server: "ssl_client_allow cn=alice; return 200 secret;", locations: "")
    #expect(try await scene.curl(cast.to(front.port) + cast.alice.curl + ["https://localhost/"]).text == "secret")
    #expect(try await scene.curl(cast.to(front.port) + ["https://localhost/"]).status == 403)
  }

  @Test func `optional_no_ca: a leaf that nobody verified has no identity`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(scene, verify: "optional_no_ca", server: "ssl_client_allow cn=alice;")
    let forged = try scene.identity("forged", TestAuthority("Other").client(commonName: "alice"))
    #expect(try await scene.curl(cast.to(front.port) + cast.alice.curl + ["https://localhost/"]).status == 200)
    #expect(try await scene.curl(cast.to(front.port) + forged.curl + ["https://localhost/"]).status == 403)
    #expect(front.upstream.connections == 1)
  }

  @Test func `CVE-2025-66220: a name with a NUL in it is nobody's`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(scene, server: "ssl_client_allow dns=alice.example;")
    for bytes in [Array("alice.example\0.evil.test".utf8), Array("evil.test\0alice.example".utf8)] {
      let mallory = try CertificateBuilder(
        commonName: "mallory", .leaf([.clientAuth]), names: [.raw(.dns, bytes), .dns("alice.example")]
      ).signed(by: cast.authority.root, key: .generate())
      let client = try scene.identity("mallory", mallory)
      #expect(try await scene.curl(cast.to(front.port) + client.curl + ["https://localhost/"]).status == 403)
    }
    #expect(front.upstream.connections == 0)
    try await front.daemon.logged("[error]", "the certificate's dns has a control character")
  }

  @Test(arguments: versions) func `CVE-2023-2422: certificates that are merely sent say nothing of who somebody is`(
    version: [String]
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(
      scene, server: "ssl_client_allow cn=admin; ssl_client_deny cn=mallory; client_identity rfc9440;")
    let admin = try cast.authority.client(commonName: "admin"),
      mallory = try cast.authority.client(commonName: "mallory")
    let alice = cast.alice.certified
    for leaf in [mallory, alice] {
      let file = try scene.identity("leaf", leaf)
      try scene.write("leaf.pem", text: leaf.certificate.pem + admin.certificate.pem)
      let result = try await scene.curl(cast.to(front.port) + file.curl + version + ["https://localhost/"])
      #expect(result.status == 403)
    }
    #expect(front.upstream.connections == 0)
    // And what is sent beside it is in no chain.
    let file = try scene.identity("admin", admin)
    try scene.write("admin.pem", text: admin.certificate.pem + mallory.certificate.pem + alice.certificate.pem)
    let result = try await scene.curl(cast.to(front.port) + file.curl + version + ["https://localhost/head"])
    #expect(result.status == 200 && result.text.contains("Client-Cert: :"))
    #expect(!result.text.contains("Client-Cert-Chain"))
  }
}
