import Bytes
import Enrolment
import TestSupport
import Testing

@Suite struct `Hashes of passwords` {
  private func matches(_ hash: String, _ password: String) -> Bool {
    PasswordHash(Array(hash.utf8)).matches(SecretBytes(Array(password.utf8)))
  }

  @Test(arguments: [
    // OpenBSD's and John's, with PHP's letter.
    ("$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*U"),
    ("$2a$05$CCCCCCCCCCCCCCCCCCCCC.VGOzA784oUp/Z0DY336zx7pLYAy0lwK", "U*U*"),
    ("{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "password"), ("{PLAIN}secret", "secret"),
  ])
  func `are known by their vectors`(hash: String, password: String) {
    #expect(matches(hash, password))
    #expect(!matches(hash, password + "x"))
    #expect(!matches(hash, ""))
  }

  @Test(arguments: ["-apr1", "-1", "-5", "-6"], ["p", "a longer password of more than sixteen bytes", "pässwörd"])
  func `of openssl passwd are its`(scheme: String, password: String) async throws {
    let scene = try Scene()
    defer { scene.end() }
    let hash = try await scene.succeed("openssl", "passwd", scheme, "-salt", "ab12/.Zz", password)
    #expect(matches(hash, password))
    #expect(!matches(hash, password + "x"))
  }

  @Test(arguments: ["", "*", "*0", "!", "x", "$2y$", "$apr1$", "{SHA}", "{SSHA}", "{SSHA}AAAA", "{SHA}!", "$9$x$y"])
  func `that are none let nobody in`(hash: String) {
    for password in ["", "x", "*0", "*1", hash] { #expect(!matches(hash, password)) }
  }

  @Test func `a file's users are told apart, as nginx does`() {
    let text =
      "# alice:{PLAIN}no\nalice:{PLAIN}one:a comment\r\nbob:{PLAIN}two\r\nalice:{PLAIN}three\nnobody\n:{PLAIN}x\n"
    let users = Array(text.utf8).withUnsafeBytes { AccountFile($0) }
    func admits(_ user: String, _ password: String) -> Bool {
      users.admits(Array(user.utf8), SecretBytes(Array(password.utf8)))
    }
    #expect(admits("alice", "one") && admits("bob", "two"))
    #expect(!admits("alice", "three") && !admits("bob", "one") && !admits("nobody", "") && !admits("", "x"))
    #expect(!admits("# alice", "no"))
  }

  @Test func `who is not in the file is compared with one line of it, the same as long as that is there`() {
    func file(_ lines: [String]) -> AccountFile {
      Array(lines.joined(separator: "\n").utf8).withUnsafeBytes { AccountFile($0) }
    }
    let hashes = ["$2y$05$a", "$2y$12$b", "{SHA}c"]
    let lines = hashes.enumerated().map { "u\($0):\($1)" }
    let (users, other) = (file(lines), file(lines.reversed() + ["u9:$6$d"]))
    var chosen: [String: Int] = [:], changed = 0
    for number in 0..<300 {
      let name = Array("nobody \(number)".utf8)
      let hash = users.hash(for: name)
      #expect(!hash.isKnown && users.hash(for: name).hash == hash.hash)
      chosen[String(decoding: hash.hash?.text ?? [], as: UTF8.self), default: 0] += 1
      if other.hash(for: name).hash != hash.hash { changed += 1 }
    }
    // As costs are spread over the lines, so they are over those who are none.
    #expect(Set(chosen.keys) == Set(hashes) && chosen.values.allSatisfy { $0 > 50 }, "\(chosen)")
    #expect((30...120).contains(changed), "\(changed)")
    for (number, hash) in hashes.enumerated() {
      let known = users.hash(for: Array("u\(number)".utf8))
      #expect(known.isKnown && known.hash?.text == Array(hash.utf8))
    }
    #expect(file([]).hash(for: [1]).hash == nil)
  }
}
