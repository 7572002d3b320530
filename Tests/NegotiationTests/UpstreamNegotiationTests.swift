import Testing

@testable import Negotiation

@Suite struct `PostgreSQL servers before TLS` {
  private func heard(_ bytes: [UInt8]) -> Talk<UpstreamNegotiation> { Talk(upstream: .postgres).hearing(bytes) }

  @Test func `TLS is asked for at once, and begins behind the server's S`() {
    #expect(UpstreamNegotiation(.postgres, goal: .tls).opening == [0, 0, 0, 8, 0x04, 0xD2, 0x16, 0x2F])
    let talk = heard([0x53])
    #expect(talk.next == .beginTLS && talk.said.isEmpty && talk.socket.isEmpty)
  }

  @Test func `bytes behind the S end the connection`() {
    for bytes: [UInt8] in [[0x53, 0x45], [0x53, 0x52, 0, 0, 0, 8], [0x53, 0x16]] {
      #expect(heard(bytes).reason == UpstreamNegotiation.injection)
    }
  }

  @Test func `a server without TLS, and one that says anything else, ends the connection`() {
    #expect(heard([0x4E]).reason == "the upstream server doesn't offer TLS")
    #expect(heard([0x4E, 0x52]).reason == "the upstream server doesn't offer TLS")
    #expect(heard([0x47]).reason == "the upstream server said \"G\", which isn't expected before TLS")
    #expect(heard([0x16]).reason == "the upstream server said \"\\x16\", which isn't expected before TLS")
  }

  @Test func `the text of an error goes to the log when the whole error has come`() {
    let error = PostgresMessage.fatal("0A000", "no\u{1B}[1m \"TLS\" here")
    #expect(heard(error.dropLast()).next == .more)
    #expect(heard(error).reason == "the upstream server refused TLS: \"no\\x1B[1m \\x22TLS\\x22 here\"")
    #expect(heard([0x45, 0, 0, 0, 4]).reason == "the upstream server refused TLS: \"\"")
    for length: [UInt8] in [[0, 0, 0, 3], [0, 0, 0x75, 0x31], [0x46, 0x41, 0x54, 0x41]] {
      #expect(heard([0x45] + length).reason == "the upstream server refused TLS by an error of invalid length")
    }
  }

  @Test func `a long text is cut`() {
    let reason = heard(PostgresMessage.fatal("0A000", String(repeating: "x", count: 5000))).reason ?? ""
    #expect(reason.utf8.count < 250 && reason.hasSuffix("xxx...\""))
  }
}

@Suite struct `SMTP servers before TLS` {
  private static let offer = "250-mail.example\r\n250-SIZE 1000\r\n250 STARTTLS\r\n"

  @Test func `greeting, EHLO and STARTTLS lead to TLS`() {
    var talk = Talk(upstream: .smtp)
    #expect(talk.machine.opening.isEmpty)
    talk = talk.hearing("220 mail.example ESMTP\r\n")
    #expect(talk.text == "EHLO proxy.example\r\n" && talk.next == .more)
    talk = talk.hearing(Self.offer)
    #expect(talk.text == "EHLO proxy.example\r\nSTARTTLS\r\n" && talk.next == .more)
    talk = talk.hearing("220 go\r\n")
    #expect(talk.next == .beginTLS && talk.socket.isEmpty)
    #expect(talk.machine.greeting == Array("220 mail.example ESMTP\r\n".utf8))
  }

  @Test func `replies may have many lines, and text may be missing`() {
    let talk = Talk(upstream: .smtp).hearing("220-a\r\n220-b\r\n220\r\n")
    #expect(talk.text == "EHLO proxy.example\r\n")
    #expect(talk.machine.greeting == Array("220-a\r\n220-b\r\n220\r\n".utf8))
    #expect(talk.hearing("250-x\r\n250-starttls\r\n250 HELP\r\n").hearing("220-a\r\n220 b\r\n").next == .beginTLS)
  }

  @Test func `bytes behind the agreement end the connection`() {
    let asked = Talk(upstream: .smtp).hearing("220 a\r\n").hearing(Self.offer)
    for text in ["220 go\r\n250 x\r\n", "220 go\r\n\u{16}", "220-a\r\n220 b\r\n2"] {
      #expect(asked.hearing(text).reason == UpstreamNegotiation.injection)
    }
  }

  @Test func `an answer that comes with what it should follow ends the connection`() {
    for text in ["220 a\r\n\(Self.offer)", "220 a\r\n2", "220 a\r\n\(Self.offer)220 go\r\n"] {
      let talk = Talk(upstream: .smtp).hearing(text)
      #expect(talk.reason == UpstreamNegotiation.earlyAnswer && talk.said.isEmpty)
    }
    let talk = Talk(upstream: .smtp).hearing("220 a\r\n").hearing("\(Self.offer)220 go\r\n")
    #expect(talk.reason == UpstreamNegotiation.earlyAnswer && talk.text == "EHLO proxy.example\r\n")
  }

  @Test(arguments: [
    "250 STARTTLS\r\n", "250-a\r\n250 STARTTLSX\r\n", "250-STARTTLS\r\n250 SIZE\r\n", "250-a\r\n250 X STARTTLS\r\n",
  ])
  func `a server that doesn't offer STARTTLS ends the connection`(answer: String) {
    let talk = Talk(upstream: .smtp).hearing("220 a\r\n").hearing(answer)
    #expect(talk.reason == "the upstream server doesn't offer STARTTLS")
    #expect(talk.text == "EHLO proxy.example\r\n")
  }

  @Test func `refusals end the connection, with the server's words`() {
    #expect(
      Talk(upstream: .smtp).hearing("554-no\r\n554 go \"away\"\r\n").reason
        == "the upstream server refused the session: \"554 go \\x22away\\x22\"")
    let greeted = Talk(upstream: .smtp).hearing("220 a\r\n")
    #expect(greeted.hearing("502 what\r\n").reason == "the upstream server refused EHLO: \"502 what\"")
    let asked = greeted.hearing(Self.offer)
    #expect(asked.hearing("454 4.7.0 later\r\n").reason == "the upstream server refused TLS: \"454 4.7.0 later\"")
    #expect(asked.hearing("250 ok\r\n").reason == "the upstream server refused TLS: \"250 ok\"")
  }

  @Test(arguments: [
    "hello\r\n", "22\r\n", "2200 a\r\n", "220_a\r\n", "220-a\r\n221 b\r\n", "220-a\r\n\r\n", "2x0 a\r\n",
  ])
  func `what is no reply ends the connection`(text: String) {
    #expect(Talk(upstream: .smtp).hearing(text).reason?.hasSuffix("which isn't expected before TLS") == true)
  }

  @Test func `lines and bytes are bounded, and lines end with CR LF`() {
    let line = "220-" + String(repeating: "x", count: 994) + "\r\n"
    let most = String(repeating: "220-x\r\n", count: 99)
    #expect(Talk(upstream: .smtp).hearing(most + "220 x\r\n").next == .more)
    #expect(
      Talk(upstream: .smtp).hearing(most + "220-x\r\n220 x\r\n").reason
        == "the upstream server sent more than 100 lines before TLS")
    #expect(Talk(upstream: .smtp).hearing(String(repeating: line, count: 65)).next == .more)
    #expect(
      Talk(upstream: .smtp).hearing(String(repeating: line, count: 66)).reason
        == "the upstream server sent more than 65536 bytes before TLS")
    #expect(
      Talk(upstream: .smtp).hearing("220 x\n").reason
        == "the upstream server sent a CR or LF that is no line end before TLS")
  }

  @Test func `the name in EHLO can't end the line`() {
    var machine = UpstreamNegotiation(.smtp, goal: .tls, name: "a\r\nMAIL FROM:<b>")
    let step = Array("220 x\r\n".utf8).withUnsafeBytes { machine.take($0) }
    #expect(step.reply == Array("EHLO aMAILFROM:b\r\n".utf8))
  }
}

@Suite struct `IMAP servers before TLS` {
  private static let greeted = Talk(upstream: .imap).hearing("* OK ready\r\n")

  @Test func `greeting and STARTTLS lead to TLS`() {
    #expect(Self.greeted.text == "a1 STARTTLS\r\n" && Self.greeted.next == .more)
    #expect(Self.greeted.hearing("a1 OK go\r\n").next == .beginTLS)
    #expect(Self.greeted.hearing("* CAPABILITY IMAP4rev1\r\n* 3 EXISTS\r\n").hearing("a1 ok\r\n").next == .beginTLS)
    #expect(Self.greeted.hearing("* OK x\r\na1 OK go\r\n").next == .beginTLS)
    #expect(Self.greeted.machine.greeting == Array("* OK ready\r\n".utf8))
  }

  @Test func `bytes behind the agreement end the connection`() {
    for text in ["a1 OK go\r\n* ", "a1 OK go\r\na2 OK\r\n", "a1 OK\r\n\u{16}"] {
      #expect(Self.greeted.hearing(text).reason == UpstreamNegotiation.injection)
    }
  }

  @Test func `a tagged answer that comes with the greeting ends the connection, and untagged lines don't`() {
    for text in ["* OK x\r\na1 OK go\r\n", "* OK x\r\na", "* OK x\r\n* 1 EXISTS\r\na1 OK go\r\n"] {
      let talk = Talk(upstream: .imap).hearing(text)
      #expect(talk.reason == UpstreamNegotiation.earlyAnswer && talk.said.isEmpty)
    }
    let talk = Talk(upstream: .imap).hearing("* OK x\r\n* CAPABILITY IMAP4rev1\r\n* 1 EX")
    #expect(talk.text == "a1 STARTTLS\r\n" && talk.next == .more && talk.socket == Array("* 1 EX".utf8))
  }

  @Test func `a question isn't sent when the same bytes end the connection`() {
    let talk = Talk(upstream: .imap).hearing("* OK x\r\n* BYE y\r\n")
    #expect(talk.reason == "the upstream server refused the session: \"* BYE y\"" && talk.said.isEmpty)
  }

  @Test func `PREAUTH ends the connection, because TLS can't begin then`() {
    #expect(
      Talk(upstream: .imap).hearing("* PREAUTH hi\r\n").reason
        == "the upstream server greeted with PREAUTH, after which TLS can't begin: \"* PREAUTH hi\"")
  }

  @Test(arguments: [
    ("a1 NO later\r\n", "the upstream server refused TLS: \"a1 NO later\""),
    ("a1 BAD what\r\n", "the upstream server refused TLS: \"a1 BAD what\""),
    ("* BYE shut\r\n", "the upstream server refused the session: \"* BYE shut\""),
    ("a1 PREAUTH\r\n", "the upstream server said \"a1 PREAUTH\", which isn't expected before TLS"),
    ("a1 OKAY\r\n", "the upstream server said \"a1 OKAY\", which isn't expected before TLS"),
    ("A1 OK\r\n", "the upstream server said \"A1 OK\", which isn't expected before TLS"),
    ("a2 OK\r\n", "the upstream server said \"a2 OK\", which isn't expected before TLS"),
    ("+ go\r\n", "the upstream server said \"+ go\", which isn't expected before TLS"),
    ("\r\n", "the upstream server said \"\", which isn't expected before TLS"),
    ("* 1 FETCH {5}\r\n", "the upstream server said \"* 1 FETCH {5}\", which isn't expected before TLS"),
  ])
  func `anything but an agreement ends the connection`(line: String, reason: String) {
    #expect(Self.greeted.hearing(line).reason == reason)
  }

  @Test(arguments: ["OK x\r\n", "* NO x\r\n", "*\r\n", "a1 OK\r\n", "220 x\r\n"])
  func `what is no greeting ends the connection`(line: String) {
    #expect(Talk(upstream: .imap).hearing(line).reason?.hasSuffix("which isn't expected before TLS") == true)
  }

  @Test func `untagged lines are bounded`() {
    #expect(Self.greeted.hearing(String(repeating: "* x\r\n", count: 99)).next == .more)
    #expect(
      Self.greeted.hearing(String(repeating: "* x\r\n", count: 100)).reason
        == "the upstream server sent more than 100 lines before TLS")
  }
}

@Suite struct `POP3 servers before TLS` {
  private static let greeted = Talk(upstream: .pop3).hearing("+OK ready <1@a>\r\n")

  @Test func `greeting and STLS lead to TLS`() {
    #expect(Self.greeted.text == "STLS\r\n" && Self.greeted.next == .more)
    #expect(Self.greeted.machine.greeting == Array("+OK ready <1@a>\r\n".utf8))
    for line in ["+OK go\r\n", "+OK\r\n"] { #expect(Self.greeted.hearing(line).next == .beginTLS) }
  }

  @Test func `bytes behind the agreement, and an answer before the question, end the connection`() {
    #expect(Self.greeted.hearing("+OK go\r\n+OK\r\n").reason == UpstreamNegotiation.injection)
    #expect(Talk(upstream: .pop3).hearing("+OK\r\n+OK\r\n").reason == UpstreamNegotiation.earlyAnswer)
  }

  @Test func `refusals and anything else end the connection`() {
    #expect(
      Talk(upstream: .pop3).hearing("-ERR busy\r\n").reason == "the upstream server refused the session: \"-ERR busy\"")
    #expect(Self.greeted.hearing("-ERR no\r\n").reason == "the upstream server refused TLS: \"-ERR no\"")
    for line in ["+OKAY\r\n", "OK\r\n", "* OK\r\n", "\r\n"] {
      #expect(Self.greeted.hearing(line).reason?.hasSuffix("which isn't expected before TLS") == true)
    }
  }
}

@Suite struct `LDAP servers before TLS` {
  private func heard(_ bytes: [UInt8]) -> Talk<UpstreamNegotiation> { Talk(upstream: .ldap).hearing(bytes) }
  private static let oid = "1.3.6.1.4.1.1466.20037"
  private static let fault = "the upstream server sent a malformed or unexpected LDAP message before TLS"

  @Test func `TLS is asked for at once, and begins behind the server's success`() {
    #expect(UpstreamNegotiation(.ldap, goal: .tls).opening == BER.startTLS(1))
    for name in [nil, Self.oid] {
      let talk = heard(BER.result(1, 0x78, 0, "", name: name))
      #expect(talk.next == .beginTLS && talk.socket.isEmpty)
    }
    // A referral, and the name behind it.
    let fields = [[0x0A, 1, 0], [4, 0], [4, 0], [0xA3, 3, 4, 1, 0x61], BER.element(0x8A, Array(Self.oid.utf8))]
    #expect(heard(BER.message(1, BER.element(0x78, fields.flatMap { $0 }))).next == .beginTLS)
  }

  @Test func `bytes behind the success end the connection`() {
    for rest: [UInt8] in [[0x16], BER.result(1, 0x78, 0, ""), [0x30]] {
      #expect(heard(BER.result(1, 0x78, 0, "") + rest).reason == UpstreamNegotiation.injection)
    }
  }

  @Test func `a refusal ends the connection, with the server's words`() {
    #expect(
      heard(BER.result(1, 0x78, 52, "no\nTLS")).reason
        == "the upstream server refused TLS: result code 52, \"no\\x0ATLS\"")
    #expect(
      heard(BER.result(0, 0x78, 52, "bye", name: "1.3.6.1.4.1.1466.20036")).reason
        == "the upstream server refused the session: result code 52, \"bye\"")
    // Before StartTLS was known: an empty name.
    #expect(
      heard(BER.result(1, 0x78, 2, "unknown")).reason == "the upstream server refused TLS: result code 2, \"unknown\"")
  }

  @Test func `a success of something else is none`() {
    for bytes in [
      BER.result(2, 0x78, 0, ""), BER.result(0, 0x78, 0, ""), BER.result(1, 0x61, 0, ""),
      BER.result(1, 0x78, 0, "", name: "1.2"),
      BER.message(1, [0x78, 0]), BER.message(1, BER.element(0x78, [0x0A, 0, 4, 0, 4, 0])),
      BER.message(1, BER.element(0x78, [2, 1, 0, 4, 0, 4, 0])), BER.message(1, BER.element(0x78, [0x0A, 1, 0, 4, 0])),
      BER.message(1, BER.element(0x78, [0x0A, 1, 0, 4, 0, 4, 0, 0x8A])), [0x30, 0x80], [0x53], [0x16],
    ] {
      #expect(heard(bytes).reason == Self.fault)
    }
    let twice = [0x0A, 1, 0, 4, 0, 4, 0] + BER.element(0x8A, Array(Self.oid.utf8)) + [0x8A, 0]
    #expect(heard(BER.message(1, BER.element(0x78, twice))).reason == Self.fault)
    #expect(heard([0x30, 0x83, 1, 0, 0]).reason == "the upstream server sent more than 65536 bytes before TLS")
  }
}

@Suite struct `Greetings of upstream servers` {
  private func heard(_ kind: NegotiatedProtocol, _ text: String, size: Int = .max) -> Talk<UpstreamNegotiation> {
    Talk(upstream: kind, .greetingOnly).hearing(text, size: size)
  }

  @Test(
    arguments: [
      (.smtp, "220 a\r\n"), (.smtp, "220-a\r\n220-b\r\n220 c\r\n"), (.imap, "* OK a\r\n"), (.imap, "* PREAUTH a\r\n"),
      (.imap, "* ok\r\n"), (.pop3, "+OK <1@a>\r\n"), (.pop3, "+OK\r\n"),
    ] as [(NegotiatedProtocol, String)])
  func `are read and kept, and what follows stays in the socket`(kind: NegotiatedProtocol, greeting: String) {
    for following in ["", "250 x\r\n", "* 1 EXISTS\r\n", "a1 OK\r\n", "\n\0"] {
      let talk = heard(kind, greeting + following)
      #expect(talk.next == .done && talk.said.isEmpty && talk.socket == Array(following.utf8))
      #expect(talk.machine.greeting == Array(greeting.utf8) && talk.machine.isDone)
    }
  }

  @Test(
    arguments: [
      (.smtp, "421 later\r\n"), (.smtp, "554-no\r\n554 go\r\n"), (.imap, "* BYE no\r\n"), (.pop3, "-ERR no\r\n"),
    ] as [(NegotiatedProtocol, String)])
  func `that refuse the session end it, and can be handed on`(kind: NegotiatedProtocol, greeting: String) {
    let talk = heard(kind, greeting)
    #expect(talk.reason?.hasPrefix("the upstream server refused the session: \"") == true)
    #expect(talk.machine.greeting == Array(greeting.utf8) && !talk.machine.isDone)
  }

  @Test func `that are none end the session`() {
    for (kind, text): (NegotiatedProtocol, String) in [
      (.smtp, "* OK\r\n"), (.imap, "220 a\r\n"), (.pop3, "220 a\r\n"), (.imap, "* OK x\n"),
    ] {
      #expect(heard(kind, text).reason != nil)
    }
  }

  @Test func `don't exist in PostgreSQL and LDAP, so there is nothing to do`() {
    for kind: NegotiatedProtocol in [.postgres, .ldap] {
      let talk = heard(kind, "x")
      #expect(talk.next == .done && talk.socket == [0x78] && talk.said.isEmpty)
      let machine = UpstreamNegotiation(kind, goal: .greetingOnly)
      #expect(machine.opening.isEmpty && machine.isDone && machine.greeting.isEmpty)
    }
    #expect(!UpstreamNegotiation(.smtp, goal: .greetingOnly).isDone)
    #expect(!UpstreamNegotiation(.postgres, goal: .tls).isDone)
  }
}
