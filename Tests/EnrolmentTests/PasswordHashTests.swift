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
}
