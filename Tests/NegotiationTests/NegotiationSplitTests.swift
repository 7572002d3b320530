import Testing

@testable import Negotiation

/// How the network cuts the bytes must not matter.
@Suite struct `Negotiations in pieces` {
  private static let bind = BER.simpleBind(1)

  static let clients: [(NegotiatedProtocol, [UInt8])] = [
    (.postgres, `PostgreSQL clients before TLS`.ssl), (.postgres, `PostgreSQL clients before TLS`.startup),
    (.postgres, `PostgreSQL clients before TLS`.cancel(key: 4)),
    (.postgres, `PostgreSQL clients before TLS`.cancel(key: 256)), (.postgres, [0, 0, 0, 7, 0, 0, 0, 0]),
    (.postgres, [0, 0, 0, 8, 0, 2, 0, 0, 1]), (.postgres, Array("GET / HTTP/1.1\r\n".utf8)), (.postgres, [0x16, 3, 1]),
    (.smtp, Array("EHLO me\r\nNOOP\r\nMAIL FROM:<a@b>\r\nSTARTTLS x\r\nSTARTTLS\r\n".utf8)),
    (.smtp, Array("QUIT\r\nNOOP\r\n".utf8)), (.smtp, Array("NOOP\nNOOP\r\n".utf8)), (.smtp, Array("NO\rOP\r\n".utf8)),
    (.smtp, [UInt8](repeating: 0x78, count: 2100)),
    (.smtp, Array(String(repeating: "NOOP\r\n", count: 22).utf8)),
    (.imap, Array("a CAPABILITY\r\nb LOGIN x y\r\n+ z\r\nc STARTTLS\r\n".utf8)),
    (.imap, Array("a LOGIN {3}\r\nabc\r\n".utf8)), (.imap, Array("a LOGOUT\r\nb NOOP\r\n".utf8)),
    (.pop3, Array("CAPA\r\nUSER x\r\nSTLS\r\n".utf8)), (.pop3, Array("QUIT\r\n".utf8)),
    (.ldap, BER.startTLS(1)), (.ldap, bind + bind + BER.message(2, [0x50, 1, 1]) + BER.startTLS(2)),
    (.ldap, bind + BER.message(2, [0x42, 0]) + bind), (.ldap, bind + [0x30, 0x80, 0, 0]),
    (.ldap, [0x30, 0x84, 255, 0, 0, 0, 1]),
    (.ldap, BER.message(0, [0x42, 0])), (.ldap, (1...21).flatMap { BER.simpleBind($0) }),
  ]

  @Test(arguments: clients)
  func `end as they do when a client's bytes come at once`(kind: NegotiatedProtocol, bytes: [UInt8]) {
    let whole = Talk(client: kind).hearing(bytes)
    for size in [1, 2, 3, 5, 7, 11, 64, 2047] {
      let pieces = Talk(client: kind).hearing(bytes, size: size)
      #expect(pieces.said == whole.said && pieces.next == whole.next, "\(size)")
    }
  }

  /// What a server says in each of its turns: it only goes on when it has heard us.
  static let servers: [(NegotiatedProtocol, UpstreamNegotiation.Goal, [[UInt8]])] = [
    (.postgres, .tls, [[0x53]]), (.postgres, .tls, [[0x4E]]), (.postgres, .tls, [PostgresMessage.fatal("1", "text")]),
    (.postgres, .tls, [[0x45, 255, 255, 255, 255, 1]]),
    (.smtp, .tls, texts("220-a\r\n220 b\r\n", "250-a\r\n250-STARTTLS\r\n250 X\r\n", "220-go\r\n220 on\r\n")),
    (.smtp, .tls, texts("220 a\r\n", "250-a\r\n250 X\r\n")), (.smtp, .tls, texts("554-a\r\n554 b\r\n")),
    (.smtp, .tls, texts("220-a\r\n221 b\r\n")), (.smtp, .tls, texts("220 a\n")),
    (.imap, .tls, texts("* OK a\r\n", "* X\r\na1 OK b\r\n")), (.imap, .tls, texts("* PREAUTH a\r\n")),
    (.imap, .tls, texts("* OK a\r\n", "a1 NO b\r\n")), (.pop3, .tls, texts("+OK a\r\n", "+OK b\r\n")),
    (.pop3, .tls, texts("-ERR a\r\n")), (.ldap, .tls, [BER.result(1, 0x78, 0, "")]),
    (.ldap, .tls, [BER.result(1, 0x78, 1, "a")]), (.ldap, .tls, [[0x30, 0x80]]),
    (.smtp, .greetingOnly, texts("220-a\r\n220 b\r\n250 c\r\n")), (.imap, .greetingOnly, texts("* OK a\r\n* X\r\n")),
    (.pop3, .greetingOnly, texts("-ERR a\r\n")), (.ldap, .greetingOnly, [[1]]),
  ]

  private static func texts(_ texts: String...) -> [[UInt8]] { texts.map { Array($0.utf8) } }

  @Test(arguments: servers)
  func `end as they do when a server's answers come at once`(
    kind: NegotiatedProtocol, goal: UpstreamNegotiation.Goal, turns: [[UInt8]]
  ) {
    let whole = turns.reduce(Talk(upstream: kind, goal)) { $0.hearing($1) }
    #expect(whole.next != .more)
    for size in [1, 2, 3, 5, 7] {
      let pieces = turns.reduce(Talk(upstream: kind, goal)) { $0.hearing($1, size: size) }
      #expect(pieces.said == whole.said && pieces.next == whole.next, "\(size)")
      #expect(pieces.machine.greeting == whole.machine.greeting, "\(size)")
      if goal == .greetingOnly, whole.reason == nil { #expect(pieces.socket == whole.socket, "\(size)") }
    }
  }

  @Test func `consume nothing and say the same once they have ended`() {
    for (kind, bytes) in Self.clients {
      var talk = Talk(client: kind).hearing(bytes)
      guard talk.next != .more else { continue }
      let step = bytes.withUnsafeBytes { talk.machine.take($0) }
      #expect(step.consumed == 0 && step.reply.isEmpty && step.next == talk.next)
    }
    for (kind, goal, turns) in Self.servers {
      var talk = turns.reduce(Talk(upstream: kind, goal)) { $0.hearing($1) }
      let step = turns[0].withUnsafeBytes { talk.machine.take($0) }
      #expect(step.consumed == 0 && step.reply.isEmpty && step.next == talk.next)
    }
  }

  @Test func `wait when nothing has come`() {
    for kind in NegotiatedProtocol.allCases {
      var client = ClientNegotiation(kind, name: "a")
      #expect(client.take(UnsafeRawBufferPointer(start: nil, count: 0)).next == .more)
      var upstream = UpstreamNegotiation(kind, goal: .tls)
      #expect(upstream.take(UnsafeRawBufferPointer(start: nil, count: 0)).next == .more)
    }
  }

  @Test func `need no more bytes at once than they say`() {
    for (kind, unfinished): (NegotiatedProtocol, [UInt8]) in [
      (.postgres, [0, 0, 0x27, 0x14, 0, 3, 0, 0]), (.smtp, Array("NOOP ".utf8)), (.imap, Array("a ".utf8)),
      (.pop3, Array("USER ".utf8)), (.ldap, [0x30, 0x82, 0xFF, 0xFC]),
    ] {
      let most = ClientNegotiation(kind, name: "a").most
      let bytes = unfinished + [UInt8](repeating: 0x78, count: most - unfinished.count)
      #expect(Talk(client: kind).hearing(bytes.dropLast()).next == .more)
      #expect(Talk(client: kind).hearing(bytes).next != .more)
    }
  }
}
