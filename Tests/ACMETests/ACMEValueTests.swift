import Bytes
import Crypto
import Foundation
import JSON
import Testing

@testable import ACME

/// A file of the kernel that can be opened, and of which a read fails.
private let unreadable = "/sys/class/net/lo/speed"

@Suite struct `Values of ACME` {
  @Test(arguments: [
    ("https://ca.test/dir", "ca.test", 443, "/dir"), ("https://CA.test:14000", "ca.test", 14000, "/"),
    ("https://[::1]:14000/dir?x=1", "::1", 14000, "/dir?x=1"), ("https://127.0.0.1/?a", "127.0.0.1", 443, "/?a"),
    ("https://ca.test?a=b", "ca.test", 443, "/?a=b"),
  ])
  func `an https URL is taken apart`(text: String, host: String, port: UInt16, target: String) throws {
    let url = try #require(ACMEURL(text))
    #expect(url.host == host && url.port == port && url.target == target)
    #expect(ACMEURL(url.description) == url)
  }

  @Test(arguments: [
    "http://ca.test/dir", "https://", "https:///dir", "https://user@ca.test/", "https://ca.test/a b",
    "https://ca.test/#f",
    "https://ca.test:0/", "https://ca.test:99999/", "https://[::1/", "https://ca\r\nX: y/", "ftp://x", "",
    "https://ca.test/" + String(repeating: "a", count: 3000),
  ])
  func `everything else is no URL of an ACME server`(text: String) { #expect(ACMEURL(text) == nil) }

  @Test func `names are read as certificates have them`() {
    #expect(ACMEIdentifier("WWW.Example.org.") == .dns("www.example.org"))
    #expect(ACMEIdentifier("*.example.org") == .dns("*.example.org"))
    #expect(ACMEIdentifier("192.0.2.1") == .ip("192.0.2.1"))
    #expect(ACMEIdentifier("2001:DB8::0:1") == .ip("2001:db8::1"))
    for text in ["", "*", "a.*.b", "*.", "-a.b", "a_b.c", "a..b", "1.2.3.4.5", "a/b", "a b", "ä.de", "x.1"] {
      #expect(ACMEIdentifier(text) == nil, "\(text)")
    }
  }

  @Test func `an IP address has the server name of reverse DNS (RFC 8738)`() {
    #expect(ACMEIdentifier("192.0.2.1")?.serverName == "1.2.0.192.in-addr.arpa")
    #expect(
      ACMEIdentifier("2001:db8::1")?.serverName
        == "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa")
    #expect(ACMEIdentifier("a.test")?.serverName == "a.test")
  }

  @Test(arguments: ["", "a/b", "../x", "a.b", "a b", "ä", String(repeating: "a", count: 257)])
  func `a token with other characters than base64url's is refused`(token: String) throws {
    let key = try JSONWebKey(PrivateKey.generate())
    #expect(ChallengeAnswer(.http01, .dns("a.test"), token: token, key: key) == nil)
  }

  @Test func `answers show the token and the account's key`() throws {
    let key = try JSONWebKey(PrivateKey.generate())
    let answer = try #require(ChallengeAnswer(.tlsALPN01, .dns("a.test"), token: "evaGxfADs6pSRb2LAv9IZ", key: key))
    #expect(answer.keyAuthorization == "evaGxfADs6pSRb2LAv9IZ." + Base64.encodeURL(key.thumbprint))
    #expect(answer.digest == Digest.of(Array(answer.keyAuthorization.utf8)))
    let pair = try answer.certificate()
    #expect(pair.certificate.subjectAltNames.all.map(\.description) == ["a.test"])
    let der = pair.certificate.der
    // id-pe-acmeIdentifier, critical, an octet string in the octet string.
    let extensionBytes: [UInt8] =
      [0x06, 0x08, 0x2B, 6, 1, 5, 5, 7, 1, 0x1F, 0x01, 0x01, 0xFF, 0x04, 0x22, 0x04, 0x20] + answer.digest
    let isThere = der.indices.contains { der[$0...].starts(with: extensionBytes) }
    #expect(isThere)
  }

  @Test func `problems are printable and bounded`() throws {
    let text =
      #"{"type":"urn:ietf:params:acme:error:dns","detail":"no \u0007\u202esuch \n name","subproblems":[{"identifier":{"type":"dns","value":"a.test"},"detail":"x"}]}"#
    let problem = ACMEProblem(try JSONValue(Array(text.utf8)))
    #expect(problem.description == "dns: no ??such ? name; a.test: x")
    #expect(ACMEProblem(nil).description == "no reason given")
    let long = ACMEProblem(.object(["detail": .string(String(repeating: "a", count: 100_000))]))
    #expect(long.description.count < 1000)
  }

  // MARK: Time

  @Test func `times of RFC 3339 are read`() {
    #expect(InternetTime.seconds("2025-01-02T04:00:00Z") == 1_735_790_400)
    #expect(InternetTime.seconds("2025-01-02T04:00:00.123+01:30") == 1_735_785_000)
    #expect(InternetTime.seconds("1970-01-01t00:00:00z") == 0)
    for text in [
      "", "2025-01-02", "2025-13-02T04:00:00Z", "2025-01-02T04:00:00", "2025-01-02T04:00:00.Z", "2025-01-02T24:00:00Z",
      "2025-01-02T04:00:00+1:00", "2025-01-02T04:00:00Zx", "２025-01-02T04:00:00Z",
    ] {
      #expect(InternetTime.seconds(text) == nil, "\(text)")
    }
  }

  @Test func `a certificate is renewed when a third of its life is left, a short one at half`() {
    let day: Int64 = 86_400
    #expect(RenewalTime.standard(notBefore: 0, notAfter: 90 * day, share: 0) == 60 * day)
    let early = RenewalTime.standard(notBefore: 0, notAfter: 90 * day, share: 1)
    #expect(early < 60 * day && early > 55 * day)
    #expect(RenewalTime.standard(notBefore: 0, notAfter: 6 * day, share: 0) == 3 * day)
    #expect(RenewalTime.standard(notBefore: 10, notAfter: 5, share: 0) == 10)
    #expect(RenewalTime.standard(notBefore: .min, notAfter: .max, share: 0) == .min)
  }

  @Test func `pauses grow to hours, and heed the server for a day`() {
    #expect(RenewalTime.pause(failures: 1, retryAfter: nil, share: 0.5) == 60)
    #expect(RenewalTime.pause(failures: 2, retryAfter: nil, share: 0.5) == 120)
    #expect(RenewalTime.pause(failures: .max, retryAfter: nil, share: 0.5) == 21_600)
    #expect(RenewalTime.pause(failures: 0, retryAfter: nil, share: 0) == 45)
    #expect(RenewalTime.pause(failures: 1, retryAfter: 3600, share: 0) == 3600)
    #expect(RenewalTime.pause(failures: 1, retryAfter: .max, share: 0) == 86_400)
    #expect(RenewalTime.pause(failures: 1, retryAfter: .min, share: 0) == 45)
  }

  @Test func `no server can put a renewal off until the certificate ends`() {
    #expect(RenewalTime.latest(notBefore: 1000, notAfter: 2000) == 1900)
    #expect(RenewalTime.latest(notBefore: 2000, notAfter: 1000) == 2000)
    #expect(RenewalTime.latest(notBefore: .min, notAfter: .max) == .min)
  }

  @Test func `a window of renewal is read as RFC 9773 has it`() throws {
    let text =
      #"{"suggestedWindow":{"start":"2025-01-02T04:00:00Z","end":"2025-01-03T04:00:00Z"},"explanationURL":"https://x"}"#
    var response = ACMEResponse(status: 200, retryAfter: 21600, body: Array(text.utf8))
    let window = try RenewalWindow(response)
    #expect(window == RenewalWindow(start: 1_735_790_400, end: 1_735_876_800, askAgain: 21_600))
    #expect(RenewalTime.within(window, share: 0.5) == 1_735_833_600)
    response.retryAfter = 0
    #expect(try RenewalWindow(response).askAgain == 60)
    response.body = Array(#"{"suggestedWindow":{"start":"2025-01-03T04:00:00Z","end":"2025-01-02T04:00:00Z"}}"#.utf8)
    #expect(throws: ACMEError.self) { try RenewalWindow(response) }
  }

  // MARK: The folder

  @Test func `a folder keeps its account, records and requests, for its owner alone`() throws {
    let path = TestFolder.make()
    let folder = StateFolder(path + "/acme")
    try folder.prepare()
    try folder.prepare()
    let key = try JSONWebKey(folder.accountKey(.ecdsa384))
    #expect(key.algorithm == .es384)
    #expect(try JSONWebKey(folder.accountKey(.ecdsa256)).thumbprint == key.thumbprint)
    let directory = try #require(ACMEURL("https://ca.test/dir"))
    #expect(folder.accountURL(at: directory, of: key) == nil)
    try folder.keep(accountURL: "https://ca.test/acct/1", at: directory, of: key)
    #expect(folder.accountURL(at: directory, of: key) == "https://ca.test/acct/1")
    #expect(folder.accountURL(at: try #require(ACMEURL("https://other.test/dir")), of: key) == nil)
    #expect(folder.accountURL(at: directory, of: try JSONWebKey(PrivateKey.generate())) == nil)
    var record = RenewalRecord()
    record.failures = 3
    record.lastError = "no \"answer\""
    record.window = RenewalWindow(start: 1, end: 2, askAgain: 0)
    record.windowOf = "x"
    try folder.keep(record, of: "a.test-1")
    #expect(folder.record(of: "a.test-1") == record)
    #expect(folder.record(of: "b.test-1") == RenewalRecord())
    // A file that somebody has changed is numbers all the same.
    let hostile =
      #"{"next_try":-9223372036854775808,"attempted_at":9223372036854775807,"failures":1e9,"window_start":5}"#
    let read = RenewalRecord(try JSONValue(Array(hostile.utf8)))
    #expect(read.nextTry == 0 && read.attemptedAt == 253_402_300_799 && read.failures == 0 && read.window == nil)
    #expect(folder.takeRequest() == nil)
    try folder.askForRenewal(of: "a.test-1")
    #expect(folder.takeRequest() == "a.test-1" && folder.takeRequest() == nil)
    for name in ["account.key", "account.json", "a.test-1.json"] {
      #expect(TestFolder.mode(of: "\(folder.path)/\(name)") == 0o600, "\(name)")
    }
    #expect(TestFolder.mode(of: folder.path) == 0o700)
    TestFolder.setMode(0o777, of: folder.path)
    #expect(throws: ACMEError.self) { try folder.prepare() }
  }

  @Test(arguments: ["", "-----BEGIN PRIVATE KEY-----\nMIG", "\0\0\0\0", "text"])
  func `a damaged key of the account is made anew, told, and kept under another name`(text: String) throws {
    let folder = StateFolder(TestFolder.make())
    #expect(folder.accountKeyFault == nil, "there is no file yet")
    try Data(text.utf8).write(to: URL(fileURLWithPath: folder.path + "/account.key"))
    #expect(folder.accountKeyFault != nil)
    var told: [ACMEError] = []
    let key = try JSONWebKey(folder.accountKey(.ecdsa256) { told.append($0) })
    #expect(told.count == 1 && folder.accountKeyFault == nil)
    #expect(try Data(contentsOf: URL(fileURLWithPath: folder.path + "/account.key.damaged")) == Data(text.utf8))
    #expect(try JSONWebKey(folder.accountKey(.ecdsa256) { told.append($0) }).thumbprint == key.thumbprint)
    #expect(told.count == 1)
    // The first one stays where a second one is damaged.
    try Data("again".utf8).write(to: URL(fileURLWithPath: folder.path + "/account.key"))
    _ = try folder.accountKey(.ecdsa256) { told.append($0) }
    #expect(try Data(contentsOf: URL(fileURLWithPath: folder.path + "/account.key.damaged")) == Data(text.utf8))
    #expect(try Data(contentsOf: URL(fileURLWithPath: folder.path + "/account.key.damaged.2")) == Data("again".utf8))
  }

  /// A moment without descriptors, or a fault of the disk, must not cost the account.
  @Test(.enabled(if: FileManager.default.contents(atPath: unreadable) == nil && access(unreadable, R_OK) == 0))
  func `a key of the account that can't be read now is not damaged, and stays`() throws {
    let folder = StateFolder(TestFolder.make()), place = folder.path + "/account.key"
    try FileManager.default.createSymbolicLink(atPath: place, withDestinationPath: unreadable)
    #expect(folder.accountKeyFault == nil)
    #expect(throws: ACMEError.self) {
      _ = try folder.accountKey(.ecdsa256) { _ in Issue.record("it is called damaged") }
    }
    #expect(try FileManager.default.destinationOfSymbolicLink(atPath: place) == unreadable)
  }

  @Test func `room on the disk is taken before, and given back`() throws {
    let folder = StateFolder(TestFolder.make()), draft = folder.path + "/a.pem.new"
    func size() -> Int? {
      (try? FileManager.default.attributesOfItem(atPath: draft)[.size]) as? Int
    }
    do {
      let room = try folder.room(for: "a")
      #expect(size() == 65_536)
      _ = consume room
    }
    #expect(size() == nil)
    var room = try folder.room(for: "a")
    try room.replace(SecretBytes(Array("content".utf8)))
    #expect(try Data(contentsOf: URL(fileURLWithPath: folder.path + "/a.pem")) == Data("content".utf8))
    #expect(size() == nil && TestFolder.mode(of: folder.path + "/a.pem") == 0o600)
    try FileManager.default.createDirectory(atPath: folder.path + "/b.pem.new/x", withIntermediateDirectories: true)
    let refused = #expect(throws: ACMEError.self) { _ = try folder.room(for: "b") }
    #expect(refused?.description.contains("no certificate is ordered that could not be kept") == true)
  }

  @Test func `a request that can't be taken away is not obeyed each time`() throws {
    let folder = StateFolder(TestFolder.make())
    try FileManager.default.createDirectory(atPath: folder.path + "/renew/x", withIntermediateDirectories: true)
    #expect(folder.takeRequest() == nil)
  }

  @Test func `one process at a time has the lock`() throws {
    let folder = StateFolder(TestFolder.make())
    do {
      let lock = try folder.lock()
      let isHeld = lock != nil
      #expect(isHeld)
      let other = try folder.lock()
      let isOtherHeld = other != nil
      #expect(!isOtherHeld)
    }
    let again = try folder.lock()
    let isHeldAgain = again != nil
    #expect(isHeldAgain)
  }
}
