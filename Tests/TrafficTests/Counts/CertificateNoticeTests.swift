import Crypto
@testable import Features
@testable import Forward
import Glibc
import TestSupport
import Testing
@testable import Traffic

/// What the metrics tell of clients' certificates that need attention.
@Suite struct `Notices about clients' certificates` {
  private func leaf(_ usages: [CertificateBuilder.ExtendedKeyUsage], begins: Int64, ends: Int64) throws -> Certificate {
    var builder = CertificateBuilder(commonName: "a", .leaf(usages))
    (builder.notBefore, builder.notAfter) = (begins, ends)
    return try builder.selfSigned(key: .generate()).certificate
  }

  @Test func `a certificate that ends soon or is not for clients is noticed, another is not`() throws {
    let day: Int64 = 86_400, now: Int64 = 1_700_000_000
    func found(_ leaf: Certificate, _ expiry: ExpiryNotice = .standard) -> [CertificateNotice] {
      CertificateNotice.all(of: leaf, expiry, now: now)
    }
    let good = try leaf([.clientAuth], begins: now - day, ends: now + 365 * day)
    #expect(found(good) == [] && found(good, .before(seconds: 366 * day)) == [.ending])
    #expect(try found(leaf([], begins: now - day, ends: now + 365 * day)) == [], "no extension allows all")
    #expect(try found(leaf([.serverAuth, .clientAuth], begins: now - day, ends: now + 365 * day)) == [])
    #expect(try found(leaf([.serverAuth], begins: now - day, ends: now + 365 * day)) == [.purpose])
    #expect(try found(leaf([.serverAuth], begins: now - 300 * day, ends: now + 5 * day)) == [.ending, .purpose])
    #expect(
      try found(leaf([.clientAuth], begins: now - 3600, ends: now + day)) == [], "short, and in its first quarter")
    #expect(try found(leaf([.clientAuth], begins: now - 300 * day, ends: now - 1)) == [], "ended: it is refused")
    var broken = CertificateBuilder(commonName: "a", .leaf([.clientAuth]))
    broken.rawNotAfter = Array("never".utf8)
    #expect(try found(broken.selfSigned(key: .generate()).certificate) == [])
  }

  @Test func `the number of issuers is bounded, and what is beyond is counted together`() {
    let notices = CertificateNotices()
    for number in 0..<200 { notices.count(.ending, issuer: "CN=\(number)", now: Int64(number)) }
    notices.count(.ending, issuer: "CN=3", now: 500)
    notices.count(.purpose, issuer: "CN=3", now: 501)
    notices.count(.purpose, issuer: "CN=199", now: 502)
    let all = notices.all
    #expect(Set(all.map(\.issuer)).count == CertificateNotices.limit + 1)
    #expect(all.first { $0.notice == .ending && $0.issuer == "other" }?.count == 136)
    #expect(
      all.first { $0.notice == .ending && $0.issuer == "CN=3" }
        == .init(notice: .ending, issuer: "CN=3", count: 2, last: 500))
    #expect(all.first { $0.notice == .purpose && $0.issuer == "CN=3" }?.count == 1)
    #expect(all.first { $0.notice == .purpose && $0.issuer == "other" }?.last == 502)
    #expect(all.reduce(0) { $0 + $1.count } == 203)
  }
}
