import Crypto
import Glibc
import Synchronization
import TestSupport
import Testing
import Transport

@testable import TLS

@Suite(.timeLimit(.minutes(10))) struct `Responders that clients wait for` {
  private let client = OCSPClient(pool: BlockingPool())

  private func check(_ url: String, asking client: OCSPClient? = nil) throws -> ClientStatusCheck {
    var settings = ClientStatusSettings()
    settings.extent = .leaf
    settings.responder = StatusResponder(url)
    return try #require(ClientStatusCheck(settings, client ?? self.client))
  }

  @Test func `one that never answers holds up no question to another`() async throws {
    let scene = try Scene()
    defer { scene.end() }
    let authority = try TestAuthority()
    let client = try authority.client()
    let answering = try await OCSPResponder(scene, authority.root, [(client.certificate, .good)])
    let over = Flag()
    defer { over.raise() }
    let silent = try ScriptedUpstream(scene) { _, _ in over.wait() }
    let ended = Mutex(0)
    // The silent one is given up long after the other has answered, on a machine that is busy, too.
    let patient = OCSPClient(pool: BlockingPool(), timeLimit: 300_000)
    let silentCheck = try check("http://127.0.0.1:\(silent.port)/", asking: patient)
    // More than there are lanes of any kind; one question each.
    for index in 0..<24 {
      let other = try CertificateBuilder(commonName: "client \(index)", .leaf([.clientAuth]))
        .signed(by: authority.root, key: client.key)
      let chain = VerifiedChain(leaf: other.certificate, others: [authority.root.certificate])
      #expect(silentCheck.judge(chain) { _ in ended.withLock { $0 += 1 } } == nil)
    }
    try await until("the silent one to be asked") { silent.connections >= 4 }
    let chain = VerifiedChain(leaf: client.certificate, others: [authority.root.certificate])
    let goodCheck = try check(answering.url, asking: patient)
    let verdict = await withCheckedContinuation { continuation in
      let known = goodCheck.judge(chain) { continuation.resume(returning: $0) }
      #expect(known == nil)
    }
    guard case .good(let end) = verdict else { throw VerdictError("\(verdict)") }
    // A connection is judged again when the answer expires.
    #expect(end > Int64(time(nil)) && end < .max)
    #expect(goodCheck.known(chain) == nil, "the cache is off")
    #expect(ended.withLock { $0 } == 0, "the answer came before any of the silent one's questions was given up")
  }

  private func verdict(_ check: ClientStatusCheck, _ chain: VerifiedChain) async -> StatusVerdict {
    await withCheckedContinuation { continuation in
      let known = check.judge(chain) { continuation.resume(returning: $0) }
      if let known { continuation.resume(returning: known) }
    }
  }

  private func reason(_ check: ClientStatusCheck, _ chain: VerifiedChain) async -> String {
    if case .refused(_, let reason) = await verdict(check, chain) { reason } else { "let in" }
  }

  /// Otherwise each client would wait for the ten seconds of a time-out, or for five of silence.
  @Test func `one that refuses the connection has not let the time pass, and is asked again`() async throws {
    let scene = try Scene()
    defer { scene.end() }
    let authority = try TestAuthority()
    let chain = VerifiedChain(leaf: try authority.client().certificate, others: [authority.root.certificate])
    let check = try check("http://127.0.0.1:\(try scene.port())/")
    for _ in 0..<2 {
      let reason = await reason(check, chain)
      #expect(reason.contains("no answer: ") && !reason.contains("timeout"), "\(reason)")
    }
  }

  @Test(arguments: ["", "HTTP/1.0 200 OK\r\n", "HTTP/1.0 200 OK\r\nContent-Type: application/ocsp-response\r\n\r\n0"])
  func `one that says nothing more is given up when its time is over`(begin: String) throws {
    let scene = try Scene()
    defer { scene.end() }
    let over = Flag()
    defer { over.raise() }
    let silent = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.readSome()
      try wire.write(begin)
      over.wait()
    }
    let authority = try TestAuthority()
    let question = OCSPRequest(of: try authority.client().certificate, issuedBy: authority.root.certificate)
    let responder = try #require(StatusResponder("http://127.0.0.1:\(silent.port)/"))
    let fault = #expect(throws: OCSPError.self) { try responder.ask(question, now: Int64(time(nil)), within: 100) }
    #expect(fault?.isTimeout == true, "\(fault?.description ?? "")")
  }

  @Test func `a redirect is no answer`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.readSome()
      try wire.write("HTTP/1.0 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n")
    }
    let authority = try TestAuthority()
    let question = OCSPRequest(of: try authority.client().certificate, issuedBy: authority.root.certificate)
    let responder = try #require(StatusResponder("http://127.0.0.1:\(upstream.port)/"))
    let fault = #expect(throws: OCSPError.self) { try responder.ask(question, now: Int64(time(nil))) }
    #expect(fault?.isTimeout == false && upstream.connections == 1)
  }

  /// Ten seconds for each of four would be forty for a client.
  @Test func `several share the time, and one that answers soon leaves its rest to the others`() {
    let time = SharedTime(milliseconds: 10_000, now: 5)
    #expect(time.share(of: 4, now: 5) == 2500 && time.share(of: 3, now: 2505) == 2500)
    #expect(time.share(of: 3, now: 6) == 3333 && time.share(of: 1, now: 6) == 9999)
    #expect(time.share(of: 4, now: 10_004) == 1 && time.share(of: 1, now: 10_005) == nil)
    #expect(time.share(of: 0, now: 5) == 10_000 && time.share(of: 1, now: .max) == nil)
  }

  @Test func `each that a certificate names is asked in its turn, but for ldap and https`() async throws {
    let scene = try Scene()
    defer { scene.end() }
    let authority = try TestAuthority()
    _ = try scene.identity("root", authority.root)
    let urls = ["ldap://directory.test/", "http://127.0.0.1:1/first", "https://a.test/", "http://127.0.0.1:2/second"]
    try scene.write("extensions", text: "authorityInfoAccess=\(urls.map { "OCSP;URI:\($0)" }.joined(separator: ","))\n")
    try await scene.succeed(
      "openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=carol",
      "-keyout", "carol.key", "-out", "carol.csr")
    try await scene.succeed(
      "openssl", "x509", "-req", "-in", "carol.csr", "-CA", "root.pem", "-CAkey", "root.key", "-days", "1",
      "-extfile", "extensions", "-out", "carol.pem")
    let carol = try #require(Certificate.loadAll(MaterialReference(path: scene.path("carol.pem"))).first)
    let root = authority.root.certificate
    #expect(OCSPRequest(of: carol, issuedBy: root).responders.map(\.description) == [urls[1], urls[3]])
    var settings = ClientStatusSettings()
    settings.extent = .leaf
    let check = try #require(ClientStatusCheck(settings, client))
    // No certificate may make it ask an address of this machine, so neither has an answer.
    let reason = await reason(check, VerifiedChain(leaf: carol, others: [root]))
    #expect(reason.contains(urls[3]), "\(reason)")
  }

  @Test func `URLs of one host and port are one party, whatever the path`() throws {
    let addresses = try ["http://a.test/x", "http://A.test:80/y"].map { try #require(StatusResponder($0)).address }
    #expect(Set(addresses).count == 1)
    #expect(StatusResponder("http://a.test:81/x")?.address != addresses[0])
  }
}

private struct VerdictError: Error {
  let text: String
  init(_ text: String) { self.text = text }
}
