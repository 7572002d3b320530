import Transport
import Bytes
import Foundation
import Synchronization
import Testing

@testable import UpstreamAuth

@Suite struct `Challenges that are remembered` {
  private let key = ChallengeKey(user: bytes("al"), server: "http://up/127.0.0.1:80")

  private func count(_ answer: PreparedAnswer?) -> UInt32? {
    if case .digest(let digest)? = answer { digest.count } else { nil }
  }

  @Test func `a nonce's count rises strictly, whoever asks`() throws {
    let store = ChallengeStore()
    let offer = try Offer.digest(digest("Digest realm=r, nonce=n, qop=auth"))
    #expect(count(store.answer(key, offer)) == 1)
    let seen = Mutex<Set<UInt32>>([1])
    DispatchQueue.concurrentPerform(iterations: 8) { worker in
      for _ in 0..<200 {
        // The same challenge again goes on counting.
        let answer = worker % 2 == 0 ? store.ahead(key) { _ in true } : store.answer(key, offer)
        if let count = count(answer) { _ = seen.withLock { $0.insert(count) } }
      }
    }
    #expect(seen.withLock { $0 } == Set(1...1601))
  }

  @Test func `another nonce begins at one, and nextnonce keeps the session`() throws {
    let store = ChallengeStore()
    _ = try store.answer(key, .digest(digest("Digest realm=r, nonce=n, qop=auth, algorithm=MD5-sess")))
    store.advance(key, from: bytes("other"), to: bytes("x"))
    store.advance(key, from: bytes("n"), to: bytes("n2"))
    guard case .digest(let answer)? = store.ahead(key, isAdmitted: { _ in true }) else { return #expect(Bool(false)) }
    #expect(answer.count == 1 && answer.challenge.nonce == bytes("n2") && answer.sessionNonce == bytes("n"))
    let stale = try Offer.digest(digest("Digest realm=r, nonce=n2, qop=auth, algorithm=MD5-sess, stale=true"))
    #expect(count(store.answer(key, stale)) == 2, "what is stale is the nonce before it")
  }

  @Test func `a challenge that comes late, of a nonce before, has its count go on`() throws {
    let store = ChallengeStore()
    let offers = try ["a", "b", "c"].map { try Offer.digest(digest("Digest realm=r, nonce=\($0), qop=auth")) }
    for offer in offers { #expect(count(store.answer(key, offer)) == 1) }
    for offer in offers { #expect(count(store.answer(key, offer)) == 2) }
    store.forget(key)
    #expect(store.ahead(key) { _ in true } == nil)
    #expect(count(store.answer(key, offers[2])) == 3)
    store.advance(key, from: bytes("c"), to: bytes("a"))
    #expect(count(store.ahead(key) { _ in true }) == 3)
  }

  @Test func `users and servers have challenges of their own, and a forgotten one is gone`() {
    let store = ChallengeStore()
    _ = store.answer(key, .basic(realm: []))
    #expect(store.ahead(ChallengeKey(user: bytes("bob"), server: key.server)) { _ in true } == nil)
    #expect(store.ahead(ChallengeKey(user: key.user, server: "http://other")) { _ in true } == nil)
    #expect(store.ahead(key) { _ in false } == nil)
    store.forget(key)
    #expect(store.ahead(key) { _ in true } == nil)
  }

  @Test func `what was used longest ago gives way`() {
    let store = ChallengeStore()
    for number in 0..<ChallengeStore.limit {
      _ = store.answer(ChallengeKey(user: bytes("\(number)"), server: ""), .ntlm(message: nil))
    }
    _ = store.ahead(ChallengeKey(user: bytes("0"), server: "")) { _ in true }
    _ = store.answer(key, .ntlm(message: nil))
    #expect(store.count == ChallengeStore.limit)
    #expect(store.ahead(ChallengeKey(user: bytes("0"), server: "")) { _ in true } != nil)
    #expect(store.ahead(ChallengeKey(user: bytes("1"), server: "")) { _ in true } == nil)
  }

  @Test func `a file reads as it was written, counts passed over`() throws {
    var digest = RememberedChallenge(
      try .digest(
        digest("Digest realm=\"a b\", nonce=n, opaque=\"\", qop=\"auth,auth-int\", algorithm=SHA-256, userhash=true")))
    _ = digest.use()
    let entries: [(ChallengeKey, RememberedChallenge)] = [
      (key, digest), (ChallengeKey(user: bytes("b"), server: "s"), .basic(realm: [])),
      (ChallengeKey(user: [], server: ""), .ntlm),
    ]
    let read = try #require(ChallengeFile.parse(ChallengeFile.render(entries)))
    #expect(read.map(\.0) == entries.map(\.0))
    #expect(read[1].1 == entries[1].1 && read[2].1 == .ntlm)
    guard case .digest(let session) = read[0].1, case .digest(var before) = digest else { return #expect(Bool(false)) }
    #expect(session.used == before.used + ChallengeFile.reserve)
    before.used = session.used
    #expect(session == before)
  }

  @Test func `a file changed by a byte is none`() throws {
    let written = ChallengeFile.render([(key, .basic(realm: bytes("r"))), (key, .ntlm)])
    for index in written.indices {
      var broken = written
      broken[index] ^= 1
      #expect(ChallengeFile.parse(broken) == nil, "\(index)")
      #expect(ChallengeFile.parse(Array(written[..<index])) == nil)
    }
    #expect(ChallengeFile.parse(written)?.count == 2)
  }

  @Test func `a folder keeps what a process knew, and a corrupted one is begun anew`() throws {
    let folder = NSTemporaryDirectory() + "auth-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let offer = try Offer.digest(digest("Digest realm=r, nonce=n, qop=auth"))
    let file = ChallengeFile(folder: folder)
    var last: UInt32 = 0
    do {
      let store = ChallengeStore(folder: folder, pool: BlockingPool(), log: nil)
      last = try #require(count(store.answer(key, offer)))
      let deadline = Date() + 20
      while case .absent = file.read(), Date() < deadline { usleep(1000) }
      #expect(ChallengeStore(folder: folder, pool: BlockingPool(), log: nil).count == 0, "one process at a time")
    }
    // Each ends without a word, and nothing is written after its first use.
    for _ in 0..<3 {
      let next = try #require(count(try taken(folder).ahead(key) { _ in true }))
      #expect(next > last)
      last = next
    }
    #expect(try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? Int == 0o600)
    try Data("junk".utf8).write(to: URL(fileURLWithPath: file.path))
    #expect(try taken(folder).count == 0)
  }

  /// The one before may be about to end.
  private func taken(_ folder: String) throws -> ChallengeStore {
    let deadline = Date() + 20
    while Date() < deadline {
      let store = ChallengeStore(folder: folder, pool: BlockingPool(), log: nil)
      if store.keepsFolder { return store }
      usleep(1000)
    }
    throw NoDigest()
  }
}
