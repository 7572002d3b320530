import Bytes
import Redis
import TestSupport
import Testing

@Suite("Replies of Redis") struct RedisReaderTests {
  private func read(_ text: String, cutAt step: Int = .max) throws(RedisReader.Malformed) -> [RedisReply] {
    var reader = RedisReader()
    var replies: [RedisReply] = []
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let piece = Array(rest.prefix(step))
      rest = rest.dropFirst(piece.count)
      piece.withUnsafeBytes { reader.append($0) }
      while let reply = try reader.next() { replies.append(reply) }
    }
    return replies
  }

  /// What the fuzzer starts from and what it once found.
  @Test(arguments: FuzzInput.all(of: "FuzzRedis")) func `inputs of the fuzzer are read the same in any pieces`(
    input: FuzzInput
  ) {
    let text = String(decoding: input.bytes.dropFirst(), as: UTF8.self)
    let (whole, pieces) = (Result { try read(text) }, Result { try read(text, cutAt: 1) })
    #expect((try? whole.get()) == (try? pieces.get()))
  }

  @Test(arguments: [1, 2, 3, 7, Int.max]) func `replies are the same however their bytes are cut`(step: Int) throws {
    let text = "+OK\r\n:-12\r\n$-1\r\n*-1\r\n$5\r\na\r\nb\n\r\n*3\r\n:1\r\n*1\r\n$0\r\n\r\n+x\r\n-OOM no room\r\n"
    let replies = try read(text, cutAt: step)
    #expect(
      replies.prefix(6) == [
        .text(Array("OK".utf8)), .number(-12), .none, .none, .text(Array("a\r\nb\n".utf8)),
        .list([.number(1), .list([.text([])]), .text([0x78])]),
      ])
    guard case .error(let refusal)? = replies.last else {
      Issue.record("no refusal")
      return
    }
    #expect(refusal.code == "OOM" && refusal.description == "OOM no room" && !refusal.isOfConnection)
  }

  @Test(
    arguments: [
      "?\r\n", "\r\n", "+OK\n", ":x\r\n", ":\r\n", "$-2\r\n", "$65537\r\n", "$1\r\nab\r\n", "*1025\r\n", "*-7\r\n",
      "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", ":99999999999999999999\r\n", "$99999999999999999999\r\n",
      "+" + String(repeating: "a", count: 600),
      "*2\r\n$65000\r\n" + String(repeating: "a", count: 65_000) + "\r\n$65000\r\n"
        + String(repeating: "a", count: 600),
    ].map { LongText($0) }) func `what is no reply, or too large a one, is refused`(reply: LongText)
  {
    #expect(throws: RedisReader.Malformed.self) { _ = try read(reply.text) }
  }
}

@Suite("Sessions with Redis") struct RedisSessionTests {
  private static let sha = String(repeating: "a", count: 40)

  private func session(
    _ replies: String, password: String? = nil, database: Int = 0, scripts: [String] = ["return 1"]
  ) -> (RedisSession, [RedisSession.Event]) {
    var session = RedisSession(
      RedisLogin(user: nil, password: password.map { SecretBytes(Array($0.utf8)) }, database: database),
      scripts: scripts)
    Array(replies.utf8).withUnsafeBytes { session.take($0) }
    var events: [RedisSession.Event] = []
    while let event = session.next() { events.append(event) }
    return (session, events)
  }

  private static func hello(mode: String = "standalone", role: String = "master") -> String {
    func text(_ text: String) -> String { "$\(text.utf8.count)\r\n\(text)\r\n" }
    return "*6\r\n" + text("proto") + ":2\r\n" + text("mode") + text(mode) + text("role") + text(role)
  }

  @Test func `the login names the password, the database and the scripts in one piece`() {
    let session = RedisSession(
      RedisLogin(user: "gate", password: SecretBytes(Array("a\r\nb".utf8)), database: 3), scripts: ["return 1"])
    #expect(
      session.opening.readable.elementsEqual(
        "*5\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$4\r\nAUTH\r\n$4\r\ngate\r\n$4\r\na\r\nb\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$8\r\nreturn 1\r\n"
          .utf8))
  }

  @Test func `commands go out after the login, and replies come in their order`() {
    var (session, events) = session(Self.hello() + "+OK\r\n$40\r\n\(Self.sha)\r\n", database: 1)
    #expect(events == [.ready] && session.isReady)
    var output = ByteBuffer()
    session.append(script: 0, keys: [[0]], [[1]], to: &output)
    #expect(
      output.readable.elementsEqual(
        "*5\r\n$7\r\nEVALSHA\r\n$40\r\n\(Self.sha)\r\n$1\r\n1\r\n$1\r\n\0\r\n$1\r\n\u{1}\r\n".utf8))
    session.expect(2)
    Array(":1\r\n:2\r\n:3\r\n".utf8).withUnsafeBytes { session.take($0) }
    #expect(session.next() == .reply(.number(1)) && session.next() == .reply(.number(2)))
    #expect(session.next() == .lost(.unasked) && session.next() == nil && !session.isReady)
  }

  @Test func `a server that can't be written to, or has no data of its own, is refused`() {
    #expect(session(Self.hello(role: "replica")).1 == [.lost(.replica)])
    #expect(session(Self.hello(role: "slave")).1 == [.lost(.replica)])
    #expect(session(Self.hello(mode: "cluster")).1 == [.lost(.cluster)])
    #expect(session(Self.hello(mode: "sentinel")).1 == [.lost(.sentinel)])
  }

  @Test(
    arguments: [
      ("-WRONGPASS invalid", "it refuses the login: WRONGPASS invalid"),
      ("+OK", "what it sends is not the protocol of Redis: HELLO has another answer"),
      ("*0", "what it sends is not the protocol of Redis: HELLO tells no role"),
      ("*1\r\n:1", "what it sends is not the protocol of Redis: HELLO tells no role"),
      ("HTTP/1.1 400 Bad Request", "what it sends is not the protocol of Redis: a reply begins with byte 72"),
    ]) func `a login that fails says why`(reply: String, words: String)
  {
    guard case .lost(let fault)? = session(reply + "\r\n").1.first else {
      Issue.record("the session goes on")
      return
    }
    #expect(fault.description == words)
  }

  @Test func `a script without a name ends the session`() {
    #expect(session(Self.hello() + "+OK\r\n").1 == [.lost(.malformed("no name of a script where one is due"))])
    #expect(session(Self.hello() + "-NOPERM no\r\n").1 == [.lost(.refused("NOPERM no"))])
  }
}
