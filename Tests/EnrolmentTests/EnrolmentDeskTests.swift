import Bytes
import Crypto
import Enrolment
import Foundation
import Glibc
import TestSupport
import Testing

/// An authority, two users, and what they ask.
private struct Desk {
  let authority: Authority
  let settings: EnrolmentSettings
  let address: String

  init(renewBefore: Int64 = 30 * 86_400, failures: Int = 10) throws {
    authority = try Authority()
    let users = try authority.scene.write("users", text: "alice:{PLAIN}wonderland\nbob:{PLAIN}builder\n")
    settings = EnrolmentSettings(
      authority: MaterialReference(path: authority.path), passwords: nil, users: MaterialReference(path: users),
      renewBefore: renewBefore, strength: .modern, failures: failures, failureTime: 60)
    // Failures are the process's.
    address = "test-\(UInt64.random(in: 0 ... .max))"
  }

  func ask(
    _ user: String, _ password: String, device: String = "phone", passphrase: String = "12345678", at later: Int64 = 0
  ) -> EnrolmentOutcome {
    ask(
      .basic(user: Array(user.utf8), password: SecretBytes(Array(password.utf8))),
      "{\"device\": \"\(device)\", \"passphrase\": \"\(passphrase)\"}", at: later)
  }

  func ask(_ credentials: ShownCredentials, _ body: String, at later: Int64 = 0) -> EnrolmentOutcome {
    Array(body.utf8).withUnsafeBytes {
      EnrolmentDesk(settings).answer(credentials, from: address, body: $0, at: Int64(time(nil)) + later)
    }
  }
}

private struct Enrolled: Decodable {
  let token: String
  let certificate: String
  let expires: String
}

extension EnrolmentOutcome {
  fileprivate var status: Int {
    switch self {
    case .enrolled: 201
    case .unauthorized: 401
    case .malformed: 400
    case .conflict: 409
    case .tooMany: 429
    case .broken: 500
    }
  }

  fileprivate func enrolled() throws -> Enrolled {
    guard case .enrolled(let json, _) = self else { throw ToolFailed(description: "\(self)") }
    return try json.withUnsafeBytes { try JSONDecoder().decode(Enrolled.self, from: Data($0)) }
  }
}

@Suite struct `Enrolment` {
  @Test func `gives who has a password a certificate of its name and device`() throws {
    let desk = try Desk()
    let enrolled = try desk.ask("alice", "wonderland").enrolled()
    let file = try Base64.decode(enrolled.certificate)
    let opened = try file.withUnsafeBytes { try PKCS12(der: $0, passwords: [SecretBytes(Array("12345678".utf8))]) }
    #expect(opened.leaf.subject.rfc2253 == "CN=alice")
    #expect(opened.leaf.subjectAltNames.all.map(\.description) == ["urn:device:phone"])
    #expect(opened.key != nil && opened.chain.count == 1)
    #expect(enrolled.expires == AuthorityTime.rfc3339(opened.leaf.notAfter))
    #expect(enrolled.token.utf8.count == 43 && !enrolled.token.contains { "+/=".contains($0) })
    #expect(try desk.authority.index().entries.map(\.serial) == [opened.leaf.serial])
    let kept = try FileManager.default.contentsOfDirectory(atPath: "\(desk.authority.path)/tokens")
    #expect(kept == [Hex.encode(Digest.of(Array(enrolled.token.utf8)))])
  }

  @Test func `refuses a wrong password before it looks at the request`() throws {
    let desk = try Desk()
    #expect(desk.ask("alice", "builder").status == 401)
    #expect(desk.ask("nobody", "wonderland").status == 401)
    #expect(desk.ask("alice", "builder", device: "a/b").status == 401)
    #expect(desk.ask("alice", "wonderland", device: "a/b").status == 400)
    #expect(desk.ask("alice", "wonderland", passphrase: "short").status == 400)
    #expect(try desk.authority.index().entries.isEmpty)
  }

  @Test func `is 409 while a certificate lasts, and again possible near its end or after a revocation`() throws {
    let desk = try Desk()
    _ = try desk.ask("alice", "wonderland").enrolled()
    #expect(desk.ask("alice", "wonderland").status == 409)
    #expect(desk.ask("alice", "wonderland", device: "tablet").status == 201)
    #expect(desk.ask("bob", "builder").status == 201)
    #expect(try desk.authority.index().entries.count == 3)
    let nearEnd: Int64 = 336 * 86_400
    #expect(desk.ask("alice", "wonderland", at: nearEnd - 86_400 * 2).status == 409)
    #expect(desk.ask("alice", "wonderland", at: nearEnd).status == 201)
    // The old one stays.
    #expect(try desk.authority.index().revoked.isEmpty)
    #expect(desk.ask("alice", "wonderland", device: "tablet").status == 409)
    try desk.authority.revoke("alice")
    #expect(desk.ask("alice", "wonderland", device: "tablet").status == 201)
  }

  @Test func `takes a token in place of the password, for its own device, while its certificate is good`() throws {
    let desk = try Desk(renewBefore: 400 * 86_400)
    let enrolled = try desk.ask("alice", "wonderland").enrolled()
    let token = ShownCredentials.bearer(SecretBytes(Array(enrolled.token.utf8)))
    let body = "{\"device\": \"phone\", \"passphrase\": \"12345678\"}"
    let renewed = try desk.ask(token, body).enrolled()
    #expect(renewed.token != enrolled.token)
    #expect(desk.ask(token, body.replacingOccurrences(of: "phone", with: "tablet")).status == 401)
    #expect(desk.ask(.bearer(SecretBytes(Array("x\(enrolled.token)".utf8))), body).status == 401)
    #expect(desk.ask(.bearer(SecretBytes([])), body).status == 401)
    #expect(desk.ask(token, body, at: 366 * 86_400).status == 401)
    let first = try #require(try desk.authority.index().entries.first).serial
    try desk.authority.revoke(first)
    #expect(desk.ask(token, body).status == 401)
    #expect(desk.ask(.bearer(SecretBytes(Array(renewed.token.utf8))), body).status == 201)
  }

  @Test func `is 429 after too many wrong passwords, whoever comes, until their time is over`() throws {
    let desk = try Desk(failures: 3)
    for _ in 0..<5 { #expect(desk.ask("alice", "wonderland", device: "a/b").status == 400) }
    for _ in 0..<3 { #expect(desk.ask("mallory", "guess").status == 401) }
    #expect(desk.ask("alice", "wonderland").status == 429)
    #expect(desk.ask("alice", "wonderland", at: 61).status == 201)
  }

  @Test func `gives one of two that ask at once for the same device a certificate`() async throws {
    let desk = try Desk()
    let statuses = await withTaskGroup(of: Int.self) { group in
      for _ in 0..<4 { group.addTask { desk.ask("alice", "wonderland").status } }
      return await group.reduce(into: []) { $0.append($1) }
    }
    #expect(statuses.sorted() == [201, 409, 409, 409])
    #expect(try desk.authority.index().entries.count == 1)
  }

  @Test func `says what is at fault with its files, and gives nothing`() throws {
    let desk = try Desk()
    try FileManager.default.removeItem(atPath: "\(desk.authority.path)/private/ca.key")
    #expect { try EnrolmentDesk(desk.settings).trial() } throws: { "\($0)".contains("ca.key") }
    #expect(desk.ask("alice", "wonderland").status == 500)
    #expect(try desk.authority.index().entries.isEmpty)
  }
}
