import Crypto
import Foundation
import TestSupport
import Testing

/// Keys that never leave their token: towards clients, and towards an upstream that asks for a certificate.
@Suite(.staged, .enabled(if: SoftToken.isInstalled, "softhsm2 is not installed"))
struct `Keys of a PKCS#11 token` {
  /// server.pem and alice.pem, with no file of their keys.
  private func stage(_ scene: Scene, _ kind: PrivateKey.Kind = .p256) async throws -> (cast: Cast, token: SoftToken) {
    let cast = try Cast(scene)
    let token = try await SoftToken(scene)
    let server = try cast.authority.server(names: ["localhost"], key: .generate(kind))
    try scene.write("server.pem", text: server.certificate.pem)
    try await token.keep(server.key, as: "server", number: "01")
    try await token.keep(cast.alice.certified.key, as: "alice", number: "02")
    unlink(scene.path("server.key"))
    return (cast, token)
  }

  /// A front server with the token's key, behind it one that wants alice's certificate.
  private func servers(_ port: UInt16, _ inner: UInt16, server: String, alice: String, lines: String = "") -> String {
    configuration(
      """
      ssl_certificate server.pem; ssl_certificate_key "\(server)"; ssl_client_certificate ca.pem; ssl_verify_client on;
      \(lines)
      server {
        listen 127.0.0.1:\(port) ssl; server_name localhost;
        location / {
          proxy_pass https://127.0.0.1:\(inner); proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name localhost;
          proxy_set_header Host localhost; proxy_set_header X-Who $ssl_client_s_dn_cn;
          proxy_ssl_certificate alice.pem; proxy_ssl_certificate_key "\(alice)";
        }
      }
      server {
        listen 127.0.0.1:\(inner) ssl; server_name localhost;
        return 200 "$http_x_who by $ssl_client_s_dn_cn";
      }
      """)
  }

  /// Bob is served by both servers, before a reload and after it; the daemon then ends, and has told nobody the PIN.
  private func expectService(
    of daemon: Sallyport, to bob: IdentityFiles, _ cast: Cast, _ port: UInt16, _ keys: String = ""
  ) async throws {
    for generation in 1...2 {
      for version in `Client certificates`.versions {
        let result = try await cast.scene.curl(cast.to(port) + bob.curl + version + ["https://localhost/"])
        #expect(result.status == 200 && result.text == "bob by alice", "\(keys), \(version): \(result.text)")
      }
      guard generation == 1 else { break }
      daemon.signal(SIGHUP)
      try await daemon.logged("reconfigured: generation 2")
    }
    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended() == .exited(0))
    #expect(daemon.errors.isEmpty && !daemon.errorLog.contains(SoftToken.pin))
  }

  @Test(arguments: [PrivateKey.Kind.p256, .rsa(bits: 2048)])
  func `serve on both sides, by store and by engine, after a reload too`(kind: PrivateKey.Kind) async throws {
    let scene = try Scene.ofTest()
    let (cast, token) = try await stage(scene, kind)
    try scene.write("pin", text: SoftToken.pin)
    try scene.write("pins", text: "\(SoftToken.pin)\n")
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    for (server, alice, lines) in [
      (
        "store:pkcs11:token=test;object=server;pin-value=\(SoftToken.pin)",
        "engine:pkcs11:pkcs11:token=test;object=alice?pin-source=file:\(scene.path("pin"))", ""
      ),
      (
        "engine:pkcs11:label_server", "store:pkcs11:id=%02",
        "ssl_password_file pins; proxy_ssl_password_file pins;"
      ),
    ] {
      let (port, inner) = try (scene.port(), scene.port())
      let text = servers(port, inner, server: server, alice: alice, lines: lines)
      let daemon = try await Sallyport.start(scene, text, environment: token.environment)
      try await expectService(of: daemon, to: bob, cast, port, "\(server)")
      unlink(scene.path("sallyport.pid"))
      unlink(scene.path("error.log"))
    }
  }

  @Test(
    .enabled(if: SoftToken.provider != nil, "pkcs11-provider is not installed"),
    arguments: [PrivateKey.Kind.p256, .rsa(bits: 2048)])
  func `serve on both sides through a provider, after a reload too`(kind: PrivateKey.Kind) async throws {
    let scene = try Scene.ofTest()
    let (cast, token) = try await stage(scene, kind)
    try scene.write("pins", text: "\(SoftToken.pin)\n")
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let (port, inner) = try (scene.port(), scene.port())
    let text = servers(
      port, inner, server: "store:pkcs11:token=test;object=server;pin-value=\(SoftToken.pin)",
      alice: "store:pkcs11:token=test;object=alice", lines: "proxy_ssl_password_file pins;")
    let environment = try token.environmentOfProvider().merging(["OPENSSL_ENGINES": scene.folder]) { $1 }
    let daemon = try await Sallyport.start(scene, text, environment: environment)
    try await expectService(of: daemon, to: bob, cast, port)
  }

  @Test(.enabled(if: SoftToken.provider != nil, "pkcs11-provider is not installed"))
  func `through a provider, a wrong PIN and a missing key are told, not asked for, and not tried again`() async throws {
    let scene = try Scene.ofTest()
    let (_, token) = try await stage(scene)
    let environment = try token.environmentOfProvider()
    let (port, inner) = try (scene.port(), scene.port())
    for (key, reason) in [
      ("store:pkcs11:token=test;object=server;pin-value=9999", "no token has it, or its token refuses the PIN"),
      (
        "store:pkcs11:token=test;object=none;pin-value=\(SoftToken.pin)",
        "no token has it, or its token refuses the PIN"
      ), ("store:pkcs11:token=test;object=server", "no PIN for the token was given"),
    ] {
      try scene.write(
        "sallyport.conf", text: Sallyport.withUser(servers(port, inner, server: key, alice: "alice.key")))
      let check = try await scene.sallyport(
        "check", "--config", scene.path("sallyport.conf"), environment: environment)
      #expect(check.status == 1 && check.everything.contains(reason), "\(check.everything)")
      #expect(!check.everything.contains("Enter PIN") && !check.everything.contains("pin-value=9"))
    }
    try scene.write("server.key", text: "nothing yet\n")
    _ = try scene.identity("own", TestAuthority().server())
    let good = servers(port, inner, server: "own.key", alice: "alice.key").replacing("server.pem", with: "own.pem")
    let daemon = try await Sallyport.start(scene, good, environment: environment)
    try daemon.rewrite(
      servers(port, inner, server: "store:pkcs11:token=test;object=server;pin-value=9999", alice: "alice.key"))
    daemon.signal(SIGHUP)
    try await daemon.logged("its token refuses the PIN")
    daemon.signal(SIGHUP)
    try await daemon.logged("has refused this PIN before, and is not asked again")
  }

  @Test func `a wrong PIN, none, and a key that is not there stop the start, each with its reason`() async throws {
    let scene = try Scene.ofTest()
    let (_, token) = try await stage(scene)
    let (port, inner) = try (scene.port(), scene.port())
    try scene.write("wrong", text: "9999\n")
    for (key, lines, reason) in [
      ("store:pkcs11:token=test;object=server;pin-value=9999", "", "the token refuses the PIN (PIN incorrect"),
      ("engine:pkcs11:label_server", "ssl_password_file wrong;", "the token refuses the PIN (PIN incorrect"),
      ("store:pkcs11:token=test;object=server", "", "no PIN for the token was given"),
      ("engine:pkcs11:label_server", "", "no PIN for the token was given"),
      (
        "store:pkcs11:token=test;object=none;pin-value=\(SoftToken.pin)", "", "no such private key in any token"
      ),
      ("store:pkcs11:token=none;object=server;pin-value=9999", "", "no such private key in any token"),
      (
        "store:pkcs11:token=test;object=alice;pin-value=\(SoftToken.pin)", "",
        "the private key does not belong to the certificate in \"\(scene.path("server.pem"))\""
      ),
    ] {
      let text = servers(port, inner, server: key, alice: "alice.key", lines: lines)
      let shown = key.replacing(/pin-value=\w+/, with: "pin-value=…")
      let daemon = try Sallyport(scene, text, environment: token.environment)
      #expect(try await daemon.process.ended() == .exited(78), "\(key)")
      #expect(daemon.errors.contains("\"\(shown)\": \(reason)"), "\(key): \(daemon.errors)")
      #expect(!daemon.errors.contains("pin-value=9") && !daemon.errors.contains(SoftToken.pin))
      unlink(scene.path("sallyport.stderr"))
    }
  }

  @Test func `a wrong PIN is not tried again and again by a daemon that serves`() async throws {
    let scene = try Scene.ofTest()
    let (_, token) = try await stage(scene)
    let (port, inner) = try (scene.port(), scene.port())
    try scene.write("server.key", text: "nothing yet\n")
    _ = try scene.identity("own", TestAuthority().server())
    let good = servers(port, inner, server: "own.key", alice: "alice.key").replacing("server.pem", with: "own.pem")
    let daemon = try await Sallyport.start(scene, good, environment: token.environment)
    try daemon.rewrite(
      servers(port, inner, server: "store:pkcs11:token=test;object=server;pin-value=9999", alice: "alice.key"))
    daemon.signal(SIGHUP)
    try await daemon.logged("the token refuses the PIN")
    daemon.signal(SIGHUP)
    try await daemon.logged("has refused this PIN before, and is not asked again")
    // Nothing is wrong with the token.
    try daemon.rewrite(
      servers(
        port, inner, server: "store:pkcs11:token=test;object=server;pin-value=\(SoftToken.pin)", alice: "alice.key"))
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
  }

  @Test func `the engine is loaded for such a key alone, and its lack says what to install`() async throws {
    let scene = try Scene.ofTest()
    let (_, token) = try await stage(scene)
    let (port, inner) = try (scene.port(), scene.port())
    let key = "store:pkcs11:token=test;object=server;pin-value=\(SoftToken.pin)"
    let daemon = try await Sallyport.start(
      scene, servers(port, inner, server: key, alice: "alice.key"), environment: token.environment)
    func memory(_ daemon: Sallyport) async throws -> String {
      try await scene.succeed("cat", "/proc/\(daemon.process.identifier)/maps")
    }
    #expect(try await memory(daemon).contains("pkcs11.so"))
    daemon.process.stop()
    unlink(scene.path("sallyport.pid"))

    let lacking = try await scene.sallyport(
      "check", "--config", scene.path("sallyport.conf"),
      environment: token.environment.merging(["OPENSSL_ENGINES": scene.folder]) { $1 })
    #expect(lacking.status == 1)
    #expect(lacking.everything.contains("OpenSSL has neither a provider nor an engine for PKCS#11 here"))
    #expect(lacking.everything.contains("install libengine-pkcs11-openssl"))

    _ = try scene.identity("own", TestAuthority().server())
    let plain = try await Sallyport.start(
      scene, servers(port, inner, server: "own.key", alice: "alice.key").replacing("server.pem", with: "own.pem"),
      environment: token.environment)
    let loaded = try await memory(plain)
    #expect(loaded.contains("libssl") && !loaded.contains("pkcs11") && !loaded.contains("softhsm"))
  }
}
