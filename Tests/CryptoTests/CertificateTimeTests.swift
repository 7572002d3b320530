import Crypto
import Glibc
import TestSupport
import Testing

@Suite struct `Times of certificates` {
  private func certificate(end: String) throws -> Certificate {
    var builder = CertificateBuilder(commonName: "x", .leaf([]))
    // From 2050 on the time is a GeneralizedTime, whose text has four digits for the year.
    if end.utf8.count > 13 { builder.notAfter = 4_102_444_800 }
    builder.rawNotAfter = Array(end.utf8)
    return try builder.selfSigned(key: .generate()).certificate
  }

  @Test(arguments: [
    "notatimeXXXXZ", "20360101000000", "", "360101000000", "361301000000Z", "\0\0\0\0\0\0\0\0\0\0\0\0\0",
  ])
  func `what is no time is unreadable: it has ended, lasts no days and has no text`(end: String) throws {
    let certificate = try certificate(end: end)
    #expect(certificate.notAfter == .unreadable)
    #expect(certificate.notAfterText == "" && certificate.notAfterWords == "a time that can't be read")
    for now in [Int64.min, 0, Int64(time(nil)), .max] {
      #expect(certificate.notAfter.hasEnded(at: now))
      #expect(certificate.notAfter.days(from: now) == nil)
    }
    #expect(OpenSSLError.drain().codes.isEmpty)
  }

  @Test func `a begin that can't be read has not come, and no clock makes a sum overflow`() {
    #expect(!CertificateTime.unreadable.hasBegun(at: .max))
    #expect(CertificateTime.at(5).hasBegun(at: 5) && CertificateTime.at(5).hasEnded(at: 5))
    #expect(!CertificateTime.at(5).hasBegun(at: 4) && !CertificateTime.at(5).hasEnded(at: 4))
    #expect(CertificateTime.at(86_400).days(from: 0) == 1)
    #expect(CertificateTime.at(.max).days(from: .min) == Int64.max / 86_400)
    #expect(CertificateTime.at(.min).days(from: .max) == Int64.min / 86_400)
  }

  @Test func `of several ends the first counts, and one that can't be read before all`() {
    #expect(CertificateTime.earliest([]) == nil)
    #expect(CertificateTime.earliest([.at(7), .at(3), .at(9)]) == .at(3))
    #expect(CertificateTime.earliest([.at(7), .unreadable, .at(3)]) == .unreadable)
  }

  @Test func `a revocation list whose end can't be read is none`() throws {
    var builder = RevocationListBuilder(revoking: [])
    builder.rawNextUpdate = Array("notatimeXXXXZ".utf8)
    let scene = try Scene()
    defer { scene.end() }
    let pem = try builder.pem(signedBy: TestAuthority().root)
    let file = MaterialReference(path: try scene.write("crl.pem", text: pem))
    let error = #expect(throws: MaterialError.self) { try RevocationList.loadAll(file) }
    #expect("\(String(describing: error))".contains("a revocation list whose nextUpdate can't be read"))
  }
}

@Suite struct `Common names` {
  private func reading(_ names: [String]) throws -> CommonNameReading {
    var builder = CertificateBuilder(commonName: "", .leaf([]))
    builder.subject = [(.organization, "o")] + names.map { (.commonName, $0) }
    return try builder.selfSigned(key: .generate()).certificate.subject.commonName
  }

  @Test func `one is a name; several, equal ones too, are none, nor is one with a control character`() throws {
    #expect(try reading([]) == .absent)
    #expect(try reading(["alice"]) == .one(Array("alice".utf8)))
    #expect(try reading(["alice", "bob"]).sole == nil)
    #expect(try reading(["alice", "alice"]).sole == nil)
    #expect(try reading(["alice\0.evil"]) == .ambiguous([Array("alice\0.evil".utf8)]))
    #expect(try reading(["alice\n"]).sole == nil && reading(["\u{7F}"]).sole == nil)
    #expect(try reading(["alice", "bob"]).all.count == 2)
  }
}
