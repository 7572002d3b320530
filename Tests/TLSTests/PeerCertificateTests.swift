import COpenSSL
import Crypto
import TestSupport
import Testing

@testable import TLS

/// The certificates that clients send: what the server's library context leaves out, and what the handshake goes on with.
@Suite(.timeLimit(.minutes(10))) struct `Certificates that clients send` {
  let cast: Cast
  init() throws { cast = try Cast.shared.get() }

  private static let keys: [PrivateKey.Kind] =
    [.p256, .p384, .p521, .rsa(bits: 2048), .ed25519]
    + PostQuantumSignature.allCases.filter { $0.isOfTLS && $0.isAvailable }.map { .postQuantum($0) }

  /// A certificate whose key is of a kind that no OpenSSL knows.
  private func strange() throws -> Certificate {
    let identifier: [UInt8] = [0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01]
    var der = cast.strangers.root.certificate.der
    let place = try #require(der.indices.last { der[$0...].starts(with: identifier) })
    der[place + identifier.count - 1] = 0x7F
    return try Certificate(der: der)
  }

  /// A client that sends another's certificates, and signs by a key of its own.
  private func forger(of identity: CertifiedKey, _ version: TLSVersions) throws -> UpstreamTLSContext {
    let client = try cast.client(identity, versions: version)
    try forge(identity, on: client.handle)
    return client
  }

  @Test func `the library context of TLS decodes no key, and that of certificates does`() throws {
    let handshakes = try #require(HandshakeAlgorithms.context)
    let certificates = try #require(HandshakeAlgorithms.certificates)
    let der = cast.clients.root.certificate.der
    for (library, decodes) in [(handshakes, false), (certificates, true)] {
      var certificate = X509_new_ex(library, nil)
      defer { X509_free(certificate) }
      der.withUnsafeBufferPointer { bytes in
        var start = bytes.baseAddress
        #expect(d2i_X509(&certificate, &start, bytes.count) != nil)
      }
      #expect((X509_get0_pubkey(certificate) != nil) == decodes)
      ERR_clear_error()
    }
  }

  @Test func `a client with any kind of key is verified at its first handshake, and when its chain is kept`()
    async throws
  {
    for kind in Self.keys {
      let identity = try CertificateBuilder(commonName: "client", .leaf([.clientAuth]))
        .signed(by: cast.clients.root, key: .generate(kind))
      // TLS 1.2 has no signatures of ML-DSA, and takes keys of the groups' curves only.
      let versions: [TLSVersions] =
        switch kind {
        case .postQuantum, .p521: [.tls13]
        default: [.tls12, .tls13]
        }
      for version in versions {
        let block = try cast.block(.on, versions: version), blocks = Blocks(block)
        for _ in 0..<3 {
          let met = try await meet(blocks, cast.client(identity, versions: version))
          #expect(met.verdict.short == "verified", "\(kind) \(met)")
          #expect(met.held.map(\.keyKind) == [identity.certificate.keyKind])
        }
        #expect(block.verifiedChains.found == 2)
      }
    }
  }

  @Test(arguments: [ClientVerification.on, .optional, .optionalNoCA])
  func `whatever a client sends besides its chain has its key, the first time and later`(
    verification: ClientVerification
  ) async throws {
    let identity = try cast.clients.client(.viaIntermediate), stranger = cast.strangers.intermediate.certificate
    let more = try #require(
      CertifiedKey(
        certificate: identity.certificate, chain: identity.chain + [stranger, stranger], key: identity.key))
    let blocks = try Blocks(cast.block(verification))
    for _ in 0..<3 {
      let met = try await meet(blocks, cast.client(more))
      #expect(met.verdict.short == "verified" && met.held == [more.certificate] + more.chain)
      #expect(met.held.allSatisfy { $0.keyKind == .p256 }, "\(met.held.map(\.keyKind))")
    }
  }

  @Test func `a key that OpenSSL can't read stays unread, and the client with another one gets in`() async throws {
    let identity = try cast.clients.client(), strange = try strange()
    let more = try #require(CertifiedKey(certificate: identity.certificate, chain: [strange], key: identity.key))
    let blocks = try Blocks(cast.block(.on))
    for _ in 0..<2 {
      // OpenSSL sends such a certificate at level 0 alone.
      let met = try await meet(blocks, cast.client(more, ciphers: "DEFAULT:@SECLEVEL=0"))
      #expect(met.verdict.short == "verified" && met.held == [identity.certificate, strange])
      #expect(met.held.last.map(\.keyKind) == strange.keyKind && strange.keyKind != .p256)
    }
  }

  @Test func `a client that no CA vouches for is refused with its own certificates, of each of which the key is known`()
    async throws
  {
    let identity = try cast.strangers.client(.viaIntermediate)
    for rejection in [ClientRejection.http, .handshake] {
      let block = try cast.block(.on, rejection: rejection), blocks = Blocks(block)
      for _ in 0..<2 {
        let met = try await meet(blocks, cast.client(identity))
        if rejection == .handshake {
          #expect(met.serverFailure != nil && met.refused == [identity.certificate] + identity.chain)
          #expect(met.refused.allSatisfy { $0.keyKind == .p256 })
        } else {
          #expect(met.verdict.short.hasPrefix("refused") && met.held == [identity.certificate] + identity.chain)
          #expect(met.held.allSatisfy { $0.keyKind == .p256 })
        }
      }
      #expect(block.verifiedChains.count == 0)
    }
  }

  @Test func `pins judge the key that the client has`() async throws {
    let identity = try cast.strangers.client(), other = try cast.strangers.client()
    let block = try cast.block(.on, authorities: [], pins: PinSet([pin(identity)], mode: .publicKey))
    let blocks = Blocks(block)
    for _ in 0..<2 {
      #expect(try await meet(blocks, cast.client(identity)).verdict.short == "pinned")
      #expect(try await meet(blocks, cast.client(other)).verdict.short.hasPrefix("refused"))
    }
  }

  @Test func `clients that share nothing come in turns, and each is judged by its own certificates`() async throws {
    let known = try cast.clients.client(), other = try cast.clients.client(.viaIntermediate)
    let stranger = try cast.strangers.client()
    let store = SessionStore(limit: 10), block = try cast.block(.on, store: store), blocks = Blocks(block)
    let resuming = try cast.client(known)
    for _ in 0..<3 {
      let first = try await meet(blocks, resuming), second = try await meet(blocks, cast.client(stranger))
      let third = try await meet(blocks, cast.client(other)), fourth = try await meet(blocks, cast.client(nil))
      #expect(first.verdict.certificate == known.certificate && first.verdict.isVerified)
      #expect(second.verdict.certificate == stranger.certificate && !second.verdict.isVerified)
      #expect(third.verdict.certificate == other.certificate && third.verdict.isVerified)
      #expect(fourth.verdict.short == "absent")
    }
  }

  /// A stranger who sends a known client's certificates lacks the key, whether or not the chain is kept.
  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `the certificates of a client don't open without its key`(version: TLSVersions) async throws {
    let identity = try cast.clients.client(), thief = try forger(of: identity, version)
    let block = try cast.block(.on, versions: version), blocks = Blocks(block)
    for _ in 0..<2 { #expect(try await meet(blocks, cast.client(identity, versions: version)).verdict.isVerified) }
    for _ in 0..<2 {
      let met = try await meet(blocks, thief)
      #expect(met.serverFailure != nil && met.verdict.short == "absent")
    }
    #expect(block.verifiedChains.found == 3)
  }

  // MARK: Upstreams

  /// A key that names a certificate as its own, and signs by another key.
  private func forge(_ identity: CertifiedKey, on context: OpaquePointer) throws {
    let key = EC_KEY_new_by_curve_name(NID_X9_62_prime256v1), forged = EVP_PKEY_new()
    defer {
      EC_KEY_free(key)
      EVP_PKEY_free(forged)
    }
    let own = try PrivateKey.generate()
    EC_KEY_set_public_key(key, EC_KEY_get0_public_key(EVP_PKEY_get0_EC_KEY(identity.key.handle)))
    EC_KEY_set_private_key(key, EC_KEY_get0_private_key(EVP_PKEY_get0_EC_KEY(own.handle)))
    try #require(EVP_PKEY_set1_EC_KEY(forged, key) == 1 && SSL_CTX_use_PrivateKey(context, forged) == 1)
  }

  private func presenting(_ leaf: CertifiedKey, _ chain: [Certificate], _ version: TLSVersions) throws -> Blocks {
    let presented = try #require(CertifiedKey(certificate: leaf.certificate, chain: chain, key: leaf.key))
    return try Blocks(cast.block(.off, certificate: presented, versions: version))
  }

  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `an upstream's chain is verified once, and its name, pin and key each time`(version: TLSVersions) async throws {
    let leaf = try CertificateBuilder(commonName: "up.test", .leaf([.serverAuth]), names: [.dns("up.test")])
      .signed(by: cast.upstreams.intermediate, key: .generate())
    let chain = [cast.upstreams.intermediate.certificate], upstream = try presenting(leaf, chain, version)
    let policy = try cast.policy(pins: [pin(leaf)], versions: version)
    for _ in 0..<3 { #expect(try await meet(upstream, policy).trust == .trusted) }
    #expect(policy.verifiedChains.count == 1 && policy.verifiedChains.found > 0)
    #expect(try await meet(upstream, policy, name: "other.test").trust == .refused(.name(expected: "other.test")))
    // Without its intermediate it is another chain, and so is another leaf of the same CA.
    #expect(try await meet(presenting(leaf, [], version), policy).trust?.outcome == .chain)
    #expect(try await meet(presenting(cast.server, chain, version), policy).trust?.outcome == .pin)
    let thief = try cast.block(
      .off, certificate: CertifiedKey(certificate: leaf.certificate, chain: chain, key: leaf.key), versions: version)
    try forge(leaf, on: thief.handle)
    #expect(try await meet(Blocks(thief), policy).clientFailure != nil)
    #expect(try await meet(upstream, policy).clientFailure == nil)
  }

  @Test func `an upstream that no CA vouches for is refused each time, and its chain is not kept`() async throws {
    let stranger = try Blocks(cast.block(.off, certificate: cast.strangers.server(names: ["up.test"])))
    let policy = try cast.policy(), trusting = try Blocks(cast.block(.off))
    for _ in 0..<2 {
      #expect(try await meet(stranger, policy).trust?.outcome == .chain)
      #expect(try await meet(trusting, policy).trust == .trusted)
    }
    #expect(policy.verifiedChains.count == 1)
  }

  @Test func `an upstream whom nobody judges opens, and one whom its pin vouches for`() async throws {
    for kind in Self.keys {
      let leaf = try CertificateBuilder(commonName: "up.test", .leaf([.serverAuth]), names: [.dns("up.test")])
        .selfSigned(key: .generate(kind))
      let upstream = try Blocks(cast.block(.off, certificate: leaf))
      for _ in 0..<2 {
        #expect(try await meet(upstream, cast.policy(chain: false)).clientFailure == nil, "\(kind)")
        let pinned = try await meet(upstream, cast.policy(chain: false, pins: [pin(leaf)]))
        #expect(pinned.trust == .trustedByPin, "\(kind)")
      }
    }
  }
}
