import Bytes
import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

@testable import Enrolment

/// An authority, two users, and what they ask.
private struct Desk {
  static let users = "alice:{PLAIN}wonderland\nbob:{PLAIN}builder\n"

  let authority: Authority
  let settings: EnrolmentSettings
  let state = EnrolmentState(tokens: TokenRefusals())
  let address = "192.0.2.1"

  init(renewBefore: Int64 = 30 * 86_400, maxDevices: Int = 10, failures: Int = 10) throws {
    authority = try Authority()
    let users = try authority.scene.write("users", text: Self.users)
    settings = EnrolmentSettings(
      authority: MaterialReference(path: authority.path), passwords: nil, users: MaterialReference(path: users),
      renewBefore: renewBefore, strength: .modern, maxDevices: maxDevices, failures: failures,
      failureTime: 60)
  }

  func ask(
    _ user: String, _ password: String, device: String = "phone", passphrase: String = "12345678", at later: Int64 = 0,
    step: Int64 = 0
  ) -> EnrolmentOutcome {
    ask(
      .basic(user: Array(user.utf8), password: SecretBytes(Array(password.utf8))),
      "{\"device\": \"\(device)\", \"passphrase\": \"\(passphrase)\"}", at: later, step: step)
  }

  /// `later`: seconds that have passed. `step`: seconds by which somebody has set the wall clock.
  func ask(
    _ credentials: ShownCredentials, _ body: String, at later: Int64 = 0, step: Int64 = 0
  ) -> EnrolmentOutcome {
    Array(body.utf8).withUnsafeBytes {
      EnrolmentService(settings, state).answer(
        credentials, from: address, body: $0, at: Int64(time(nil)) + later + step, 1_000_000 + later)
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
    case .refused, .tooManyDevices: 403
    case .malformed: 400
    case .conflict, .early: 409
    case .tooMany: 429
    case .unavailable: 503
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

  @Test(arguments: [["alice", "bob"], ["bob", "alice"], ["alice", "alice"]])
  func `takes no token whose certificate names two users, or two devices`(names: [String]) throws {
    let desk = try Desk(renewBefore: 400 * 86_400)
    let enrolled = try desk.ask("alice", "wonderland").enrolled()
    let token = ShownCredentials.bearer(SecretBytes(Array(enrolled.token.utf8)))
    let body = "{\"device\": \"phone\", \"passphrase\": \"12345678\"}"
    let serial = try #require(try desk.authority.index().entries.first).serial
    func put(_ names: [String], _ devices: [String]) throws {
      var builder = CertificateBuilder(
        commonName: "", .leaf([.clientAuth]), names: devices.map { .uri("urn:device:\($0)") })
      builder.subject = names.map { (.commonName, $0) }
      let other = try builder.signed(by: desk.authority.opened().signer, key: .generate()).certificate
      try desk.authority.scene.write("ca/certs/\(serial).pem", text: other.pem)
    }
    try put(names, ["phone"])
    #expect(desk.ask(token, body).status == 401)
    try put(["alice"], ["phone", "tablet"])
    #expect(desk.ask(token, body).status == 401)
    try put(["alice"], ["phone"])
    #expect(desk.ask(token, body).status == 201)
  }

  @Test func `takes the token of nobody who is not in the users' file any more`() throws {
    let desk = try Desk(renewBefore: 400 * 86_400)
    let token = ShownCredentials.bearer(SecretBytes(Array(try desk.ask("alice", "wonderland").enrolled().token.utf8)))
    let body = "{\"device\": \"phone\", \"passphrase\": \"12345678\"}"
    try desk.authority.scene.write("users", text: "# alice:{PLAIN}wonderland\nalice2:{PLAIN}x\nbob:{PLAIN}builder\n")
    #expect(desk.ask(token, body).status == 401)
    try FileManager.default.removeItem(atPath: desk.authority.scene.path("users"))
    #expect(desk.ask(token, body).status == 500)
    try desk.authority.scene.write("users", text: Desk.users)
    #expect(desk.ask(token, body).status == 201)
  }

  /// `\` and `x2B` are what OpenSSL's one-line form could take for an escape.
  @Test(arguments: [
    "alice+x@example.com", "Doe, Jane", "a=b", "back\\slash", "back\\x2B", "\"quoted\"", "#hash", " lead", "trail ",
    "Zoë",
    "日本", "a;b<c>", "CN=x", "+", "\\",
  ])
  func `knows a name again, however it is spelt in the register`(name: String) throws {
    let desk = try Desk()
    try desk.authority.scene.write("users", text: "\(name):{PLAIN}secret\nalice:{PLAIN}wonderland\n")
    _ = try desk.ask("alice", "wonderland").enrolled()
    if name.hasPrefix("#") {
      // A comment of the users' file.
      try desk.authority.issue(name)
    } else {
      _ = try desk.ask(name, "secret").enrolled()
      #expect(desk.ask(name, "secret").status == 409)
    }
    let serial = try #require(try desk.authority.index().entries.last).serial
    try desk.authority.revoke(name)
    #expect(try desk.authority.index().revoked.map(\.serial) == [serial])
  }

  @Test(arguments: ["a/b", ".hidden", "a\u{1}b", String(repeating: "a", count: 65)])
  func `refuses a name that no certificate can have, and says why, once the password is right`(name: String) throws {
    let desk = try Desk()
    try desk.authority.scene.write("users", text: "\(name):{PLAIN}secret\n")
    #expect(desk.ask(name, "wrong").status == 401)
    let answer = desk.ask(name, "secret")
    #expect(answer.status == 403 && "\(answer)".contains("be a certificate"), "\(answer)")
  }

  @Test func `lets no more guesses through that come at once than one by one`() async throws {
    let desk = try Desk(failures: 3)
    // Slow enough that all have begun before the first is judged. Failures are the process's: a user of this test alone.
    let hash = "$2y$08$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", user = desk.address
    try desk.authority.scene.write("users", text: "\(user):\(hash)\n")
    let statuses = await withTaskGroup(of: Int.self) { group in
      for number in 0..<16 {
        group.addTask {
          await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: desk.ask(user, "guess \(number)").status) }
          }
        }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
    #expect(statuses.sorted() == [401, 401, 401] + Array(repeating: 429, count: 13))
  }

  @Test func `is 429 after too many wrong passwords, whoever comes, until their time is over`() throws {
    let desk = try Desk(failures: 3)
    for _ in 0..<5 { #expect(desk.ask("alice", "wonderland", device: "a/b").status == 400) }
    for _ in 0..<3 { #expect(desk.ask("mallory", "guess").status == 401) }
    #expect(desk.ask("alice", "wonderland").status == 429)
    #expect(desk.ask("alice", "wonderland", at: 61).status == 201)
  }

  @Test func `counts failures by the time that has passed, whatever somebody does to the wall clock`() throws {
    let desk = try Desk(failures: 2)
    for _ in 0..<2 { #expect(desk.ask("alice", "wrong").status == 401) }
    // Forward: nothing is forgotten. Back: who knows the password waits no longer than the minute.
    #expect(desk.ask("alice", "wonderland", at: 1, step: 86_400).status == 429)
    #expect(desk.ask("alice", "wrong", at: 61, step: -600).status == 401)
    #expect(desk.ask("alice", "wonderland", at: 62).status == 201)
  }

  @Test func `gives one user certificates for so many devices, and renews those that are known`() throws {
    let desk = try Desk(renewBefore: 400 * 86_400, maxDevices: 2)
    // No device's: made by the command.
    try desk.authority.issue("alice")
    for device in ["phone", "tablet", "phone"] {
      #expect(desk.ask("alice", "wonderland", device: device).status == 201, "\(device)")
    }
    let answer = desk.ask("alice", "wonderland", device: "watch")
    guard case .tooManyDevices(limit: 2, let words) = answer else {
      return #expect(Bool(false), "\(answer)")
    }
    #expect(words.contains("\"alice\"") && words.contains("\"watch\"") && words.contains("2 devices"))
    #expect(desk.ask("bob", "builder", device: "watch").status == 201)
    // A device that ended, or was revoked, counts no more.
    let tablet = try #require(try desk.authority.index().entries.dropFirst(2).first).serial
    try desk.authority.revoke(tablet)
    #expect(desk.ask("alice", "wonderland", device: "watch").status == 201)
    #expect(desk.ask("alice", "wonderland", device: "tablet").status == 403)
    #expect(desk.ask("alice", "wonderland", device: "tablet", at: 366 * 86_400).status == 201)
  }

  @Test func `counts a certificate that can't be read as a device`() throws {
    let desk = try Desk(maxDevices: 1)
    // Its certificate is not in certs/.
    try fill(desk, 1, of: "alice")
    #expect(desk.ask("alice", "wonderland").status == 403)
    #expect(desk.ask("bob", "builder").status == 201)
  }

  @Test func `gives no more devices to a user who asks for several at once`() async throws {
    let desk = try Desk(maxDevices: 2)
    let statuses = await withTaskGroup(of: Int.self) { group in
      for number in 0..<5 { group.addTask { desk.ask("alice", "wonderland", device: "d\(number)").status } }
      return await group.reduce(into: []) { $0.append($1) }
    }
    #expect(statuses.sorted() == [201, 201, 403, 403, 403])
    #expect(try desk.authority.index().entries.count == 2)
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
    #expect { try EnrolmentService(desk.settings, desk.state).trial() } throws: { "\($0)".contains("ca.key") }
    #expect(desk.ask("alice", "wonderland").status == 500)
    #expect(try desk.authority.index().entries.isEmpty)
  }

  /// Bytes that this thread has read from and written to files and the like.
  private func bytesMoved() throws -> Int {
    let text = try String(contentsOfFile: "/proc/thread-self/io", encoding: .utf8)
    return text.split(separator: "\n").filter { $0.hasPrefix("rchar: ") || $0.hasPrefix("wchar: ") }
      .compactMap { Int($0.dropFirst(7)) }.reduce(0, +)
  }

  /// Other users' certificates, as an authority has them that was busy for long.
  private func fill(_ desk: Desk, _ count: Int, of name: String? = nil) throws {
    let end = AuthorityTime.inIndex(Int64(time(nil)) + 300 * 86_400)
    let lines = (0..<count).map { number in
      let digits = String(number, radix: 16, uppercase: true)
      return
        "V\t\(end)\t\t5A\(String(repeating: "0", count: 6 - digits.count))\(digits)\tunknown\t/CN=\(name ?? "user\(number)")\n"
    }
    try desk.authority.scene.write("ca/index.txt", text: lines.joined())
  }

  @Test func `costs the same beside a hundred certificates as beside four thousand`() throws {
    var costs: [Int] = []
    for count in [100, 4000] {
      let desk = try Desk()
      try fill(desk, count)
      #expect(desk.ask("bob", "builder").status == 201)
      let known = desk.state.cache(of: try AuthorityFolder(desk.authority.path))
      let (before, readings) = (try bytesMoved(), known.readings)
      for number in 0..<5 { #expect(desk.ask("alice", "wonderland", device: "d\(number)").status == 201) }
      #expect(desk.ask("alice", "wonderland", device: "d0").status == 409)
      costs.append(try bytesMoved() - before)
      #expect(known.readings == readings)
      #expect(try desk.authority.index().entries.count == count + 6)
    }
    // Serials and dates have the same length; ECDSA's signatures differ by some bytes.
    #expect(abs(costs[1] - costs[0]) < 2000, "\(costs)")
  }
}
