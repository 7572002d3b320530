import Bytes
import Crypto
@testable import TLS
import TestSupport
import Testing

/// Whom `ssl_client_pin` lets in, beside CAs and in their place.
@Suite(.timeLimit(.minutes(10))) struct `Pins of clients` {
  let cast: Cast
  init() throws { cast = try Cast.shared.get() }

  /// The codes: 10 expired, 18 self-signed, 20 no issuer, 26 wrong purpose, 50 no pin matches, 66 weak key.
  private static let versions = [TLSVersions.tls12, .tls13]

  private func keys(_ clients: CertifiedKey..., scope: Pin.Scope = .leaf) throws -> PinSet {
    try PinSet(clients.map { Pin(.publicKey($0.certificate.spkiSHA256), scope: scope) }, mode: .publicKey)
  }

  private func files(_ clients: CertifiedKey...) throws -> PinSet {
    try PinSet(clients.map { Pin(.certificate($0.certificate)) }, mode: .certificate)
  }

  private func digests(_ clients: CertifiedKey...) throws -> PinSet {
    try PinSet(clients.map { Pin(.certificateDigest($0.certificate.sha256)) }, mode: .certificate)
  }

  private func alone(
    _ pins: PinSet, _ verification: ClientVerification = .on, store: SessionStore? = nil,
    rejection: ClientRejection = .http, ticketKeys: [TicketKey] = [], purpose: ClientPurpose = .client
  ) throws -> ServerTLSContext {
    try cast.block(
      verification, authorities: [], store: store, rejection: rejection, ticketKeys: ticketKeys, pins: pins,
      purpose: purpose)
  }

  // MARK: In place of CAs

  @Test(arguments: TestAuthority.ClientKind.allCases)
  func `without CAs, a pinned key lets its certificate in whatever else is wrong with it, and no other key`(
    kind: TestAuthority.ClientKind
  ) async throws {
    let pinned = try cast.strangers.client(kind), other = try cast.clients.client(kind)
    for verification in [ClientVerification.on, .optional, .optionalNoCA] {
      let blocks = try Blocks(alone(keys(pinned), verification))
      for version in Self.versions {
        #expect(try await meet(blocks, cast.client(pinned, versions: version)).verdict.short == "pinned")
        #expect(try await meet(blocks, cast.client(other, versions: version)).verdict.short == "refused 50")
        #expect(try await meet(blocks, cast.client(nil, versions: version)).verdict.short == "absent")
      }
    }
  }

  @Test func `a certificate of the same names and issuer matches no pin of another key`() async throws {
    let pinned = try cast.clients.client(), twin = try cast.clients.client()
    let blocks = try Blocks(alone(keys(pinned)))
    #expect(try await meet(blocks, cast.client(twin)).verdict.short == "refused 50")
  }

  @Test func `a new certificate for a pinned key matches a pin of the key, and none of the certificate`() async throws {
    let first = try cast.clients.client()
    let renewed = try CertificateBuilder(commonName: "root", .leaf([.clientAuth])).selfSigned(key: first.key)
    #expect(try await meet(Blocks(alone(keys(first))), cast.client(renewed)).verdict.short == "pinned")
    #expect(try await meet(Blocks(alone(files(first))), cast.client(renewed)).verdict.short == "refused 50")
    #expect(try await meet(Blocks(alone(digests(first))), cast.client(renewed)).verdict.short == "refused 50")
  }

  @Test(arguments: [
    (TestAuthority.ClientKind.good, "verified"), (.viaIntermediate, "verified"), (.selfSigned, "verified"),
    (.tooDeep, "verified"), (.expired, "refused 10"), (.notYetValid, "refused 9"), (.serverAuthOnly, "refused 26"),
  ])
  func `a certificate that its file pins is an anchor of its own, whose dates and usage count`(
    kind: TestAuthority.ClientKind, verdict: String
  ) async throws {
    let pinned = try cast.strangers.client(kind)
    // Others that are pinned too must not stand in for it, nor spoil it.
    let blocks = try Blocks(
      alone(files(cast.strangers.client(.expired), pinned, cast.strangers.root, cast.strangers.intermediate)))
    for version in Self.versions {
      let met = try await meet(blocks, cast.client(pinned, versions: version))
      #expect(met.verdict.short == verdict)
      if case .verified(let chain) = met.verdict { #expect(chain.leaf == pinned.certificate && chain.others.isEmpty) }
    }
    #expect(try await meet(Blocks(alone(digests(pinned))), cast.client(pinned)).verdict.short == "pinned")
    let other = try cast.strangers.client(kind)
    #expect(
      try await meet(blocks, cast.client(other)).verdict.short == "refused 50",
      "what a pinned CA signs is not pinned")
  }

  @Test func `a pin excuses no key that anybody can compute`() async throws {
    let weak = try CertificateBuilder(commonName: "weak", .leaf([.clientAuth]))
      .selfSigned(key: .generate(.rsa(bits: 768)))
    let fair = try CertificateBuilder(commonName: "fair", .leaf([.clientAuth]))
      .selfSigned(key: .generate(.rsa(bits: 1024)))
    let blocks = try Blocks(alone(keys(weak, fair)))
    for version in [TLSVersions.tls12] {
      let client = try cast.client(weak, versions: version, ciphers: "ALL:@SECLEVEL=0")
      #expect(try await meet(blocks, client).verdict.short == "refused 66")
      let other = try cast.client(fair, versions: version, ciphers: "ALL:@SECLEVEL=0")
      #expect(try await meet(blocks, other).verdict.short == "pinned")
    }
  }

  // MARK: Beside CAs

  @Test(arguments: [
    (TestAuthority.ClientKind.good, "verified"), (.expired, "refused 10"), (.serverAuthOnly, "refused 26"),
    (.selfSigned, "refused 18"), (.tooDeep, "refused 22"),
  ])
  func `with CAs, a client passes by chain and pin, and a pin excuses nothing`(
    kind: TestAuthority.ClientKind, verdict: String
  ) async throws {
    let client = try cast.clients.client(kind), other = try cast.clients.client()
    for pins in try [keys(client), files(client), digests(client)] {
      let blocks = try Blocks(cast.block(.on, pins: pins))
      for version in Self.versions {
        #expect(try await meet(blocks, cast.client(client, versions: version)).verdict.short == verdict)
        // Twice: the second time, the chain is a kept one.
        for _ in 0..<2 {
          #expect(try await meet(blocks, cast.client(other, versions: version)).verdict.short == "refused 50")
        }
      }
    }
  }

  @Test func `a stranger with a pinned key stays a stranger`() async throws {
    let stranger = try cast.strangers.client()
    for pins in try [keys(stranger), files(stranger), digests(stranger)] {
      let block = try cast.block(.on, pins: pins)
      #expect(try await meet(Blocks(block), cast.client(stranger)).verdict.short == "refused 21")
      let lax = try Blocks(cast.block(.optionalNoCA, pins: pins))
      #expect(try await meet(lax, cast.client(stranger)).verdict.short == "unverified")
      #expect(try await meet(lax, cast.client(cast.strangers.client())).verdict.short == "refused 50")
      #expect(try await meet(lax, cast.client(cast.clients.client())).verdict.short == "refused 50")
      #expect(try await meet(lax, cast.client(cast.strangers.client(.expired))).verdict.short == "refused 10")
    }
  }

  // MARK: Only the client's own certificate counts

  @Test func `a pinned intermediate or root lets nobody in, unless it is a chain pin beside CAs`() async throws {
    let client = try cast.clients.client(.viaIntermediate)
    for upper in [cast.clients.intermediate, cast.clients.root] {
      for pins in try [keys(upper), files(upper), digests(upper)] {
        for version in Self.versions {
          let caller = try cast.client(client, versions: version)
          #expect(try await meet(Blocks(cast.block(.on, pins: pins)), caller).verdict.short == "refused 50")
          #expect(try await meet(Blocks(alone(pins)), caller).verdict.short == "refused 50")
        }
      }
      let caller = try cast.client(client), chained = try keys(upper, scope: .chain)
      #expect(try await meet(Blocks(cast.block(.on, pins: chained)), caller).verdict.short == "verified")
      #expect(try await meet(Blocks(alone(chained)), caller).verdict.short == "refused 50", "nothing is verified there")
    }
    let direct = try cast.client(cast.clients.client())
    let chained = try keys(cast.clients.intermediate, scope: .chain)
    #expect(try await meet(Blocks(cast.block(.on, pins: chained)), direct).verdict.short == "refused 50")
  }

  @Test func `CVE-2016-2402: a pinned certificate that is merely sent matches nothing`() async throws {
    let pinned = try cast.clients.client(), own = try cast.clients.client()
    let sent = try #require(CertifiedKey(certificate: own.certificate, chain: [pinned.certificate], key: own.key))
    for scope in [Pin.Scope.leaf, .chain] {
      let pins = try keys(pinned, scope: scope)
      for version in Self.versions {
        let caller = try cast.client(sent, versions: version)
        #expect(try await meet(Blocks(cast.block(.on, pins: pins)), caller).verdict.short == "refused 50")
        #expect(try await meet(Blocks(alone(pins)), caller).verdict.short == "refused 50")
      }
    }
    // As a CA above the attacker's own leaf.
    let above = try CertificateBuilder(commonName: "a", .leaf([.clientAuth])).signed(by: pinned, key: .generate())
    #expect(try await meet(Blocks(alone(files(pinned))), cast.client(above)).verdict.short == "refused 50")
    #expect(try await meet(Blocks(cast.block(.on, pins: keys(pinned))), cast.client(above)).verdict.short != "verified")
  }

  /// The certificate is public. This key has its public half, and another private one.
  private func forged(_ victim: CertifiedKey) throws -> CertifiedKey {
    let text = try victim.key.pem.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    var der = try Base64.decode(text.split(separator: "\n").filter { !$0.hasPrefix("-") }.joined())
    // ECPrivateKey (RFC 5915): version 1, then 32 octets.
    let mark: [UInt8] = [0x02, 0x01, 0x01, 0x04, 0x20]
    let place = try #require((0..<der.count - 40).first { Array(der[$0..<$0 + 5]) == mark })
    for index in 0..<32 { der[place + 5 + index] = UInt8(index + 1) }
    let key = try der.withUnsafeBytes { try PrivateKey(der: $0) }
    return try #require(CertifiedKey(certificate: victim.certificate, key: key))
  }

  @Test func `a pinned certificate without its key fails in the handshake, and leaves no session`() async throws {
    let pinned = try cast.clients.client(), thief = try forged(pinned)
    let store = SessionStore(limit: 10)
    for pins in try [keys(pinned), files(pinned)] {
      for block in try [alone(pins, store: store), cast.block(.on, store: store, pins: pins)] {
        for version in Self.versions {
          let met = try await meet(Blocks(block), cast.client(thief, versions: version))
          #expect(met.serverFailure != nil && met.verdict.short == "absent" && store.count == 0)
        }
      }
    }
    #expect(try await meet(Blocks(alone(keys(pinned))), cast.client(pinned)).verdict.short == "pinned")
  }

  // MARK: Sessions and reloads

  private func ticketKey() throws -> TicketKey {
    try #require([UInt8](repeating: 7, count: 48).withUnsafeBytes { TicketKey(SecretBytes(copying: $0)) })
  }

  @Test(arguments: [TLSVersions.tls12, .tls13], [false, true])
  func `a session of a pinned client resumes under the same pins only`(version: TLSVersions, sealed: Bool) async throws
  {
    let pinned = try cast.strangers.client(.expired), other = try cast.strangers.client()
    let tickets = sealed ? [try ticketKey()] : [], store = SessionStore(limit: 10)
    let before = try Blocks(alone(keys(pinned, other), store: store, ticketKeys: tickets))
    let after = try Blocks(alone(keys(other), store: store, ticketKeys: tickets))
    let client = try cast.client(pinned, versions: version)
    #expect(try await meet(before, client).isResumed == false)
    let again = try await meet(before, client)
    #expect(again.isResumed && again.verdict.short == "pinned")
    let removed = try await meet(after, client)
    #expect(!removed.isResumed)
    // TLS 1.2 refuses a session of another context by an alert.
    #expect(removed.serverFailure != nil || removed.verdict.short == "refused 50")
    #expect(try await meet(after, client).verdict.short == "refused 50")
  }

  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `a client with a refused pin leaves no session`(version: TLSVersions) async throws {
    let store = SessionStore(limit: 10), client = try cast.client(cast.clients.client(), versions: version)
    let pins = try keys(cast.strangers.client())
    for block in try [alone(pins, store: store), cast.block(.on, store: store, pins: pins)] {
      #expect(try await meet(Blocks(block), client).verdict.short == "refused 50")
      #expect(store.count == 0)
    }
  }

  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `an open connection is judged by the pins of the next generation`(version: TLSVersions) async throws {
    let pinned = try cast.clients.client(), other = try cast.clients.client()
    let client = try cast.client(pinned, versions: version)
    let before = try Blocks(alone(keys(pinned)))
    for (next, isLetIn, verdict) in try [
      (alone(keys(pinned, other)), true, "pinned"), (alone(keys(other)), true, "refused 50"),
      (alone(keys(other), rejection: .handshake), false, "refused 50"), (alone(files(pinned)), true, "verified"),
      (cast.block(.on), true, "verified"), (cast.block(.on, pins: keys(other)), true, "refused 50"),
      (cast.block(.on, authorities: [cast.strangers.root.certificate], pins: keys(pinned)), true, "refused 21"),
    ] {
      let met = try await meet(before, client, moving: Blocks(next))
      #expect(met.isMoved == isLetIn && met.verdict.short == verdict)
    }
  }

  @Test func `the client policy is made of the pins, their mode and the purpose, however they are written`() throws {
    let one = try cast.clients.client(), two = try cast.clients.client()
    let base = try alone(keys(one, two))
    #expect(try alone(keys(two, one, one)).clientPolicyDigest == base.clientPolicyDigest)
    #expect(
      try alone(PinSet([Pin(.certificate(one.certificate)), pin(two)], mode: .publicKey)).clientPolicyDigest
        == base.clientPolicyDigest)
    let different = try [
      alone(keys(one)), alone(keys(one, two, scope: .chain)), alone(files(one, two)), alone(digests(one, two)),
      alone(keys(one, two), purpose: .any), cast.block(.on, pins: keys(one, two)), cast.block(.on),
      cast.block(.on, purpose: .any),
    ]
    #expect(different.allSatisfy { $0.clientPolicyDigest != base.clientPolicyDigest })
    #expect(Set(different.map(\.clientPolicyDigest)).count == different.count)
  }

  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `ssl_verify_reject handshake tells the key of a client that no pin matches`(version: TLSVersions) async throws {
    let other = try cast.clients.client()
    let blocks = try Blocks(alone(keys(cast.clients.client()), rejection: .handshake))
    let met = try await meet(blocks, cast.client(other, versions: version))
    #expect(met.clientFailure != nil)
    let key = Pin.spelling(publicKeyDigest: other.certificate.spkiSHA256)
    #expect(
      met.serverFailure?.contains(
        "(50:application verification failure: no ssl_client_pin matches it; its key is \(key))") == true)
  }
}

/// What `ssl_client_purpose any` excuses.
@Suite(.timeLimit(.minutes(10))) struct `The purpose of clients' certificates` {
  let cast: Cast
  init() throws { cast = try Cast.shared.get() }

  private func verdict(
    _ identity: CertifiedKey, _ purpose: ClientPurpose, _ verification: ClientVerification = .on,
    authorities: [Certificate]? = nil
  ) async throws -> Set<String> {
    let blocks = try Blocks(cast.block(verification, authorities: authorities, purpose: purpose))
    var found: Set<String> = []
    // Twice: the second time, a chain may be a kept one.
    for version in [TLSVersions.tls12, .tls13, .tls12, .tls13] {
      found.insert(try await meet(blocks, cast.client(identity, versions: version)).verdict.short)
    }
    return found
  }

  @Test func `any lets a certificate in that is one for servers only`() async throws {
    let server = try cast.clients.client(.serverAuthOnly)
    #expect(try await verdict(server, .client) == ["refused 26"])
    for mode in [ClientVerification.on, .optional, .optionalNoCA] {
      #expect(try await verdict(server, .any, mode) == ["verified"])
      #expect(try await verdict(cast.clients.client(), .any, mode) == ["verified"])
    }
  }

  @Test func `any excuses nothing else of such a certificate`() async throws {
    var old = CertificateBuilder(commonName: "old", .leaf([.serverAuth]))
    (old.notBefore, old.notAfter) = (1_000_000_000, 1_100_000_000)
    #expect(try await verdict(old.signed(by: cast.clients.root, key: .generate()), .any) == ["refused 10"])
    let stranger = try cast.strangers.client(.serverAuthOnly)
    #expect(try await verdict(stranger, .any) == ["refused 21"])
    #expect(try await verdict(stranger, .any, .optionalNoCA) == ["unverified"], "and never verified")
    #expect(try await verdict(stranger, .client, .optionalNoCA) == ["refused 26"])
    let selfSigned = try CertificateBuilder(commonName: "self", .leaf([.serverAuth])).selfSigned(key: .generate())
    #expect(try await verdict(selfSigned, .any) == ["refused 18"])
    #expect(try await verdict(selfSigned, .any, .optionalNoCA) == ["unverified"])
  }

  @Test func `any excuses no key that may not sign, and no CA that is for servers only`() async throws {
    var mute = CertificateBuilder(commonName: "mute", .leaf([.serverAuth]))
    mute.rawKeyUsage = "critical,keyEncipherment"
    #expect(
      try await verdict(mute.signed(by: cast.clients.root, key: .generate(.rsa(bits: 2048))), .any) == ["refused 26"])
    var servers = CertificateBuilder(commonName: "Servers only", .authority(pathLength: nil))
    servers.authorityUsages = [.serverAuth]
    let authority = try servers.signed(by: cast.clients.root, key: .generate())
    for usage in [CertificateBuilder.ExtendedKeyUsage.serverAuth, .clientAuth] {
      let leaf = try CertificateBuilder(commonName: "a", .leaf([usage])).signed(by: authority, key: .generate())
      #expect(try await verdict(leaf, .any) == ["refused 26"])
      #expect(try await verdict(leaf, .client) == ["refused 26"])
    }
    servers.authorityUsages = [.serverAuth, .clientAuth]
    let both = try servers.signed(by: cast.clients.root, key: .generate())
    let leaf = try CertificateBuilder(commonName: "a", .leaf([.serverAuth])).signed(by: both, key: .generate())
    #expect(try await verdict(leaf, .any) == ["verified"])
  }

  @Test(arguments: [ClientRejection.http, .handshake])
  func `who issued an unfit certificate is told only of a chain that verifies in all else`(
    rejection: ClientRejection
  ) async throws {
    var old = CertificateBuilder(commonName: "old", .leaf([.serverAuth]))
    (old.notBefore, old.notAfter) = (1_000_000_000, 1_100_000_000)
    var mute = CertificateBuilder(commonName: "mute", .leaf([.serverAuth]))
    mute.rawKeyUsage = "critical,keyEncipherment"
    let revoked = try cast.clients.client(.serverAuthOnly)
    let list = try RevocationListBuilder(revoking: [revoked.certificate], number: 1).pem(signedBy: cast.clients.root)
    let scene = try Scene()
    defer { scene.end() }
    let lists = try RevocationList.loadAll(MaterialReference(path: scene.write("crl.pem", text: list)))
    let block = try cast.block(.on, rejection: rejection, revocations: lists)
    for (identity, issuer, code) in try [
      (cast.clients.client(.serverAuthOnly), "CN=Clients Root" as String?, 26),
      (cast.strangers.client(.serverAuthOnly), nil, 21), (old.signed(by: cast.clients.root, key: .generate()), nil, 10),
      (mute.signed(by: cast.clients.root, key: .generate(.rsa(bits: 2048))), nil, 26), (revoked, nil, 23),
      (cast.clients.client(), nil, 0),
    ] {
      for version in [TLSVersions.tls12, .tls13] {
        let met = try await meet(Blocks(block), cast.client(identity, versions: version))
        #expect(met.purposeless?.leaf.issuer.rfc2253 == issuer, "\(code)")
        switch (code, rejection) {
        case (0, _): #expect(met.verdict.short == "verified")
        case (_, .handshake): #expect(met.serverFailure?.contains("(\(code):") == true, "\(met)")
        default: #expect(met.verdict.short == "refused \(code)")
        }
      }
    }
    let moved = try await meet(
      Blocks(cast.block(.optionalNoCA, purpose: .any)), cast.client(cast.clients.client(.serverAuthOnly)),
      moving: Blocks(block))
    #expect(moved.isMoved == (rejection == .http) && moved.verdict.short == "refused 26")
  }

  @Test func `any leaves a pinned certificate's dates, and excuses its usage`() async throws {
    let server = try cast.strangers.client(.serverAuthOnly)
    let pins = try PinSet([Pin(.certificate(server.certificate))], mode: .certificate)
    let blocks = try Blocks(cast.block(.on, authorities: [], pins: pins, purpose: .any))
    #expect(try await meet(blocks, cast.client(server)).verdict.short == "verified")
    let strict = try Blocks(cast.block(.on, authorities: [], pins: pins))
    #expect(try await meet(strict, cast.client(server)).verdict.short == "refused 26")
  }
}
