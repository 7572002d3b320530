import Bytes
import Glibc
import TestSupport
import Testing

@testable import Crypto

@Suite struct `Fetched revocation lists` {
  private let url: RevocationURL

  init() throws { url = try #require(RevocationURL("http://crl.test/ca.crl")) }

  private let now = Int64(time(nil))

  private func der(_ builder: RevocationListBuilder, _ signer: CertifiedKey) throws -> [UInt8] {
    let pem = try Array(builder.pem(signedBy: signer).utf8)
    return try pem.withBytes { (raw) throws(CryptoError) in
      try PEMBlock.all(in: raw)[0].contents.withUnsafeBytes { Array($0) }
    }
  }

  private func judged(
    _ body: [UInt8], by signers: [CertifiedKey], held: [RevocationList] = []
  ) throws -> FetchedList {
    try FetchedList.judge(
      body, of: url, tag: "\"1\"", signers: signers.map(\.certificate), held: held, now: now)
  }

  private func refusal(_ body: [UInt8], by signers: [CertifiedKey], held: [RevocationList] = []) throws -> String {
    do {
      _ = try judged(body, by: signers, held: held)
      return ""
    } catch let fault as FetchedList.Fault { return fault.description }
  }

  @Test func `the CA's own list is taken, as DER and as PEM`() throws {
    let authority = try TestAuthority()
    let builder = RevocationListBuilder(revoking: [try authority.client().certificate])
    let found = try judged(der(builder, authority.root), by: [authority.intermediate, authority.root])
    #expect(found.list.count == 1 && found.issuer == authority.root.certificate)
    let pem = try Array(builder.pem(signedBy: authority.root).utf8)
    #expect(try judged(pem, by: [authority.root]).list.count == 1)
  }

  @Test func `nothing else is`() throws {
    let authority = try TestAuthority(), stranger = try TestAuthority()
    var ended = RevocationListBuilder(revoking: [])
    (ended.thisUpdate, ended.nextUpdate) = (now - 7200, now - 60)
    var future = RevocationListBuilder(revoking: [])
    future.thisUpdate = now + 3600
    var delta = RevocationListBuilder(revoking: [])
    delta.isDelta = true
    let good = try der(RevocationListBuilder(revoking: []), authority.root)
    let pem = try RevocationListBuilder(revoking: []).pem(signedBy: authority.root)
    let cases: [(what: [UInt8], fault: String)] = [
      (try der(RevocationListBuilder(revoking: []), stranger.root), "is not signed by a CA that it could be for"),
      (try der(RevocationListBuilder(revoking: []), authority.intermediate), "is not signed by a CA"),
      (try der(ended, authority.root), "ended on"),
      (try der(future, authority.root), "is from the future"),
      (try der(delta, authority.root), "a delta revocation list, which names only what changed"),
      (Array(good.dropLast()), "not a DER revocation list"),
      (good + [0], "not a DER revocation list"),
      (Array((pem + pem).utf8), "not one revocation list"),
      (Array(authority.root.certificate.pem.utf8), "not one revocation list"),
      (Array("<html><body>Not found</body></html>".utf8), "neither DER nor PEM"),
      ([], "neither DER nor PEM"),
      ([0x30], "not a DER revocation list"),
    ]
    for (what, fault) in cases {
      let told = try refusal(what, by: [authority.root])
      #expect(told.contains(fault), "\(fault): \(told)")
    }
  }

  @Test func `an older list never takes the place of the one in use, and a newer one does`() throws {
    let authority = try TestAuthority(), root = authority.root
    let held = try judged(der(RevocationListBuilder(revoking: [], number: 8), root), by: [root]).list
    var older = RevocationListBuilder(revoking: [], number: 7)
    older.thisUpdate += 1800
    #expect(try refusal(der(older, root), by: [root], held: [held]).contains("older than the one in use"))
    let other = try TestAuthority("Other").root
    let foreign = try der(RevocationListBuilder(revoking: [], number: 9), other)
    #expect(try refusal(foreign, by: [root, other], held: [held]).contains("another CA than the one in use"))
    let newer = try judged(der(RevocationListBuilder(revoking: [], number: 9), root), by: [root], held: [held])
    #expect(newer.list.number?.value == 9)
    let body = try der(RevocationListBuilder(revoking: [], number: 8), root)
    #expect(try judged(body, by: [root], held: [held]).list.number == held.number)
  }

  @Test func `a file says what was written, and a damaged one says nothing`() throws {
    let authority = try TestAuthority()
    let list = try judged(der(RevocationListBuilder(revoking: []), authority.root), by: [authority.root])
    let text = list.text
    let read = try #require(FetchedList(SecretBytes(Array(text.utf8))))
    #expect(read.url == url && read.tag == "\"1\"" && read.issuer == list.issuer)
    #expect(read.list.sha256 == list.list.sha256)
    let stranger = try TestAuthority()
    let damaged = [
      "", String(text.dropFirst()), String(text.dropLast(40)), text + text,
      text.replacing("url http://", with: "url ftp://"),
      text.replacing(authority.root.certificate.pem, with: stranger.root.certificate.pem),
      text.replacing(authority.root.certificate.pem, with: ""),
    ]
    for (index, text) in damaged.enumerated() {
      #expect(FetchedList(SecretBytes(Array(text.utf8))) == nil, "\(index)")
    }
  }

  @Test(arguments: [
    "\"a\nurl http://other.test/\"", "unquoted", "\"sp ace\"", "\"\u{7F}\"",
    "\"" + String(repeating: "x", count: 256) + "\"",
  ]) func `an entity tag that could be more than that is not kept`(tag: String) throws {
    let authority = try TestAuthority()
    let body = try der(RevocationListBuilder(revoking: []), authority.root)
    let list = try FetchedList.judge(
      body, of: url, tag: tag, signers: [authority.root.certificate], held: [], now: now)
    #expect(list.tag == nil)
  }

  @Test func `addresses are http and nothing else`() {
    let good = [
      ("http://a.test", "a.test", 80, "/"), ("HTTP://A.Test:8080/x?y=1", "a.test", 8080, "/x?y=1"),
      ("http://[::1]:81/c", "::1", 81, "/c"), ("http://a.test?q", "a.test", 80, "/?q"),
    ]
    for (text, host, port, target) in good {
      let url = RevocationURL(text)
      #expect(url?.host == host && url?.port == UInt16(port) && url?.target == target, "\(text)")
    }
    let bad = [
      "", "http://", "https://a.test/", "ftp://a.test/", "ldap://a.test/", "file:///etc/passwd", "http:///x",
      "http://user@a.test/", "http://a.test:0/", "http://a.test:x/", "http://a.test/#f", "http://a test/",
      "http://a.test/\r\nX: y", "http://a.test/\u{7F}", "http://a.test/é", "http://a;b/", "http://[::1/", "http://::1/",
      "http://a.test/\"", "http://" + String(repeating: "a", count: 254) + "/",
      "http://a.test/" + String(repeating: "a", count: 1024),
    ]
    for text in bad { #expect(RevocationURL(text) == nil, "\(text)") }
  }

  @Test func `the distribution points of a certificate are its http addresses`() throws {
    let authority = try TestAuthority()
    var builder = CertificateBuilder(commonName: "alice", .leaf([.clientAuth]))
    builder.revocationURLs = [url, try #require(RevocationURL("http://b.test/2"))]
    let certificate = try builder.signed(by: authority.root, key: .generate()).certificate
    #expect(certificate.revocationURLs == builder.revocationURLs)
    #expect(try authority.client().certificate.revocationURLs.isEmpty)
  }
}
