import Crypto
import Foundation
import Glibc
@testable import TLS
import TestSupport
import Testing

/// The certificates of the table's rows.
struct FaultyUpstreams: Sendable {
  struct Shown: Sendable {
    var leaf: Certificate
    var sent: [Certificate]
  }

  let root: CertifiedKey
  /// Several where a row has several forms.
  let shown: [ParseError: [Shown]]
  /// As read from a file of the root's: it names the leaf of the row "revoked".
  let revocations: [RevocationList]

  static let shared = Result { try FaultyUpstreams() }

  init() throws {
    // RSA: there is no ECDSA over MD5.
    let root = try CertificateBuilder(commonName: "Root", .authority(pathLength: nil))
      .selfSigned(key: .generate(.rsa(bits: 2048)))
    self.root = root
    func leaf(
      _ usage: CertificateBuilder.ExtendedKeyUsage = .serverAuth,
      _ change: (inout CertificateBuilder) -> Void = { _ in }
    ) -> CertificateBuilder {
      var builder = CertificateBuilder(commonName: "up.test", .leaf([usage]), names: [.dns("up.test")])
      change(&builder)
      return builder
    }
    func show(_ builder: CertificateBuilder, by authority: CertifiedKey = root, key: PrivateKey? = nil) throws -> Shown
    {
      let made = try builder.signed(by: authority, key: key ?? .generate())
      return Shown(leaf: made.certificate, sent: made.chain)
    }
    let now = Int64(Date().timeIntervalSince1970)
    let stranger = try CertificateBuilder(commonName: "Other", .authority(pathLength: nil)).selfSigned(key: .generate())
    // It may sign leaves, and no CA below it.
    let last = try CertificateBuilder(commonName: "Last", .authority(pathLength: 0)).signed(by: root, key: .generate())
    let lower = try CertificateBuilder(commonName: "Lower", .authority(pathLength: nil)).signed(
      by: last, key: .generate())
    var shown: [ParseError: [Shown]] = [:]
    for fault in ParseError.allCases {
      shown[fault] =
        switch fault {
        case .nothing, .revoked, .wrongName: [try show(leaf())]
        case .expired:
          [
            try show(
              leaf {
                $0.notBefore = now - 9000; $0.notAfter = now - 60
              })
          ]
        case .notYetValid: [try show(leaf { $0.notBefore = now + 9000 })]
        case .selfSigned: [Shown(leaf: try leaf().selfSigned(key: .generate()).certificate, sent: [])]
        case .otherCA: [try show(leaf(), by: stranger)]
        case .wrongUsage: [try show(leaf(.clientAuth))]
        case .pathTooLong: [try show(leaf(), by: lower)]
        case .weakSignature:
          try [CertificateBuilder.SignatureDigest.md5, .sha1].map { digest in
            try show(leaf { $0.signatureDigest = digest })
          }
        case .shortKey: [try show(leaf(), key: .generate(.rsa(bits: 512)))]
        }
    }
    self.shown = shown
    let revoked = shown[.revoked, default: []].map(\.leaf)
    let file = "\(NSTemporaryDirectory())sallyport-verdicts-\(UUID().uuidString).crl"
    defer { unlink(file) }
    try RevocationListBuilder(revoking: revoked).pem(signedBy: root).write(
      toFile: file, atomically: true, encoding: .utf8)
    revocations = try RevocationList.loadAll(MaterialReference(path: file))
  }

  /// How the table's policy judges what the row shows.
  func outcomes(_ cell: Cell) throws -> [TrustResult] {
    try (shown[cell.fault] ?? []).map { shown in
      let context = try context(cell, pinned: shown.leaf, revocations: cell.fault == .revoked ? revocations : [])
      return context.judge(
        leaf: shown.leaf, sent: shown.sent, name: cell.fault == .wrongName ? "other.test" : "up.test")
    }
  }

  /// The row that nothing is wrong with, judged with a list that names others.
  func outcomeBesideTheRevoked(_ cell: Cell) throws -> TrustResult? {
    try shown[.nothing]?.first.map { shown in
      try context(cell, pinned: shown.leaf, revocations: revocations)
        .judge(leaf: shown.leaf, sent: shown.sent, name: "up.test")
    }
  }

  private func context(
    _ cell: Cell, pinned: Certificate, revocations: [RevocationList]
  ) throws -> UpstreamTLSContext {
    var settings = UpstreamTLSSettings()
    settings.verifyDepth = 5
    return try UpstreamTLSContext(
      settings: settings,
      material: UpstreamTLSMaterial(
        policy: policy(cell, pinned: pinned, revocations: revocations), identity: nil))
  }

  private func policy(_ cell: Cell, pinned: Certificate, revocations: [RevocationList]) throws -> TrustPolicy {
    let anchors = try TrustAnchors(.certificates([root.certificate]), revocations: revocations)
    guard cell.pinning != .none else { return .verified(anchors, checksName: cell.checksName) }
    let pins = try PinSet([Pin(.certificate(pinned))], mode: cell.pinning == .publicKey ? .publicKey : .certificate)
    return cell.allowsInvalid
      ? .pinnedLeaf(pins, anchors, checksName: cell.checksName)
      : .pinned(pins, anchors, checksName: cell.checksName, reportsOnly: false)
  }
}

@Suite struct VerdictTableTests {
  @Test(arguments: Cell.all.filter { $0.verdict != nil })
  func `each cell is what the code says`(cell: Cell) throws {
    let outcomes = try FaultyUpstreams.shared.get().outcomes(cell)
    #expect(!outcomes.isEmpty)
    for result in outcomes { #expect(result.outcome == cell.verdict, "\(cell): \(result)") }
  }

  @Test(arguments: Cell.all.filter { $0.verdict != nil && $0.fault == .nothing })
  func `a revocation list changes nothing for whom it does not name`(cell: Cell) throws {
    let result = try FaultyUpstreams.shared.get().outcomeBesideTheRevoked(cell)
    #expect(result?.outcome == cell.verdict, "\(cell): \(result.map { "\($0)" } ?? "none")")
  }

  @Test(arguments: Cell.all)
  func `each cell is AFSecurityPolicy's, or stricter, or has its reason`(cell: Cell) {
    let isAccepted = cell.verdict == .trusted || cell.verdict == .trustedByPin
    #expect(isAccepted == cell.isAcceptedByAFSecurityPolicy || cell.difference != nil)
    // The one way to be let in here and not there: by a file that is an anchor itself.
    if isAccepted && !cell.isAcceptedByAFSecurityPolicy { #expect(cell.difference == .pinIsAnchor) }
  }

  @Test func `every reason is used`() {
    #expect(Set(Cell.all.compactMap(\.difference)) == Set(Difference.allCases))
  }

  @Test func `docs/SECURITY.md has this table`() throws {
    let path = "\(checkout)/docs/SECURITY.md"
    let text = try String(contentsOfFile: path, encoding: .utf8)
    let begin = try #require(text.range(of: VerdictTable.begin))
    let end = try #require(text.range(of: VerdictTable.end))
    if ProcessInfo.processInfo.environment["SALLYPORT_WRITE_MANUAL"] != nil {
      let written = text.replacingCharacters(in: begin.lowerBound..<end.upperBound, with: VerdictTable.markdown())
      try written.write(toFile: path, atomically: true, encoding: .utf8)
    } else {
      #expect(text[begin.lowerBound..<end.upperBound] == VerdictTable.markdown())
    }
  }
}
