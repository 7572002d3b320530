import Crypto
import Glibc
@testable import TLS
import TestSupport
import Testing

/// Certificates that a front has sent in a field: judged as in a handshake, and remembered like its chains.
@Suite struct `Chains that a front has sent` {
  let cast: Cast
  init() throws { cast = try Cast.shared.get() }

  private let digest = [UInt8](repeating: 7, count: 32)
  private var now: Int64 { Int64(time(nil)) }

  private func judged(_ identity: CertifiedKey, by block: ServerTLSContext) -> ClientVerdict {
    block.judge([identity.certificate] + identity.chain, from: digest, at: now).verdict
  }

  @Test(arguments: TestAuthority.ClientKind.allCases)
  func `the verdict is that of a handshake`(kind: TestAuthority.ClientKind) async throws {
    let block = try cast.block(.on), identity = try cast.clients.client(kind)
    let met = try await meet(Blocks(block), cast.client(identity)).verdict
    switch (judged(identity, by: block), met) {
    case (.verified(let chain), .verified(let other)):
      #expect([chain.leaf] + chain.others == [other.leaf] + other.others)
    case (.refused(let leaf, let code, let reason, _), .refused(let other, let otherCode, let otherReason, _)):
      #expect(leaf == other && code == otherCode && reason == otherReason)
    case (let ours, let theirs): Issue.record("\(ours), and in a handshake \(theirs)")
    }
  }

  @Test func `a list refuses whom it revokes, and everybody if it has ended`() throws {
    let identity = try cast.clients.client()
    func block(_ revoked: [Certificate], until end: Int64) throws -> ServerTLSContext {
      var list = RevocationListBuilder(revoking: revoked, number: 1)
      list.thisUpdate = now - 7200
      list.nextUpdate = end
      let scene = try Scene()
      defer { scene.end() }
      let path = try scene.write("crl.pem", text: list.pem(signedBy: cast.clients.root))
      return try cast.block(.on, revocations: RevocationList.loadAll(MaterialReference(path: path)))
    }
    if case .refused(_, let code, _, _) = try judged(identity, by: block([], until: now + 3600)) {
      Issue.record("refused: \(code)")
    }
    for block in [
      try block([identity.certificate], until: now + 3600), try block([identity.certificate], until: now - 3600),
      try block([], until: now - 3600),
    ] {
      guard case .refused = judged(identity, by: block) else {
        Issue.record("a revoked client got in")
        continue
      }
      #expect(block.knownChain(digest, at: now) == nil)
    }
  }

  @Test func `only a verified chain is remembered, by its digest, and not past its end`() throws {
    let block = try cast.block(.on)
    _ = judged(try cast.clients.client(.expired), by: block)
    #expect(block.knownChain(digest, at: now) == nil)
    var builder = CertificateBuilder(commonName: "brief", .leaf([.clientAuth]), names: [.dns("brief.test")])
    builder.notAfter = now + 100
    let brief = try builder.signed(by: cast.clients.root, key: .generate())
    _ = judged(brief, by: block)
    #expect(block.knownChain(digest, at: now)?.chain.leaf == brief.certificate)
    #expect(block.knownChain(digest, at: now)?.end == now + 100)
    #expect(block.knownChain([UInt8](repeating: 8, count: 32), at: now) == nil)
    #expect(block.knownChain(digest, at: now + 101) == nil)
    #expect(block.knownChain(digest, at: now) == nil)
    // A handshake's cache is another one.
    #expect(block.verifiedChains.count == 0)
    // Without a digest, nothing is.
    _ = block.judge([brief.certificate], at: now)
    #expect(block.relayedChains.count == 0)
  }

  @Test func `nobody is judged without a certificate, or by a server block that asks for none`() throws {
    for (block, shown) in [
      (try cast.block(.on), []), (try cast.block(.off), [try cast.clients.client().certificate]),
    ] {
      guard case .absent = block.judge(shown, at: now).verdict else {
        Issue.record("somebody was judged")
        continue
      }
    }
  }
}
