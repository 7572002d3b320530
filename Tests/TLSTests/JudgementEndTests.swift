import Crypto
import Glibc
@testable import TLS
import TestSupport
import Testing

/// OpenSSL judges in handshakes only. A connection that outlives what its peer was judged by is judged again.
@Suite struct `When a judgement ends` {
  let cast: Cast
  init() throws { cast = try Cast.shared.get() }

  private var now: Int64 { Int64(time(nil)) }

  private func lists(begin: Int64, end: Int64) throws -> [RevocationList] {
    var list = RevocationListBuilder(revoking: [], number: 1)
    (list.thisUpdate, list.nextUpdate) = (begin, end)
    let scene = try Scene()
    defer { scene.end() }
    return try RevocationList.loadAll(
      MaterialReference(path: scene.write("crl.pem", text: list.pem(signedBy: cast.clients.root))))
  }

  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `the client's certificate ends it, in a full handshake and in a resumed one`(version: TLSVersions) async throws {
    let end = now + 1000, store = SessionStore(limit: 10)
    let blocks = try Blocks(cast.block(.on, store: store))
    let client = try cast.client(cast.clients.client(until: end), versions: version)
    let first = try await meet(blocks, client), again = try await meet(blocks, client)
    #expect(!first.isResumed && again.isResumed)
    #expect(first.clientEnd == end && again.clientEnd == end)
  }

  @Test func `a revocation list ends it, and so does the begin of another one`() async throws {
    let now = self.now, soon = now + 500, client = try cast.client(cast.clients.client())
    let ends = try Blocks(cast.block(.on, revocations: lists(begin: now - 60, end: soon)))
    #expect(try await meet(ends, client).clientEnd == soon)
    let list = try lists(begin: now - 60, end: now + 5000) + lists(begin: soon, end: now + 9000)
    #expect(try await meet(Blocks(cast.block(.on, revocations: list)), client).clientEnd == soon)
  }

  @Test func `a client that nothing verified is judged again when a certificate that it sent ends`() async throws {
    let end = now + 1000
    var builder = CertificateBuilder(commonName: "self", .leaf([.clientAuth]))
    builder.notAfter = end
    let blocks = try Blocks(cast.block(.optionalNoCA))
    let met = try await meet(blocks, cast.client(builder.selfSigned(key: .generate())))
    #expect(met.verdict.short == "unverified" && met.clientEnd == end)
  }

  @Test func `there is none without a certificate, after a refusal, and for a pin of a key`() async throws {
    let blocks = try Blocks(cast.block(.optional)), identity = try cast.clients.client(until: now + 1000)
    #expect(try await meet(blocks, cast.client(nil)).clientEnd == .max)
    #expect(try await meet(blocks, cast.client(cast.strangers.client(until: now + 1000))).clientEnd == .max)
    let pinned = try Blocks(
      cast.block(.on, authorities: [], pins: PinSet([pin(identity)], mode: .publicKey)))
    let met = try await meet(pinned, cast.client(identity))
    #expect(met.verdict.short == "pinned" && met.clientEnd == .max)
  }

  @Test func `what has ended before a judgement has its part in it, and doesn't end it again`() throws {
    let now = self.now
    let block = try cast.block(.on, revocations: lists(begin: now - 60, end: now + 500))
    let client = try cast.clients.client(until: now + 1000)
    let verdict = ClientVerdict.verified(
      VerifiedChain(unjudged: client.certificate, others: [cast.clients.root.certificate]))
    #expect(block.judgementEnd(of: verdict, sent: [], at: now) == now + 500)
    #expect(block.judgementEnd(of: verdict, sent: [], at: now + 500) == now + 1000)
    #expect(block.judgementEnd(of: verdict, sent: [], at: now + 1000) > now + 1000)
  }

  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `an upstream's certificate ends its judgement, also in a resumed session`(version: TLSVersions) async throws {
    let end = now + 1000
    var builder = CertificateBuilder(commonName: "up.test", .leaf([.serverAuth]), names: [.dns("up.test")])
    builder.notAfter = end
    let certificate = try builder.signed(by: cast.upstreams.root, key: .generate())
    let blocks = try Blocks(cast.block(.off, certificate: certificate, store: SessionStore(limit: 10)))
    let policy = try cast.policy(versions: version)
    #expect(try await meet(blocks, policy).serverEnd == end)
    let again = try await meet(blocks, policy)
    #expect(again.isResumed && again.serverEnd == end)
    // Nobody is judged.
    #expect(try await meet(blocks, cast.client(nil, versions: version)).serverEnd == .max)
  }
}
