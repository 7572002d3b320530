import Crypto
@testable import TLS
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `How clients are judged` {
  let cast: Cast
  init() throws { cast = try Cast.shared.get() }

  enum Caller: CaseIterable, Sendable { case nobody, good, stranger, expired, tooDeep, serverAuthOnly, selfSigned }

  private func identity(_ caller: Caller) throws -> CertifiedKey? {
    switch caller {
    case .nobody: nil
    case .good: try cast.clients.client()
    case .stranger: try cast.strangers.client()
    case .expired: try cast.clients.client(.expired)
    case .tooDeep: try cast.clients.client(.tooDeep)
    case .serverAuthOnly: try cast.clients.client(.serverAuthOnly)
    case .selfSigned: try cast.clients.client(.selfSigned)
    }
  }

  /// X509_V_ERR_…: 10 expired, 18 self-signed, 21 no issuer of a lone certificate, 22 chain too long, 26 wrong purpose.
  @Test(
    arguments: Caller.allCases,
    [
      (ClientVerification.off, ["absent", "absent", "absent", "absent", "absent", "absent", "absent"]),
      (.on, ["absent", "verified", "refused 21", "refused 10", "refused 22", "refused 26", "refused 18"]),
      (.optional, ["absent", "verified", "refused 21", "refused 10", "refused 22", "refused 26", "refused 18"]),
      (.optionalNoCA, ["absent", "verified", "unverified", "refused 10", "refused 22", "refused 26", "unverified"]),
    ])
  func `each mode has its verdict on each certificate`(
    caller: Caller, expected: (ClientVerification, [String])
  ) async throws {
    let place = try #require(Caller.allCases.firstIndex(of: caller))
    for versions in [TLSVersions.tls12, .tls13] {
      let meeting = try await meet(
        Blocks(cast.block(expected.0)), cast.client(identity(caller), versions: versions))
      #expect(meeting.verdict.short == expected.1[place])
      // Whatever the verdict, it is answered in HTTP.
      #expect(meeting.serverFailure == nil && meeting.clientFailure == nil)
    }
  }

  /// A stranger's certificate has the missing anchor for its first fault: that must not hide the others.
  @Test(arguments: [
    (TestAuthority.ClientKind.good, "unverified"), (.viaIntermediate, "unverified"), (.selfSigned, "unverified"),
    (.expired, "refused 10"), (.notYetValid, "refused 9"), (.serverAuthOnly, "refused 26"), (.tooDeep, "refused 22"),
  ])
  func `optional_no_ca excuses a stranger's unknown CA and nothing else`(
    kind: TestAuthority.ClientKind, verdict: String
  ) async throws {
    let store = SessionStore(limit: 10)
    for versions in [TLSVersions.tls12, .tls13] {
      let blocks = try Blocks(cast.block(.optionalNoCA, store: store))
      let client = try cast.client(cast.strangers.client(kind), versions: versions)
      #expect(try await meet(blocks, client).verdict.short == verdict)
      let again = try await meet(blocks, client)
      #expect(again.verdict.short == verdict)
      #expect(again.isResumed == (verdict == "unverified"))
    }
  }

  @Test func `optional_no_ca refuses an expired self-signed certificate and a stranger's weak key`() async throws {
    let block = try cast.block(.optionalNoCA)
    var old = CertificateBuilder(commonName: "old", .leaf([.clientAuth]))
    (old.notBefore, old.notAfter) = (1_000_000_000, 1_100_000_000)
    let weak = try PrivateKey.generate(.rsa(bits: 1024))
    let leaf = CertificateBuilder(commonName: "weak", .leaf([.clientAuth]))
    for (identity, verdict) in try [
      (old.selfSigned(key: .generate()), "refused 10"), (leaf.signed(by: cast.strangers.root, key: weak), "refused 66"),
    ] {
      let client = try cast.client(identity, ciphers: "ALL:@SECLEVEL=0")
      #expect(try await meet(Blocks(block), client).verdict.short == verdict)
    }
  }

  @Test func `a walk that broke off is never excused`() {
    var faults = ChainFaults()
    #expect(faults.verdict(result: 1, last: 0) == 0)
    faults.note(20)
    #expect(faults.verdict(result: 1, last: 20) == 20)
    #expect(faults.verdict(result: 0, last: 20) == 1)
    #expect(faults.verdict(result: -1, last: 0) == 1)
    #expect(faults.verdict(result: -1, last: 17) == 17)
    faults.note(10)
    faults.note(26)
    faults.note(21)
    #expect(faults.verdict(result: 1, last: 21) == 10)
    #expect(faults.verdict(result: -1, last: 21) == 10)
  }

  @Test func `the server block of the name judges, not the first one`() async throws {
    let store = SessionStore(limit: 10)
    let strict = try cast.block(.on, store: store)
    let lax = try cast.block(.off, store: store)
    let stranger = try cast.client(cast.strangers.client())
    let blocks = Blocks(lax, named: ["strict.test": strict])
    #expect(try await meet(blocks, stranger, name: "STRICT.test.").verdict.short == "refused 21")
    #expect(try await meet(blocks, stranger, name: "other.test").verdict.short == "absent")
  }

  static let old: TLSVersions = [.tls10, .tls11, .tls12, .tls13]

  @Test(arguments: [TLSVersions.tls10, .tls12, .tls13])
  func `a weak key in the client's chain is refused although old versions are on`(version: TLSVersions) async throws {
    let weak = try PrivateKey.generate(.rsa(bits: 1024))
    let leaf = CertificateBuilder(commonName: "weak", .leaf([.clientAuth]))
    let weakLeaf = try leaf.signed(by: cast.clients.root, key: weak)
    let weakRoot = try CertificateBuilder(commonName: "Weak", .authority(pathLength: nil)).selfSigned(key: weak)
    let ofWeakRoot = try leaf.signed(by: weakRoot, key: .generate())
    let block = try cast.block(
      .on, authorities: [cast.clients.root.certificate, weakRoot.certificate], versions: Self.old)
    // 66 EE_KEY_TOO_SMALL, 67 CA_KEY_TOO_SMALL.
    for (identity, verdict) in try [
      (weakLeaf, "refused 66"), (ofWeakRoot, "refused 67"), (cast.clients.client(), "verified"),
    ] {
      let client = try cast.client(identity, versions: version, ciphers: "ALL:@SECLEVEL=0")
      let meeting = try await meet(Blocks(block), client)
      #expect(meeting.verdict.short == verdict)
      #expect(meeting.protocolName == (version == .tls10 ? "TLSv1" : version == .tls12 ? "TLSv1.2" : "TLSv1.3"))
    }
  }

  @Test func `a security level that is said aloud counts for chains, down to 1`() async throws {
    let weak = try PrivateKey.generate(.rsa(bits: 1024))
    let identity = try CertificateBuilder(commonName: "weak", .leaf([.clientAuth]))
      .signed(by: cast.clients.root, key: weak)
    let client = try cast.client(identity, versions: [.tls12], ciphers: "ALL:@SECLEVEL=0")
    let said = try cast.block(.on, versions: Self.old, ciphers: "ALL:@SECLEVEL=1")
    #expect(try await meet(Blocks(said), client).verdict.short == "verified")
    #expect(said.chainLevel == 1)
    #expect(try cast.block(.on, versions: [.tls12], ciphers: "ALL:@SECLEVEL=3").chainLevel == 3)
    #expect(try cast.block(.on, versions: Self.old).chainLevel == cast.block(.on).chainLevel)
    #expect(try cast.block(.on).chainLevel >= 1)
  }
}
