import Testing

@testable import Negotiation

@Suite struct `SMTP clients before TLS` {
  private func heard(_ text: String) -> Talk<ClientNegotiation> { Talk(client: .smtp).hearing(text) }

  @Test func `the greeting has the host's name, of which only visible ASCII is said`() {
    func greeting(_ name: String) -> String {
      String(decoding: ClientNegotiation(.smtp, name: name).greeting, as: UTF8.self)
    }
    #expect(greeting("mail.example") == "220 mail.example ESMTP\r\n")
    #expect(greeting("a\r\nb\u{0} ü\u{7F}c") == "220 abc ESMTP\r\n")
    #expect(greeting("\r\n") == "220 localhost ESMTP\r\n")
    #expect(greeting(String(repeating: "x", count: 300)).utf8.count == 4 + 255 + 8)
  }

  @Test(arguments: [
    ("EHLO me\r\n", "250-mail.example\r\n250 STARTTLS\r\n"),
    ("ehlo [192.0.2.1]\r\n", "250-mail.example\r\n250 STARTTLS\r\n"),
    ("HELO me\r\n", "250 mail.example\r\n"), ("EHLO\r\n", "501 5.5.4 A domain is missing\r\n"),
    ("HELO \r\n", "501 5.5.4 A domain is missing\r\n"), ("NOOP\r\n", "250 2.0.0 OK\r\n"),
    ("NOOP x\r\n", "250 2.0.0 OK\r\n"), ("RSET\r\n", "250 2.0.0 OK\r\n"),
    ("STARTTLS now\r\n", "501 5.5.4 STARTTLS has no parameters\r\n"),
    ("MAIL FROM:<a@b>\r\n", "530 5.7.0 Must issue a STARTTLS command first\r\n"),
    ("AUTH PLAIN AGEAYg==\r\n", "530 5.7.0 Must issue a STARTTLS command first\r\n"),
    ("STARTTLSX\r\n", "530 5.7.0 Must issue a STARTTLS command first\r\n"),
    (" STARTTLS\r\n", "530 5.7.0 Must issue a STARTTLS command first\r\n"),
    ("\r\n", "530 5.7.0 Must issue a STARTTLS command first\r\n"),
    ("\0\u{7F}ü\r\n", "530 5.7.0 Must issue a STARTTLS command first\r\n"),
  ])
  func `each command has its reply, and the session goes on`(line: String, reply: String) {
    let talk = heard(line)
    #expect(talk.text == reply && talk.next == .more && talk.socket.isEmpty)
    #expect(talk.hearing("STARTTLS\r\n").next == .beginTLS)
  }

  @Test(arguments: ["STARTTLS\r\n", "starttls\r\n", "StartTLS \t\r\n"])
  func `TLS begins behind the line that asks for it, also without EHLO`(line: String) {
    let talk = heard(line)
    #expect(talk.text == "220 2.0.0 Ready to start TLS\r\n" && talk.next == .beginTLS && talk.socket.isEmpty)
  }

  @Test func `bytes behind STARTTLS end the connection, and nothing of the input is answered`() {
    for text in [
      "STARTTLS\r\nX", "STARTTLS\r\nEHLO x\r\n", "EHLO me\r\nSTARTTLS\r\nMAIL FROM:<a@b>\r\n", "STARTTLS\r\n\u{16}",
    ] {
      let talk = heard(text)
      #expect(talk.said.isEmpty && talk.reason == ClientNegotiation.injection && talk.socket.isEmpty)
    }
  }

  @Test func `commands may come together, and STARTTLS as the last of them`() {
    let talk = heard("EHLO me\r\nNOOP\r\nSTARTTLS\r\n")
    #expect(
      talk.text == "250-mail.example\r\n250 STARTTLS\r\n250 2.0.0 OK\r\n220 2.0.0 Ready to start TLS\r\n")
    #expect(talk.next == .beginTLS)
  }

  @Test func `QUIT ends the session, and what follows is taken without an answer`() {
    let talk = heard("QUIT\r\nSTARTTLS\r\n")
    #expect(talk.text == "221 2.0.0 mail.example closes\r\n")
    #expect(talk.reason == "the client ended the session before TLS" && talk.socket.isEmpty)
  }

  @Test func `after 20 commands, the next one ends the session, whatever it is`() {
    let talk = heard(String(repeating: "NOOP\r\n", count: 20))
    #expect(talk.next == .more && talk.said.count == 20 * 14)
    for line in ["STARTTLS\r\n", "NOOP\r\n"] {
      let more = talk.hearing(line)
      #expect(more.reason == "the client sent more than 20 messages before TLS")
      #expect(more.text.hasSuffix("OK\r\n421 4.7.0 mail.example Too many commands\r\n"))
    }
  }

  @Test func `a line has 2048 bytes at most, with its end`() {
    let most = "NOOP " + String(repeating: "x", count: 2041)
    #expect(heard(most + "\r\n").text == "250 2.0.0 OK\r\n")
    #expect(heard(most + "\r").next == .more)
    for text in [most + "x\r\n", most + "xx", most + String(repeating: "x", count: 9000)] {
      let talk = heard(text)
      #expect(talk.text == "500 5.5.2 Line too long\r\n" && talk.socket.isEmpty)
      #expect(talk.reason == "the client sent a line longer than 2048 bytes before TLS")
    }
  }

  @Test(arguments: ["NOOP\n", "STARTTLS\n", "NOOP\rx", "STARTTLS\r\r\n", "NOOP\nSTARTTLS\r\n", "\n"])
  func `a CR or LF that is no line end ends the session`(text: String) {
    let talk = heard(text)
    #expect(talk.text == "500 5.5.2 Lines must end with CR LF\r\n")
    #expect(talk.reason == "the client sent a CR or LF that is no line end before TLS")
  }
}

@Suite struct `IMAP clients before TLS` {
  private func heard(_ text: String) -> Talk<ClientNegotiation> { Talk(client: .imap).hearing(text) }

  @Test func `the greeting says what can be done`() {
    #expect(
      String(decoding: ClientNegotiation(.imap, name: "mail.example").greeting, as: UTF8.self)
        == "* OK [CAPABILITY IMAP4rev1 STARTTLS LOGINDISABLED] mail.example ready\r\n")
  }

  @Test(arguments: [
    ("a CAPABILITY\r\n", "* CAPABILITY IMAP4rev1 STARTTLS LOGINDISABLED\r\na OK CAPABILITY completed\r\n"),
    ("a1 noop\r\n", "a1 OK NOOP completed\r\n"), ("]}~ NOOP\r\n", "]}~ OK NOOP completed\r\n"),
    ("a LOGIN me secret\r\n", "a NO [PRIVACYREQUIRED] TLS is required\r\n"),
    ("a AUTHENTICATE PLAIN\r\n", "a NO [PRIVACYREQUIRED] TLS is required\r\n"),
    ("a ID NIL\r\n", "a NO [PRIVACYREQUIRED] TLS is required\r\n"),
    ("a SELECT \"{\"\r\n", "a NO [PRIVACYREQUIRED] TLS is required\r\n"),
    ("a STARTTLS now\r\n", "a BAD The command has no arguments\r\n"),
    ("a STARTTLS \r\n", "a BAD The command has no arguments\r\n"),
    ("a  STARTTLS\r\n", "a BAD A command is missing\r\n"), ("a\r\n", "a BAD A command is missing\r\n"),
    ("\r\n", "* BAD Invalid tag\r\n"), (" STARTTLS\r\n", "* BAD Invalid tag\r\n"),
    ("* STARTTLS\r\n", "* BAD Invalid tag\r\n"), ("+ STARTTLS\r\n", "* BAD Invalid tag\r\n"),
    ("a(b STARTTLS\r\n", "* BAD Invalid tag\r\n"), ("a\u{1}b STARTTLS\r\n", "* BAD Invalid tag\r\n"),
    ("ä STARTTLS\r\n", "* BAD Invalid tag\r\n"), ("a\"b STARTTLS\r\n", "* BAD Invalid tag\r\n"),
    ("a\\b STARTTLS\r\n", "* BAD Invalid tag\r\n"), ("a{b STARTTLS\r\n", "* BAD Invalid tag\r\n"),
    ("a%b STARTTLS\r\n", "* BAD Invalid tag\r\n"), ("a)b STARTTLS\r\n", "* BAD Invalid tag\r\n"),
  ])
  func `each command has its reply, and the session goes on`(line: String, reply: String) {
    let talk = heard(line)
    #expect(talk.text == reply && talk.next == .more && talk.socket.isEmpty)
    #expect(talk.hearing("b STARTTLS\r\n").next == .beginTLS)
  }

  @Test func `a tag has 64 bytes at most`() {
    let tag = String(repeating: "t", count: 64)
    #expect(heard("\(tag) NOOP\r\n").text == "\(tag) OK NOOP completed\r\n")
    #expect(heard("\(tag)t NOOP\r\n").text == "* BAD Invalid tag\r\n")
  }

  @Test(arguments: ["a1 STARTTLS\r\n", "a1 StartTls\r\n"])
  func `TLS begins behind the line that asks for it`(line: String) {
    let talk = heard(line)
    #expect(talk.text == "a1 OK Begin TLS negotiation now\r\n" && talk.next == .beginTLS && talk.socket.isEmpty)
  }

  @Test func `bytes behind STARTTLS end the connection, and nothing of the input is answered`() {
    for text in ["a STARTTLS\r\nb", "a STARTTLS\r\nb LOGIN me x\r\n", "a NOOP\r\nb STARTTLS\r\n\r\n"] {
      let talk = heard(text)
      #expect(talk.said.isEmpty && talk.reason == ClientNegotiation.injection && talk.socket.isEmpty)
    }
  }

  @Test func `LOGOUT ends the session`() {
    let talk = heard("a LOGOUT\r\nb STARTTLS\r\n")
    #expect(talk.text == "* BYE mail.example closes\r\na OK LOGOUT completed\r\n")
    #expect(talk.reason == "the client ended the session before TLS")
  }

  @Test(arguments: ["a LOGIN {5}\r\n", "a LOGIN me {0+}\r\n", "a APPEND x ~{310}\r\n", "a STARTTLS {1}\r\n"])
  func `a literal ends the session, because its bytes would be read as commands`(line: String) {
    let talk = heard(line + "b STARTTLS\r\n")
    #expect(talk.text == "a BAD Literals are refused before TLS\r\n")
    #expect(talk.reason == "the client sent a literal before TLS")
  }

  @Test func `a literal behind an invalid tag ends the session too`() {
    #expect(heard("+ {5}\r\n").text == "* BAD Literals are refused before TLS\r\n")
    #expect(heard("{5}\r\n").text == "* BAD Literals are refused before TLS\r\n")
  }

  @Test(arguments: ["a LOGIN {}\r\n", "a LOGIN {x}\r\n", "a LOGIN 5}\r\n", "a LOGIN {+}\r\n", "a LOGIN {5} \r\n"])
  func `what only looks like a literal is none`(line: String) {
    #expect(heard(line).text == "a NO [PRIVACYREQUIRED] TLS is required\r\n")
  }

  @Test func `the number of commands and the length of a line are bounded`() {
    let talk = heard(String(repeating: "a NOOP\r\n", count: 20))
    #expect(talk.next == .more)
    let more = talk.hearing("a STARTTLS\r\n")
    #expect(more.text.hasSuffix("completed\r\n* BYE Too many commands\r\n"))
    #expect(more.reason == "the client sent more than 20 messages before TLS")
    #expect(heard("a " + String(repeating: "x", count: 2046)).text == "* BYE Line too long\r\n")
    #expect(heard("a STARTTLS\n").text == "* BYE Lines must end with CR LF\r\n")
  }
}

@Suite struct `POP3 clients before TLS` {
  private func heard(_ text: String) -> Talk<ClientNegotiation> { Talk(client: .pop3).hearing(text) }

  @Test func `the greeting offers no password by digest`() {
    #expect(
      String(decoding: ClientNegotiation(.pop3, name: "mail.example").greeting, as: UTF8.self)
        == "+OK mail.example ready\r\n")
    // RFC 1939 §7: a greeting with a time stamp in angle brackets offers APOP.
    #expect(
      String(decoding: ClientNegotiation(.pop3, name: "<1@a>").greeting, as: UTF8.self) == "+OK 1@a ready\r\n")
  }

  @Test(arguments: [
    ("CAPA\r\n", "+OK Capabilities follow\r\nSTLS\r\n.\r\n"), ("capa\r\n", "+OK Capabilities follow\r\nSTLS\r\n.\r\n"),
    ("USER me\r\n", "-ERR TLS is required, use STLS\r\n"), ("NOOP\r\n", "-ERR TLS is required, use STLS\r\n"),
    ("STLS now\r\n", "-ERR TLS is required, use STLS\r\n"), ("\r\n", "-ERR TLS is required, use STLS\r\n"),
  ])
  func `each command has its reply, and the session goes on`(line: String, reply: String) {
    let talk = heard(line)
    #expect(talk.text == reply && talk.next == .more && talk.socket.isEmpty)
    #expect(talk.hearing("STLS\r\n").next == .beginTLS)
  }

  @Test func `TLS begins behind the line that asks for it`() {
    let talk = heard("Stls\r\n")
    #expect(talk.text == "+OK Begin TLS negotiation\r\n" && talk.next == .beginTLS && talk.socket.isEmpty)
  }

  @Test func `bytes behind STLS end the connection, and nothing of the input is answered`() {
    for text in ["STLS\r\n\r\n", "CAPA\r\nSTLS\r\nUSER me\r\n"] {
      let talk = heard(text)
      #expect(talk.said.isEmpty && talk.reason == ClientNegotiation.injection)
    }
  }

  @Test func `QUIT, too many commands, a long line and a wrong line end end the session`() {
    #expect(heard("QUIT\r\n").text == "+OK mail.example closes\r\n")
    #expect(heard("QUIT\r\n").reason == "the client ended the session before TLS")
    let talk = heard(String(repeating: "CAPA\r\n", count: 20))
    #expect(talk.next == .more)
    #expect(talk.hearing("STLS\r\n").text.hasSuffix(".\r\n-ERR Too many commands\r\n"))
    #expect(heard(String(repeating: "x", count: 2048)).text == "-ERR Line too long\r\n")
    #expect(heard("STLS\n").text == "-ERR Lines must end with CR LF\r\n")
  }
}
