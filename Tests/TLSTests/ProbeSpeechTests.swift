import Negotiation
import Testing

@testable import TLS

@Suite struct `What a probe asks inside TLS` {
  @Test(
    arguments: [
      (NegotiatedProtocol.smtp, "221 bye\r\n", nil),
      (.smtp, "550 no certificate, no mail\r\n", "550 no certificate, no mail"),
      (.smtp, "421 go away\r\nmore", "421 go away"), (.pop3, "+OK bye\r\n", nil), (.pop3, "-ERR no\r\n", "-ERR no"),
      (.imap, "* BYE\r\na2 OK\r\n", nil), (.imap, "a2 NO certificate\r\n", "a2 NO certificate"),
      (.imap, "a2 BAD what\r\n", "a2 BAD what"),
      (.postgres, "E\0\0\0\u{31}SFATAL\0C28000\0Mno PostgreSQL user name specified\0\0", nil),
      (
        .postgres, "E\0\0\0\u{31}SFATAL\0C28000\0Mconnection requires a valid client certificate\0\0",
        "connection requires a valid client certificate"
      ),
      (.postgres, "R\0\0\0\u{8}\0\0\0\0", nil), (.postgres, "E", nil), (.postgres, "", nil),
      (.ldap, "0\u{c}\u{2}\u{1}\u{2}x\u{7}", nil), (.ldap, "0\u{c}\u{2}\u{1}\0x\u{7}", "a notice of disconnection"),
    ] as [(NegotiatedProtocol, String, String?)])
  func `a refusal is told with its words`(kind: NegotiatedProtocol, answer: String, words: String?) {
    #expect(ProbeQuestion.refusal(Array(answer.utf8), kind) == words)
  }

  @Test func `each question is a whole message of its protocol`() {
    let startup = ProbeQuestion.bytes(.postgres)
    #expect(startup.count == 9 && startup[3] == 9 && startup[5] == 3)
    let ldap = ProbeQuestion.bytes(.ldap)
    #expect(ldap.count == Int(ldap[1]) + 2 && ldap[5] == 0x77 && ldap.count == Int(ldap[6]) + 7)
    for kind in [NegotiatedProtocol.smtp, .imap, .pop3] { #expect(ProbeQuestion.bytes(kind).suffix(2) == [13, 10]) }
  }

  @Test func `a server that wants other words first is told with the option`() {
    for (greeting, kind) in [
      ("220 mx.test ESMTP Postfix", NegotiatedProtocol.smtp), ("220 smtp ready", .smtp),
      ("* OK [CAPABILITY IMAP4rev1]", .imap),
      ("* PREAUTH hello", .imap), ("+OK ready", .pop3),
    ] {
      let advice = HandshakeFault.otherProtocol(greeting: greeting).advice(port: 1)
      #expect(
        advice.hasPrefix("the server speaks \(kind.title) in clear first: --starttls \(kind.rawValue)"), "\(advice)")
    }
    for greeting in ["220 ProFTPD Server (mail files) FTP", "SSH-2.0-OpenSSH", "220 hello", "BYE"] {
      let fault = HandshakeFault.otherProtocol(greeting: greeting)
      #expect(fault.advice(port: 25) == fault.advice, "\(greeting)")
    }
    for kind in NegotiatedProtocol.allCases {
      for fault in [HandshakeFault.closed, .silent, .noCommonApplicationProtocol] {
        #expect(fault.advice(port: kind.port).contains("--starttls \(kind.rawValue)"))
        #expect(fault.advice(port: nil) == fault.advice && fault.advice(port: 443) == fault.advice)
      }
    }
    #expect(HandshakeFault.plainHTTP.advice(port: 5432) == HandshakeFault.plainHTTP.advice)
  }

  @Test func `what an attacker can do is told from what a server says`() {
    let injected = HandshakeFault(negotiationEndedBy: UpstreamNegotiation.injection)
    #expect(injected.name == "starttls-injection" && injected.words.hasPrefix("the server sent bytes in clear"))
    #expect(HandshakeFault(negotiationEndedBy: UpstreamNegotiation.earlyAnswer).name == "starttls-injection")
    let refused = HandshakeFault(negotiationEndedBy: "the upstream server refused TLS: \"454 no\"")
    #expect(refused == .refusedTLS("the server refused TLS: \"454 no\"") && refused.name == "starttls-refused")
  }
}
