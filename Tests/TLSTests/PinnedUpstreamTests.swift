import Crypto
import Observability
@testable import TLS
import TestSupport
import Testing

/// What pins decide in real handshakes; the whole table of verdicts is in VerdictTableTests.
@Suite(.timeLimit(.minutes(10))) struct `Pinned upstreams` {
  let cast: Cast
  let anchors: TrustAnchors
  let selfSigned: CertifiedKey
  let intermediate: CertifiedKey
  /// Of `intermediate`, which it sends along.
  let deep: CertifiedKey

  init() throws {
    cast = try Cast.shared.get()
    anchors = try TrustAnchors(.certificates([cast.upstreams.root.certificate]))
    let server = CertificateBuilder(commonName: "up.test", .leaf([.serverAuth]), names: [.dns("up.test")])
    selfSigned = try server.selfSigned(key: .generate())
    intermediate = cast.upstreams.intermediate
    deep = try server.signed(by: intermediate, key: .generate())
  }

  private func meeting(
    _ presented: CertifiedKey, _ policy: TrustPolicy, versions: TLSVersions = .standard, name: String = "up.test"
  ) async throws -> Meeting {
    try await meet(
      Blocks(cast.block(.off, certificate: presented, versions: versions)),
      cast.context(policy, versions: versions), name: name)
  }

  private func keys(_ pins: Pin...) throws -> PinSet { try PinSet(pins, mode: .publicKey) }
  private func certificates(_ pins: Pin...) throws -> PinSet { try PinSet(pins, mode: .certificate) }
  private func file(_ certified: CertifiedKey) -> Pin { Pin(.certificate(certified.certificate)) }
  private func hash(_ certified: CertifiedKey) -> Pin { Pin(.certificateDigest(certified.certificate.sha256)) }

  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `a self-signed upstream is trusted by its pin where invalid chains are allowed, and nowhere else`(
    version: TLSVersions
  ) async throws {
    let pins = try keys(pin(selfSigned))
    let allowed = try await meeting(selfSigned, .pinnedLeaf(pins, anchors, checksName: true), versions: version)
    #expect(allowed.trust == .trustedByPin && allowed.clientFailure == nil)
    let refused = try await meeting(
      selfSigned, .pinned(pins, anchors, checksName: true, reportsOnly: false), versions: version)
    #expect(refused.trust?.outcome == .chain && refused.clientFailure != nil)
    let other = try await meeting(cast.server, .pinnedLeaf(pins, anchors, checksName: true), versions: version)
    #expect(other.trust == .refused(.pin(found: pin(cast.server).description)) && other.clientFailure != nil)
    let misnamed = try await meeting(
      selfSigned, .pinnedLeaf(pins, anchors, checksName: true), versions: version, name: "other.test")
    #expect(misnamed.trust == .refused(.name(expected: "other.test")))
  }

  @Test func `a chain that verifies is trusted, by whatever else it could have been`() async throws {
    let result = try await meeting(cast.server, .pinnedLeaf(keys(pin(cast.server)), anchors, checksName: true))
    #expect(result.trust == .trusted)
    // Nobody looked at the chain.
    let alone = try await meeting(cast.server, .pinnedLeaf(keys(pin(cast.server)), nil, checksName: false))
    #expect(alone.trust == .trustedByPin)
  }

  @Test func `a mismatch that is only reported lets in whose chain and name are right, and says what it found`()
    async throws
  {
    let pins = try keys(pin(deep))
    let policy = TrustPolicy.pinned(pins, anchors, checksName: true, reportsOnly: true)
    let mismatch = try await meeting(cast.server, policy)
    #expect(mismatch.clientFailure == nil)
    #expect(mismatch.trust == .reportOnlyMismatch(found: pin(cast.server).description))
    #expect(mismatch.trust?.warning?.contains(pin(cast.server).description) == true)
    #expect(try await meeting(deep, policy).trust == .trusted)
    #expect(try await meeting(selfSigned, policy).trust?.outcome == .chain)
    #expect(try await meeting(cast.server, policy, name: "elsewhere.test").trust?.outcome == .name)
  }

  @Test func `another key of the verified chain counts only for a chain pin`() async throws {
    func policy(_ certified: CertifiedKey, _ scope: Pin.Scope) throws -> TrustPolicy {
      let pins = try keys(Pin(.publicKey(certified.certificate.spkiSHA256), scope: scope))
      return .pinned(pins, anchors, checksName: true, reportsOnly: false)
    }
    for authority in [intermediate, cast.upstreams.root] {
      #expect(try await meeting(deep, policy(authority, .chain)).trust == .trusted)
      #expect(try await meeting(deep, policy(authority, .leaf)).trust?.outcome == .pin)
      // Where invalid chains are allowed only the leaf counts, though this chain verifies.
      let pins = try keys(Pin(.publicKey(authority.certificate.spkiSHA256), scope: .chain))
      #expect(try await meeting(deep, .pinnedLeaf(pins, anchors, checksName: true)).trust?.outcome == .pin)
    }
    #expect(try await meeting(deep, policy(deep, .chain)).trust == .trusted)
  }

  @Test(arguments: [PinningMode.publicKey, .certificate])
  func `CVE-2016-2402: a pinned certificate that is merely sent counts for nothing`(mode: PinningMode) async throws {
    let presented = try #require(
      CertifiedKey(
        certificate: cast.server.certificate, chain: [deep.certificate, intermediate.certificate], key: cast.server.key)
    )
    for target in [deep, intermediate] {
      for pins in try [
        PinSet([Pin(.certificate(target.certificate), scope: .chain)], mode: mode),
        PinSet([Pin(.certificate(target.certificate))], mode: mode),
      ] {
        for policy: TrustPolicy in [
          .pinned(pins, anchors, checksName: true, reportsOnly: false), .pinnedLeaf(pins, anchors, checksName: true),
        ] {
          #expect(try await meeting(presented, policy).trust?.outcome == .pin)
        }
      }
    }
  }

  @Test func `a certificate file is an anchor itself, its hash is none`() async throws {
    let nowhere = try TrustAnchors(.certificates([]))
    func policy(_ pins: PinSet) -> TrustPolicy { .pinned(pins, nowhere, checksName: true, reportsOnly: false) }
    for target in [selfSigned, cast.server, deep] {
      #expect(try await meeting(target, policy(certificates(file(target)))).trust == .trusted)
      #expect(try await meeting(target, policy(certificates(hash(target)))).trust?.outcome == .chain)
    }
    // An intermediate, which is not self-signed, is one too.
    #expect(try await meeting(deep, policy(certificates(file(intermediate)))).trust == .trusted)
    #expect(try await meeting(cast.server, policy(certificates(file(intermediate)))).trust?.outcome == .chain)
  }

  @Test func `only the pinned file may end a chain half way`() async throws {
    // The anchor file has an intermediate, and the pins have a file beside the hash that matches.
    let partial = try TrustAnchors(.certificates([intermediate.certificate]))
    let pins = try certificates(hash(deep), file(selfSigned))
    let result = try await meeting(deep, .pinned(pins, partial, checksName: true, reportsOnly: false))
    #expect(result.trust?.outcome == .chain, "\(String(describing: result.trust))")
  }

  @Test func `a hash pins a certificate of the verified chain byte for byte`() async throws {
    func policy(_ pins: PinSet) -> TrustPolicy { .pinned(pins, anchors, checksName: true, reportsOnly: false) }
    for target in [deep, intermediate, cast.upstreams.root] {
      #expect(try await meeting(deep, policy(certificates(hash(target)))).trust == .trusted)
    }
    let renewed = try CertificateBuilder(commonName: "up.test", .leaf([.serverAuth]), names: [.dns("up.test")])
      .signed(by: intermediate, key: deep.key)
    #expect(
      try await meeting(renewed, policy(certificates(hash(deep)))).trust
        == .refused(.pin(found: hash(renewed).description, isVerified: true)))
    #expect(try await meeting(renewed, policy(keys(pin(deep)))).trust == .trusted)
  }

  @Test func `with a hash every fault of the chain is excused, with a file the certificate's own count`() async throws {
    var builder = CertificateBuilder(commonName: "up.test", .leaf([.serverAuth]), names: [.dns("up.test")])
    builder.notAfter = builder.notBefore + 60
    let expired = try builder.selfSigned(key: .generate())
    for pins in try [keys(file(expired)), certificates(hash(expired))] {
      #expect(try await meeting(expired, .pinnedLeaf(pins, anchors, checksName: true)).trust == .trustedByPin)
    }
    for anchors in [anchors, nil] {
      let result = try await meeting(
        expired, .pinnedLeaf(certificates(file(expired)), anchors, checksName: true))
      #expect(result.trust?.outcome == .expired)
    }
  }

  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `a resumed session is judged again, by a chain that is built anew`(version: TLSVersions) async throws {
    let root = cast.upstreams.root.certificate
    let policies: [(TrustPolicy, TrustResult)] = try [
      (
        .pinned(keys(Pin(.publicKey(root.spkiSHA256), scope: .chain)), anchors, checksName: true, reportsOnly: false),
        .trusted
      ),
      (.pinned(certificates(hash(cast.upstreams.root)), anchors, checksName: true, reportsOnly: false), .trusted),
      (.pinned(certificates(file(intermediate)), anchors, checksName: true, reportsOnly: false), .trusted),
      (.pinnedLeaf(keys(pin(deep)), nil, checksName: true), .trustedByPin),
      (
        .pinned(keys(pin(cast.server)), anchors, checksName: true, reportsOnly: true),
        .reportOnlyMismatch(found: pin(deep).description)
      ),
    ]
    for (policy, expected) in policies {
      let blocks = try Blocks(cast.block(.off, certificate: deep, store: SessionStore(limit: 10)))
      let context = try cast.context(policy, versions: version)
      #expect(try await meet(blocks, context).trust == expected)
      let again = try await meet(blocks, context)
      #expect(again.isResumed && again.trust == expected)
    }
  }

  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `CVE-2025-68121, CVE-2022-21654: a session of another trust is never resumed`(version: TLSVersions) async throws
  {
    let blocks = try Blocks(cast.block(.off, store: SessionStore(limit: 10)))
    let lax = try cast.policy(versions: version)
    #expect(try await meet(blocks, lax).trust == .trusted)
    #expect(try await meet(blocks, lax).isResumed)
    let changed: [(UpstreamTLSContext, TrustOutcome)] = try [
      (cast.policy(authorities: [cast.strangers.root.certificate], versions: version), .chain),
      (cast.policy(pins: [pin(deep)], versions: version), .pin),
      (cast.context(.pinnedLeaf(keys(pin(deep)), anchors, checksName: true), versions: version), .pin),
    ]
    for (context, outcome) in changed {
      let result = try await meet(blocks, context)
      #expect(!result.isResumed && result.trust?.outcome == outcome)
    }
    // Nor is one of ours that another certificate of ours was shown for.
    let identity = try cast.clients.client()
    #expect(try await !meet(blocks, lax.presenting(identity)).isResumed)
  }

  @Test func `settings that differ in any word of trust are not the same trust`() {
    let system = AnchorSettings(file: nil, includesSystem: true)
    func source(_ scope: Pin.Scope) -> PinSource {
      PinSource(spelling: "a", scope: scope, folder: "", location: .init(file: "", line: 1, column: 1))
    }
    func pins(_ mode: PinningMode = .publicKey, _ scope: Pin.Scope = .leaf) -> PinSettings {
      PinSettings(mode: mode, sources: [source(scope)])
    }
    let all: [TrustSettings] = [
      .anybody, .verified(system, checksName: true), .verified(system, checksName: false),
      .verified(AnchorSettings(file: nil, includesSystem: false), checksName: true),
      .pinned(pins(), system, checksName: true, reportsOnly: false),
      .pinned(pins(), system, checksName: true, reportsOnly: true),
      .pinned(pins(.certificate), system, checksName: true, reportsOnly: false),
      .pinned(pins(.publicKey, .chain), system, checksName: true, reportsOnly: false),
      .pinnedLeaf(pins(), system, checksName: true), .pinnedLeaf(pins(), nil, checksName: true),
    ]
    let settings = all.map { trust in
      var settings = UpstreamTLSSettings()
      settings.trust = trust
      return settings
    }
    #expect(Set(settings).count == all.count)
  }
}
