import Crypto
import Glibc
import Synchronization
import TestSupport
import Testing
import Transport

@testable import TLS

@Suite(.timeLimit(.minutes(10))) struct `Responders that clients wait for` {
  private let client = OCSPClient(pool: BlockingPool())

  private func check(_ url: String) throws -> ClientStatusCheck {
    var settings = ClientStatusSettings()
    settings.extent = .leaf
    settings.responder = StatusResponder(url)
    return try #require(ClientStatusCheck(settings, client))
  }

  @Test func `one that never answers holds up no question to another`() async throws {
    let scene = try Scene()
    defer { scene.end() }
    let authority = try TestAuthority()
    let client = try authority.client()
    let answering = try await OCSPResponder(scene, authority.root, [(client.certificate, .good)])
    let silent = try ScriptedUpstream(scene) { wire, _ in _ = try wire.readToEnd() }
    let ended = Mutex(0)
    let silentCheck = try check("http://127.0.0.1:\(silent.port)/")
    // More than there are lanes of any kind; one question each.
    for index in 0..<24 {
      let other = try CertificateBuilder(commonName: "client \(index)", .leaf([.clientAuth]))
        .signed(by: authority.root, key: client.key)
      let chain = VerifiedChain(leaf: other.certificate, others: [authority.root.certificate])
      #expect(silentCheck.judge(chain) { _ in ended.withLock { $0 += 1 } } == nil)
    }
    try await until("the silent one to be asked") { silent.connections >= 4 }
    let chain = VerifiedChain(leaf: client.certificate, others: [authority.root.certificate])
    let goodCheck = try check(answering.url)
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
