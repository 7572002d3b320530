import Crypto
import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `OCSP of clients` {
  private func daemon(_ scene: Scene, _ ocsp: String) async throws -> (daemon: Sallyport, port: UInt16) {
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) \(ocsp)
        location / { return 200 "verify=$ssl_client_verify\n"; } }
      """)
    return (daemon, port)
  }

  private func ask(_ scene: Scene, _ cast: Cast, _ port: UInt16, _ who: IdentityFiles) async throws -> CurlResult {
    try await scene.curl(cast.to(port) + who.curl + ["https://localhost/"])
  }

  @Test(arguments: ["on", "leaf"]) func `CVE-2026-28755: only whom the responder calls good gets in`(extent: String)
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let eve = try scene.identity("eve", cast.authority.client(commonName: "eve"))
    let responder = try await OCSPResponder(
      scene, cast.authority.root,
      [(cast.alice.certified.certificate, .good), (bob.certified.certificate, .revoked)])
    let (daemon, port) = try await daemon(scene, "ssl_ocsp \(extent); ssl_ocsp_responder \(responder.url);")
    let good = try await ask(scene, cast, port, cast.alice)
    #expect(good.status == 200 && good.text == "verify=SUCCESS\n")
    let revoked = try await ask(scene, cast, port, bob)
    #expect(revoked.status == 400 && revoked.text.contains("The SSL certificate error"))
    try await daemon.logged("certificate revoked")
    #expect(try await ask(scene, cast, port, eve).status == 400)
    try await daemon.logged("does not know certificate")
    responder.stop()
    #expect(try await ask(scene, cast, port, cast.alice).status == 400)
    try await daemon.logged("certificate status request failed", "no answer")
  }

  /// The server block remembers the chain that it verified (docs/decisions/0028), but never what a responder said of it.
  @Test func `a certificate that turns from good to revoked is refused, although its chain was verified before`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let alice = cast.alice.certified.certificate
    let before = try await OCSPResponder(scene, cast.authority.root, [(alice, .good)])
    let (daemon, port) = try await daemon(scene, "ssl_ocsp leaf; ssl_ocsp_responder \(before.url);")
    for _ in 0..<2 { #expect(try await ask(scene, cast, port, cast.alice).status == 200) }
    before.stop()
    let after = try await OCSPResponder(
      scene, cast.authority.root, [(alice, .revoked)], name: "later", port: before.port)
    #expect(try await ask(scene, cast, port, cast.alice).status == 400)
    try await daemon.logged("certificate revoked")
    after.stop()
  }

  @Test func `an intermediate that is revoked takes its clients with it, unless the leaf alone is asked about`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let carol = try scene.identity("carol", cast.authority.client(.viaIntermediate, commonName: "carol"))
    // One URL for both authorities: `openssl ocsp` speaks for one, so each extent has a server block of its own.
    let forIntermediate = try await OCSPResponder(
      scene, cast.authority.root, [(cast.authority.intermediate.certificate, .revoked)], name: "root-ocsp")
    let forLeaf = try await OCSPResponder(
      scene, cast.authority.intermediate, [(carol.certified.certificate, .good)], name: "intermediate-ocsp")
    let (one, leafPort) = try await daemon(
      scene, "ssl_verify_depth 2; ssl_ocsp leaf; ssl_ocsp_responder \(forLeaf.url);")
    #expect(try await ask(scene, cast, leafPort, carol).status == 200)
    one.process.stop()
    unlink(scene.path("sallyport.pid"))
    let (_, chainPort) = try await daemon(
      scene, "ssl_verify_depth 2; ssl_ocsp on; ssl_ocsp_responder \(forIntermediate.url);")
    #expect(try await ask(scene, cast, chainPort, carol).status == 400)
  }

  @Test func `a certificate makes the server ask no address of its own; the operator may name one`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene), asked = try ScriptedUpstream(scene) { _, _ in }
    _ = try scene.identity("root", cast.authority.root)
    func carol(_ host: String, _ port: UInt16) async throws -> [String] {
      try scene.write(
        "extensions", text: "extendedKeyUsage=clientAuth\nauthorityInfoAccess=OCSP;URI:http://\(host):\(port)/\n")
      try await scene.succeed(
        "openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=carol",
        "-keyout",
        "carol.key", "-out", "carol.csr")
      try await scene.succeed(
        "openssl", "x509", "-req", "-in", "carol.csr", "-CA", "root.pem", "-CAkey", "root.key", "-days", "1",
        "-extfile",
        "extensions", "-out", "carol.pem")
      return ["--cert", scene.path("carol.pem"), "--key", scene.path("carol.key")]
    }
    let (daemon, port) = try await daemon(scene, "ssl_ocsp leaf;")
    for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254"] {
      let refused = try await scene.curl(
        cast.to(port) + (try await carol(host, asked.port)) + ["https://localhost/"])
      #expect(refused.status == 400, "\(host)")
    }
    try await daemon.logged("is an address of this machine or its link", "ssl_ocsp_responder")
    #expect(asked.connections == 0)
    let words = try await carol("127.0.0.1", asked.port)
    let certificate = try #require(Certificate.loadAll(MaterialReference(path: scene.path("carol.pem"))).first)
    let responder = try await OCSPResponder(scene, cast.authority.root, [(certificate, .good)])
    daemon.process.stop()
    unlink(scene.path("sallyport.pid"))
    let (_, other) = try await self.daemon(scene, "ssl_ocsp leaf; ssl_ocsp_responder \(responder.url);")
    #expect(try await scene.curl(cast.to(other) + words + ["https://localhost/"]).status == 200)
  }

  @Test func `an answer that somebody else signed is none`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let stranger = try CertificateBuilder(commonName: "Stranger", .leaf([.ocspSigning])).selfSigned(key: .generate())
    let responder = try await OCSPResponder(
      scene, cast.authority.root, [(cast.alice.certified.certificate, .good)], signer: stranger)
    let (daemon, port) = try await daemon(scene, "ssl_ocsp leaf; ssl_ocsp_responder \(responder.url);")
    #expect(try await ask(scene, cast, port, cast.alice).status == 400)
    try await daemon.logged("is signed neither by the issuer")
  }

  @Test func `whom the issuer certified for it may sign`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let delegate = try CertificateBuilder(commonName: "Delegate", .leaf([.ocspSigning]))
      .signed(by: cast.authority.root, key: .generate())
    let responder = try await OCSPResponder(
      scene, cast.authority.root, [(cast.alice.certified.certificate, .good)], signer: delegate)
    let (_, port) = try await daemon(scene, "ssl_ocsp leaf; ssl_ocsp_responder \(responder.url);")
    #expect(try await ask(scene, cast, port, cast.alice).status == 200)
  }

  @Test func `a kept answer serves while the responder is away`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let responder = try await OCSPResponder(
      scene, cast.authority.root, [(cast.alice.certified.certificate, .good)])
    let (daemon, port) = try await daemon(
      scene, "ssl_ocsp leaf; ssl_ocsp_responder \(responder.url); ssl_ocsp_cache shared:ocsp:1m;")
    #expect(try await ask(scene, cast, port, cast.alice).status == 200)
    responder.stop()
    #expect(try await ask(scene, cast, port, cast.alice).status == 200)
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured")
    #expect(try await ask(scene, cast, port, cast.alice).status == 200, "a reload takes the answers over")
  }

  /// A response of the root's about alice, as a responder sends it: good for an hour, or without an end of its own.
  private func response(_ scene: Scene, _ cast: Cast, hasEnd: Bool = true) async throws -> [UInt8] {
    try scene.write(
      "index.txt", text: "V\t301231235959Z\t\t\(cast.alice.certified.certificate.serial)\tunknown\t/CN=alice\n")
    _ = try scene.identity("root", cast.authority.root)
    try await scene.succeed(
      "openssl", "ocsp", "-issuer", scene.path("ca.pem"), "-cert", cast.alice.certificate, "-no_nonce", "-reqout",
      "request.der")
    let responder = [
      "ocsp", "-index", scene.path("index.txt"), "-CA", scene.path("ca.pem"), "-rsigner", scene.path("root.pem"),
      "-rkey", scene.path("root.key"), "-reqin", scene.path("request.der"), "-respout", scene.path("answer.der"),
    ]
    let made = try await scene.run("openssl", responder + (hasEnd ? ["-nmin", "60"] : []))
    try #require(made.status == 0, "\(made.everything)")
    return scene.bytes("answer.der")
  }

  private static let type = ["Content-Type: application/ocsp-response"]

  @Test func `a transfer that failed fails its own client alone, whatever kind of failure it was`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let good = try await response(scene, cast)
    let responder = try ScriptedUpstream(scene) { wire, number in
      guard number > 0 else { return }
      _ = try wire.request()
      switch number {
      case 1: try wire.answer("later", status: "503 Service Unavailable", closing: true)
      case 2: try wire.answer("no DER", fields: Self.type, closing: true)
      case 3: try wire.answer(bytes: Array(good.prefix(40)), fields: Self.type, closing: true)
      case 4: try wire.answer("", status: "302 Found", fields: ["Location: http://127.0.0.1:1/"], closing: true)
      default: try wire.answer(bytes: good, fields: Self.type, closing: true)
      }
    }
    let (_, port) = try await daemon(scene, "ssl_ocsp leaf; ssl_ocsp_responder http://127.0.0.1:\(responder.port)/;")
    for number in 0..<5 {
      #expect(try await ask(scene, cast, port, cast.alice).status == 400, "transfer \(number)")
      #expect(responder.connections == number + 1, "the responder is asked again after each failure")
    }
    #expect(try await ask(scene, cast, port, cast.alice).status == 200)
    // RFC 5019 §5: short questions go by GET.
    #expect(responder.requests("POST") == 0 && responder.requests("GET") == 5)
  }

  @Test func `a time-out lets the next question through as a probe, and what is kept of others counts on`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let good = try await response(scene, cast)
    let responder = try ScriptedUpstream(scene) { wire, number in
      if number == 1 { return _ = try wire.readToEnd() }
      _ = try wire.request()
      try wire.answer(bytes: good, fields: Self.type, closing: true)
    }
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let (daemon, port) = try await daemon(
      scene,
      "ssl_ocsp leaf; ssl_ocsp_responder http://127.0.0.1:\(responder.port)/; ssl_ocsp_cache shared:ocsp:1m;")
    #expect(try await ask(scene, cast, port, cast.alice).status == 200)
    #expect(try await ask(scene, cast, port, bob).status == 400)
    try await daemon.logged("certificate status request failed", "no answer in time")
    #expect(try await ask(scene, cast, port, cast.alice).status == 200)
    // The answer is alice's: no fault of the transfer, so the responder is heard again, and bob is not let in by it.
    #expect(try await ask(scene, cast, port, bob).status == 400)
    #expect(responder.connections == 3)
    try await daemon.logged("certificate status request failed", "for another certificate")
  }

  @Test func `a question that makes a URL of more than 255 bytes goes by POST`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let good = try await response(scene, cast)
    let responder = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.request()
      try wire.answer(bytes: good, fields: Self.type, closing: true)
    }
    let path = String(repeating: "p", count: 200)
    let (_, port) = try await daemon(
      scene, "ssl_ocsp leaf; ssl_ocsp_responder http://127.0.0.1:\(responder.port)/\(path);")
    #expect(try await ask(scene, cast, port, cast.alice).status == 200)
    #expect(responder.requests("POST") == 1 && responder.requests("GET") == 0)
  }

  @Test func `many clients at once are asked about once each, and all get their answer`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let responder = try await OCSPResponder(
      scene, cast.authority.root, [(cast.alice.certified.certificate, .good)])
    let (_, port) = try await daemon(
      scene, "ssl_ocsp leaf; ssl_ocsp_responder \(responder.url); ssl_ocsp_cache shared:ocsp:1m;")
    try await withThrowingTaskGroup(of: Int.self) { group in
      for _ in 0..<12 {
        group.addTask { try await ask(scene, cast, port, cast.alice).status }
      }
      for try await status in group { #expect(status == 200) }
    }
  }

  @Test func `a Host never leads past a responder that another server block asks`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let responder = try await OCSPResponder(
      scene, cast.authority.root, [(cast.alice.certified.certificate, .revoked)])
    let port = try scene.port()
    func block(_ name: String, _ ocsp: String) -> String {
      """
      server { listen 127.0.0.1:\(port) ssl; server_name \(name); \(Cast.tls) \(ocsp)
        location / { return 200 "\(name)\n"; } }
      """
    }
    _ = try await Sallyport.start(
      scene,
      configuration(block("a.test", "") + block("b.test", "ssl_ocsp leaf; ssl_ocsp_responder \(responder.url);")))
    #expect(try await scene.curl(cast.to(port) + cast.alice.curl + ["https://a.test/"]).status == 200)
    #expect(try await scene.curl(cast.to(port) + cast.alice.curl + ["https://b.test/"]).status == 400)
    let crossed = try await scene.curl(cast.to(port) + cast.alice.curl + ["-H", "Host: b.test", "https://a.test/"])
    #expect(crossed.status == 421)
  }

  @Test func `an answer without an end of its own is kept for an hour from when it was made, no longer`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let answer = try await response(scene, cast, hasEnd: false)
    let made = Int64(time(nil))
    let question = OCSPRequest(of: cast.alice.certified.certificate, issuedBy: cast.authority.root.certificate)
    // As if it came an hour late: what counts is when it was made.
    let judged = try question.judge(answer, now: made + 3500)
    #expect(judged.status == .good && judged.validUntil <= made + 3600)
  }

  @Test func `a responder that never answers ends in nginx's 400 or at the handshake's time, never in a 200`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let silent = try ScriptedUpstream(scene) { wire, _ in _ = try wire.readToEnd() }
    let (_, port) = try await daemon(
      scene,
      "ssl_ocsp leaf; ssl_ocsp_responder http://127.0.0.1:\(silent.port)/; client_header_timeout 1s;")
    let answer = try await ask(scene, cast, port, cast.alice)
    #expect(answer.status != 200)
  }
}

@Suite(.staged) struct Stapling {
  private func status(_ scene: Scene, _ port: UInt16) async throws -> String {
    try await scene.run(
      "openssl",
      ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", "localhost", "-status"], input: []
    ).everything
  }

  private func start(_ scene: Scene, _ stapling: String) async throws -> (Sallyport, UInt16) {
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; ssl_certificate server.pem;
        ssl_certificate_key server.key; ssl_trusted_certificate ca.pem; ssl_stapling on; \(stapling)
        location / { return 200; } }
      """)
    return (daemon, port)
  }

  @Test func `the responder's answer is stapled, and stays when the responder goes and after a reload`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try scene.identity("server", cast.authority.server(names: ["localhost"]))
    let responder = try await OCSPResponder(scene, cast.authority.root, [(server.certified.certificate, .good)])
    let (daemon, port) = try await start(scene, "ssl_stapling_responder \(responder.url);")
    try await daemon.logged("OCSP for", "stapled")
    #expect(try await status(scene, port).contains("Cert Status: good"))
    responder.stop()
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured")
    #expect(try await status(scene, port).contains("Cert Status: good"))
  }

  @Test func `an answer that calls us revoked is not stapled`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try scene.identity("server", cast.authority.server(names: ["localhost"]))
    let responder = try await OCSPResponder(scene, cast.authority.root, [(server.certified.certificate, .revoked)])
    let (daemon, port) = try await start(scene, "ssl_stapling_responder \(responder.url);")
    try await daemon.logged("[error]", "revoked: not stapled")
    try await until("health to say so") {
      try await scene.sallyport("health", "--config", scene.path("sallyport.conf")).text.contains(
        "WARN    OCSP response: no OCSP response is sent with the certificate of")
    }
    #expect(try await status(scene, port).contains("OCSP response: no response sent"))
  }

  @Test func `a response in a file is stapled; one of another certificate is told and left out`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try scene.identity("server", cast.authority.server(names: ["localhost"]))
    let responder = try await OCSPResponder(
      scene, cast.authority.root, [(server.certified.certificate, .good), (cast.alice.certified.certificate, .good)])
    for (subject, file) in [(server.certificate, "good.der"), (cast.alice.certificate, "other.der")] {
      let made = try await scene.run(
        "openssl",
        [
          "ocsp", "-issuer", scene.path("ca.pem"), "-cert", subject, "-url", responder.url, "-noverify", "-no_nonce",
          "-respout", scene.path(file),
        ])
      #expect(made.status == 0)
    }
    let (daemon, port) = try await start(scene, "ssl_stapling_file good.der;")
    #expect(try await status(scene, port).contains("Cert Status: good"))
    rename(scene.path("other.der"), scene.path("good.der"))
    try await daemon.logged("[warn]", "is not stapled", "for another certificate")
  }
}
