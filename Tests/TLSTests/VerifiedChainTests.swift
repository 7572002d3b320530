import Crypto
import Glibc
import Synchronization
@testable import TLS
import TestSupport
import Testing

/// The cache of verified chains: what it must never admit.
@Suite(.timeLimit(.minutes(10))) struct `Verified chains` {
  let cast: Cast
  init() throws { cast = try Cast.shared.get() }

  private static func key(_ byte: UInt8) -> VerifiedChainCache.Key { .init(digest: Array(repeating: byte, count: 32)) }

  /// A chain of a leaf that ends at a time.
  private func chain(endsAt end: Int64) throws -> VerifiedChain {
    var builder = CertificateBuilder(commonName: "brief", .leaf([.clientAuth]), names: [.dns("brief.test")])
    builder.notAfter = end
    let leaf = try builder.signed(by: cast.clients.root, key: .generate())
    return VerifiedChain(unjudged: leaf.certificate, others: [cast.clients.root.certificate])
  }

  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `the second handshake finds the chain of the first`(version: TLSVersions) async throws {
    let block = try cast.block(.on, versions: version), blocks = Blocks(block)
    for kind in [TestAuthority.ClientKind.good, .viaIntermediate] {
      let identity = try cast.clients.client(kind), found = block.verifiedChains.found
      for _ in 0..<3 {
        let met = try await meet(blocks, cast.client(identity, versions: version))
        guard case .verified(let chain) = met.verdict else { Issue.record("\(met)"); return }
        #expect(chain.leaf == identity.certificate && chain.others.last == cast.clients.root.certificate)
        #expect(!met.isResumed)
      }
      #expect(block.verifiedChains.found == found + 2)
    }
    #expect(block.verifiedChains.count == 2)
  }

  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `connections of one client hold the certificates once, and a client with others its own`(
    version: TLSVersions
  ) async throws {
    let block = try cast.block(.on, versions: version), blocks = Blocks(block)
    let identity = try cast.clients.client(.viaIntermediate)
    func held(_ key: CertifiedKey) async throws -> [OpaquePointer] {
      let held = try await meet(blocks, cast.client(key, versions: version)).held
      #expect(held == [key.certificate] + key.chain)
      return held.map(\.handle)
    }
    let first = try await held(identity)
    #expect(Set(first).count == 2)
    for _ in 0..<3 { #expect(try await held(identity) == first) }
    #expect(try await Set(held(cast.clients.client(.viaIntermediate))).isDisjoint(with: first))
    // What is sent besides the chain stays the connection's own.
    let stranger = cast.strangers.root.certificate
    let more = try #require(
      CertifiedKey(
        certificate: identity.certificate, chain: [stranger] + identity.chain + [stranger], key: identity.key))
    let once = try await held(more), twice = try await held(more)
    #expect(once[0] == twice[0] && once[2] == twice[2])
  }

  @Test func `connections that are judged again by a kept chain leave each certificate its own references`()
    async throws
  {
    let client = try cast.client(cast.clients.client(.viaIntermediate)), first = try Blocks(cast.block(.on))
    let other = try cast.block(.on, authorities: [cast.clients.root.certificate, cast.strangers.root.certificate])
    let next = Blocks(other)
    for _ in 0..<100 {
      let met = try await meet(first, client, moving: next)
      #expect(met.isMoved && met.verdict.short == "verified")
    }
    #expect(other.verifiedChains.found > 0)
  }

  @Test func `no refused chain is kept`() async throws {
    for verification in [ClientVerification.on, .optional, .optionalNoCA] {
      let block = try cast.block(verification), blocks = Blocks(block)
      for kind in [TestAuthority.ClientKind.expired, .notYetValid, .selfSigned, .serverAuthOnly, .tooDeep] {
        for _ in 0..<2 {
          #expect(try await meet(blocks, cast.client(cast.clients.client(kind))).verdict.short != "verified", "\(kind)")
        }
      }
      for _ in 0..<2 {
        #expect(try await meet(blocks, cast.client(cast.strangers.client())).verdict.short != "verified")
      }
      #expect(block.verifiedChains.count == 0)
    }
  }

  @Test func `another server block judges anew, and so does the same block after a reload`() async throws {
    let client = try cast.client(cast.clients.client())
    let block = try cast.block(.on), blocks = Blocks(block)
    for _ in 0..<2 { #expect(try await meet(blocks, client).verdict.short == "verified") }
    let removed = try Blocks(cast.block(.on, authorities: [cast.strangers.root.certificate]))
    #expect(try await meet(removed, client).verdict.short != "verified")
    let named = Blocks(
      block, named: ["other.test": try cast.block(.on, authorities: [cast.strangers.root.certificate])])
    #expect(try await meet(named, client).verdict.short == "verified")
    #expect(try await meet(named, client, name: "other.test").verdict.short != "verified")
  }

  @Test func `a leaf without the intermediate that it came with before is another chain`() async throws {
    let identity = try cast.clients.client(.viaIntermediate)
    let bare = CertifiedKey(certificate: identity.certificate, chain: [], key: identity.key)
    let blocks = try Blocks(cast.block(.on))
    #expect(try await meet(blocks, cast.client(identity)).verdict.short == "verified")
    #expect(try await meet(blocks, cast.client(bare)).verdict.short != "verified")
    #expect(try await meet(blocks, cast.client(identity)).verdict.short == "verified")
  }

  @Test func `rules judge each handshake`() async throws {
    let
      block = try cast.block(
        .on, rules: HandshakeRules(fingerprint: [1], needsCertificate: false), rejection: .handshake),
      blocks = Blocks(block)
    let client = try cast.client(cast.clients.client())
    #expect(try await meet(blocks, client).serverFailure == nil)
    blocks.rules.withLock { $0 = "denied now" }
    #expect(try await meet(blocks, client).serverFailure != nil && block.verifiedChains.found == 1)
  }

  @Test func `a leaf that ends while its chain is kept is refused`() async throws {
    var builder = CertificateBuilder(commonName: "brief", .leaf([.clientAuth]), names: [.dns("brief.test")])
    builder.notAfter = Int64(time(nil)) + 3
    let identity = try builder.signed(by: cast.clients.root, key: .generate())
    let block = try cast.block(.on), blocks = Blocks(block)
    let first = try await meet(blocks, cast.client(identity))
    // On a slow machine it may end meanwhile; then nothing was kept, and there is nothing to see.
    #expect(
      first.verdict.short == "verified" && block.verifiedChains.count == 1 || Int64(time(nil)) >= builder.notAfter)
    while Int64(time(nil)) < builder.notAfter { usleep(50_000) }
    #expect(try await meet(blocks, cast.client(identity)).verdict.short != "verified")
    #expect(block.verifiedChains.count == 0)
  }

  @Test
  func `a chain is kept until its certificates or a list end, for ten minutes at most, and never before its time`()
    throws
  {
    let cache = VerifiedChainCache()
    let brief = try chain(endsAt: 1_000_100), long = try chain(endsAt: 4_000_000_000)
    cache.keep(brief, for: Self.key(1), judgementEnd: nil, now: 1_000_000)
    #expect(cache.find(Self.key(1), now: 1_000_099) != nil && cache.find(Self.key(1), now: 1_000_100) == nil)
    cache.keep(long, for: Self.key(2), judgementEnd: 1_000_050, now: 1_000_000)
    #expect(cache.find(Self.key(2), now: 1_000_049) != nil && cache.find(Self.key(2), now: 1_000_050) == nil)
    cache.keep(long, for: Self.key(3), judgementEnd: nil, now: 1_000_000)
    #expect(cache.find(Self.key(3), now: 1_000_599) != nil && cache.find(Self.key(3), now: 1_000_600) == nil)
    cache.keep(long, for: Self.key(4), judgementEnd: nil, now: 1_000_000)
    #expect(cache.find(Self.key(4), now: 999_999) == nil, "a clock that was set back")
    cache.keep(long, for: Self.key(5), judgementEnd: 999_999, now: 1_000_000)
    cache.keep(brief, for: Self.key(6), judgementEnd: nil, now: 1_000_100)
    #expect(cache.find(Self.key(5), now: 1_000_000) == nil && cache.find(Self.key(6), now: 1_000_100) == nil)
    #expect(cache.find(Self.key(7), now: 1_000_000) == nil && cache.count == 0)
  }

  @Test func `the cache keeps a thousand chains and no more`() throws {
    let cache = VerifiedChainCache(), long = try chain(endsAt: 4_000_000_000)
    for number in 0..<3000 {
      let key = VerifiedChainCache.Key(digest: Digest.of(Array("\(number)".utf8)))
      cache.keep(long, for: key, judgementEnd: nil, now: 1)
    }
    #expect(cache.count == 1024)
  }
}
