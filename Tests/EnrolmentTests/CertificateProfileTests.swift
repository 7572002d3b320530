import Crypto
import Enrolment
import Testing

@Suite struct `What certificates are issued` {
  @Test(arguments: [
    (1_773_532_799, 398), (1_773_532_800, 200), (1_805_068_799, 200), (1_805_068_800, 100), (1_868_227_199, 100),
    (1_868_227_200, 47),
  ])
  func `a server's length is the CA/Browser Forum's of the day`(instant: Int64, days: Int64) {
    #expect(CertificateProfile.serverDays(at: instant) == days)
  }

  @Test(arguments: ["", ".hidden", "a/b", "a\nb", "a\u{0}b", String(repeating: "a", count: 65), ".."])
  func `a name that is no file's or no certificate's is refused`(name: String) {
    #expect(throws: AuthorityError.self) { try CommonName(name) }
  }

  @Test(arguments: ["alice", "Jörg Müller", "*.example.com", "a@b", String(repeating: "ö", count: 64)])
  func `other names are taken`(name: String) throws {
    #expect(try CommonName(name).text == name)
  }

  @Test func `alternative names are read by their kinds`() throws {
    let names = try CertificateBuilder.AlternativeName.list(
      "DNS:*.example.com,dns:a_b,IP:::1,IP:10.0.0.1,URI:spiffe://p/x,email:a@b")
    #expect(
      names == [
        .dns("*.example.com"), .dns("a_b"), .ip("::1"), .ip("10.0.0.1"), .uri("spiffe://p/x"), .email("a@b"),
      ])
  }

  @Test(arguments: [
    "", "localhost", "DNS:", "DNS:a b", "DNS:a..b", "DNS:*", "DNS:-a", "IP:300.0.0.1", "IP:example.com", "URI:x",
    "email:x",
    "RID:1.2", "DNS:a,", "DNS:a.*.b",
  ])
  func `a malformed alternative name is refused`(text: String) {
    #expect(throws: AuthorityError.self) { try CertificateBuilder.AlternativeName.list(text) }
  }

  @Test func `a server without alternative names is called by its name`() throws {
    #expect(try CertificateProfile(.server, CommonName("localhost")).names == [.dns("localhost")])
    #expect(try CertificateProfile(.server, CommonName("::1")).names == [.ip("::1")])
    #expect(throws: AuthorityError.self) { try CertificateProfile(.server, CommonName("The Server")) }
    #expect(try CertificateProfile(.client, CommonName("The Client")).names.isEmpty)
  }
}
