import Bytes
import Crypto
import Glibc
import TestSupport
import Testing

@testable import TLS

/// Attacks on the cache of verified chains: each time a chain is kept that a full verification would refuse now or here.
@Suite(.timeLimit(.minutes(10))) struct `Attacks on kept chains` {
  let cast: Cast
  init() throws { cast = try Cast.shared.get() }

  private func list(_ revoked: [Certificate], number: Int, begins: Int64) throws -> RevocationList {
    var builder = RevocationListBuilder(revoking: revoked, number: number)
    builder.thisUpdate = begins
    let scene = try Scene()
    defer { scene.end() }
    let pem = try builder.pem(signedBy: cast.clients.root)
    return try RevocationList.loadAll(MaterialReference(path: scene.write("crl.pem", text: pem)))[0]
  }

  @Test func `a list from the future counts from its beginning on, for kept chains and for sessions`() async throws {
    let identity = try cast.clients.client(), now = Int64(time(nil)), begin = now + 5
    let lists = [
      try list([], number: 1, begins: now - 3600), try list([identity.certificate], number: 2, begins: begin),
    ]
    let block = try cast.block(.on, revocations: lists), blocks = Blocks(block)
    let keeping = try [TLSVersions.tls12, .tls13].map { version in
      (
        blocks: Blocks(try cast.block(.on, store: SessionStore(limit: 10), revocations: lists)),
        client: try cast.client(identity, versions: version)
      )
    }
    // On a slow machine the list may begin meanwhile; then nothing was kept, and there is nothing to see.
    func isSo(_ expected: Bool) -> Bool { expected || Int64(time(nil)) >= begin }
    for _ in 0..<2 {
      let met = try await meet(blocks, cast.client(identity))
      #expect(isSo(met.verdict.short == "verified"))
    }
    #expect(isSo(block.verifiedChains.found == 1))
    for (blocks, client) in keeping {
      #expect(try await meet(blocks, client).isResumed == false)
      let next = try await meet(blocks, client)
      #expect(isSo(next.isResumed))
    }
    while Int64(time(nil)) <= begin { usleep(50_000) }
    #expect(try await meet(blocks, cast.client(identity)).verdict.short == "refused 23")
    for (blocks, client) in keeping {
      let met = try await meet(blocks, client)
      #expect(!met.isResumed && met.verdict.short == "refused 23")
    }
  }

  @Test func `what is kept ends with the first list, or with the beginning of a list or CA`() throws {
    let now = Int64(time(nil))
    var builder = CertificateBuilder(commonName: "Later", .authority(pathLength: nil))
    builder.notBefore = now + 200
    let later = try builder.selfSigned(key: .generate()).certificate
    let plain = try TrustAnchors(.certificates([cast.clients.root.certificate]))
    #expect(plain.judgementEnd(of: now) == nil)
    let begun = try list([], number: 1, begins: now - 10), coming = try list([], number: 2, begins: now + 300)
    let ends = try #require(begun.nextUpdate)
    let anchors = try TrustAnchors(
      .certificates([cast.clients.root.certificate, later]), revocations: [coming, begun])
    #expect(anchors.judgementEnd(of: now) == now + 200)
    #expect(anchors.judgementEnd(of: now + 200) == now + 300)
    #expect(anchors.judgementEnd(of: now + 300) == min(ends, coming.nextUpdate ?? ends))
    #expect(anchors.judgementEnd(of: now - 11) == now - 10)
    #expect(anchors.judgementEnd(of: .max) != nil && anchors.judgementEnd(of: .min) != nil)
  }

  @Test func `a list that ends while the chain is kept refuses`() async throws {
    let identity = try cast.clients.client()
    var builder = RevocationListBuilder(revoking: [])
    builder.nextUpdate = Int64(time(nil)) + 4
    let scene = try Scene()
    defer { scene.end() }
    let pem = try builder.pem(signedBy: cast.clients.root)
    let lists = try RevocationList.loadAll(MaterialReference(path: scene.write("crl.pem", text: pem)))
    let block = try cast.block(.on, revocations: lists), blocks = Blocks(block)
    // On a slow machine the list may end meanwhile; then nothing was kept, and there is nothing to see.
    func isSo(_ expected: Bool) -> Bool { expected || Int64(time(nil)) >= builder.nextUpdate }
    for _ in 0..<2 {
      let met = try await meet(blocks, cast.client(identity))
      #expect(isSo(met.verdict.short == "verified"))
    }
    #expect(isSo(block.verifiedChains.found == 1))
    while Int64(time(nil)) <= builder.nextUpdate { usleep(50_000) }
    #expect(try await meet(blocks, cast.client(identity)).verdict.short == "refused 12")
  }

  @Test func `a chain that a lax server block keeps opens no stricter one of the same listener`() async throws {
    let deep = try cast.clients.client(.tooDeep), good = try cast.clients.client()
    let weak = try CertificateBuilder(commonName: "weak", .leaf([.clientAuth]))
      .signed(by: cast.clients.root, key: .generate(.rsa(bits: 1024)))
    let now = Int64(time(nil)), old = "ALL:@SECLEVEL=0"
    let lax = try cast.block(
      .on, depth: 9, versions: [.tls12], ciphers: "ALL:@SECLEVEL=1")
    let revoking = try cast.block(.on, revocations: [list([good.certificate], number: 1, begins: now - 10)])
    let strict = try [
      "depth.test": cast.block(.on), "level.test": cast.block(.on, versions: [.tls12]), "list.test": revoking,
      "optional.test": cast.block(.optional, authorities: [cast.strangers.root.certificate]),
      "no-ca.test": cast.block(.optionalNoCA, authorities: [cast.strangers.root.certificate]),
    ]
    let blocks = Blocks(lax, named: strict)
    for identity in [deep, weak, good] {
      for _ in 0..<2 {
        let met = try await meet(blocks, cast.client(identity, versions: [.tls12], ciphers: old))
        #expect(met.verdict.short == "verified")
      }
    }
    #expect(lax.verifiedChains.found == 3)
    for (identity, name, verdict) in [
      (deep, "depth.test", "refused 22"), (weak, "level.test", "refused 66"), (good, "list.test", "refused 23"),
      (good, "optional.test", "refused"), (good, "no-ca.test", "unverified"),
    ] {
      for _ in 0..<2 {
        let met = try await meet(blocks, cast.client(identity, versions: [.tls12], ciphers: old), name: name)
        #expect(met.verdict.short.hasPrefix(verdict), "\(name): \(met.verdict.short)")
      }
    }
    #expect(strict.values.allSatisfy { $0.verifiedChains.count == 0 })
  }

  @Test func `the same leaf with other intermediates, or in another order, is another chain`() async throws {
    let identity = try cast.clients.client(.viaIntermediate), real = cast.clients.intermediate.certificate
    let forged = try CertificateBuilder(commonName: "Clients Intermediate", .authority(pathLength: nil))
      .signed(by: cast.strangers.root, key: .generate()).certificate
    let extra = cast.strangers.intermediate.certificate
    let block = try cast.block(.on), blocks = Blocks(block)
    for (index, chain) in [[real], [real, extra], [extra, real]].enumerated() {
      let sent = CertifiedKey(certificate: identity.certificate, chain: chain, key: identity.key)
      #expect(try await meet(blocks, cast.client(sent)).verdict.short == "verified")
      #expect(block.verifiedChains.count == index + 1 && block.verifiedChains.found == 0)
    }
    for chain in [[forged], [extra], []] {
      let sent = CertifiedKey(certificate: identity.certificate, chain: chain, key: identity.key)
      #expect(try await meet(blocks, cast.client(sent)).verdict.short.hasPrefix("refused"))
    }
    #expect(block.verifiedChains.count == 3 && block.verifiedChains.found == 0)
  }

  @Test func `a leaf of the same names from a CA of the same name is another chain`() async throws {
    let real = try cast.clients.client()
    let impostor = try TestAuthority("Clients").client()
    let block = try cast.block(.on), blocks = Blocks(block)
    for _ in 0..<2 { #expect(try await meet(blocks, cast.client(real)).verdict.short == "verified") }
    for _ in 0..<2 { #expect(try await meet(blocks, cast.client(impostor)).verdict.short.hasPrefix("refused")) }
    #expect(block.verifiedChains.count == 1 && block.verifiedChains.found == 1)
  }

  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `a connection that a reload moves is judged by its own leaf, though another's chain is kept`(
    version: TLSVersions
  ) async throws {
    let good = try cast.client(cast.clients.client(), versions: version)
    let impostor = try cast.client(TestAuthority("Clients").client(), versions: version)
    // It verifies neither, so both move with nothing but their leaves.
    let lax = try Blocks(cast.block(.optionalNoCA, authorities: [cast.strangers.root.certificate]))
    let block = try cast.block(.on), strict = Blocks(block)
    for found in 0..<2 {
      let met = try await meet(lax, good, moving: strict)
      #expect(met.isMoved && met.verdict.short == "verified" && block.verifiedChains.count == 1)
      #expect(block.verifiedChains.found == found)
    }
    let met = try await meet(lax, impostor, moving: strict)
    #expect(met.verdict.short.hasPrefix("refused"), "\(met.verdict.short)")
    #expect(block.verifiedChains.found == 1 && block.verifiedChains.count == 1)
  }

  private static func key(_ number: Int) -> VerifiedChainCache.Key { .init(digest: Digest.of(Array("\(number)".utf8))) }

  @Test func `what is used stays, and what was found too late doesn't come back with the clock`() throws {
    let cache = VerifiedChainCache()
    let chain = VerifiedChain(
      unjudged: try cast.clients.client().certificate, others: [cast.clients.root.certificate])
    cache.keep(chain, for: Self.key(0), judgementEnd: nil, now: 1000)
    for number in 1...2000 {
      #expect(cache.find(Self.key(0), now: 1000) != nil)
      cache.keep(chain, for: Self.key(number), judgementEnd: nil, now: 1000)
    }
    #expect(cache.count == 1024 && cache.find(Self.key(1), now: 1000) == nil)
    #expect(cache.find(Self.key(0), now: 1600) == nil && cache.find(Self.key(0), now: 1000) == nil)
    #expect(cache.find(Self.key(2000), now: 999) == nil && cache.find(Self.key(2000), now: 1000) == nil)
    let count = cache.count
    cache.keep(chain, for: Self.key(3000), judgementEnd: 1000, now: 1000)
    #expect(cache.count == count, "a judgement that has ended takes no place from another")
    cache.keep(chain, for: Self.key(1), judgementEnd: nil, now: .max)
    #expect(cache.find(Self.key(1), now: .max) == nil, "a time that can't be added to")
  }

  @Test func `workers that use it at once get the chain of their own key`() async throws {
    let cache = VerifiedChainCache()
    let chains = try (0..<8).map { _ in
      VerifiedChain(unjudged: try cast.clients.client().certificate, others: [cast.clients.root.certificate])
    }
    let wrong = await withTaskGroup(of: Int.self) { group in
      for worker in 0..<8 {
        group.addTask {
          var wrong = 0
          for step in 0..<4000 {
            let number = (step &* 7 &+ worker) % 1500
            if let found = cache.find(Self.key(number), now: 1000) {
              if found.chain.leaf != chains[number % 8].leaf { wrong += 1 }
            } else {
              cache.keep(chains[number % 8], for: Self.key(number), judgementEnd: nil, now: 1000)
            }
            if cache.count > 1024 { wrong += 1 }
          }
          return wrong
        }
      }
      return await group.reduce(0, +)
    }
    #expect(wrong == 0)
    #expect(cache.found > 0)
  }
}
