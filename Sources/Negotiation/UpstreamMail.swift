import Bytes

/// SMTP: RFC 3207 §4. A reply has one or more lines of the same code (RFC 5321 §4.2.1).
extension UpstreamNegotiation {
  /// What has been read of a reply.
  struct SMTPReply {
    var code: ArraySlice<UInt8>
    /// Whether a line but the first one, which has the server's name, offers STARTTLS.
    var offersTLS = false
  }

  mutating func smtpTurn(_ line: [UInt8]) -> LineTurn {
    let code = line.prefix(3)
    guard code.count == 3, code.allSatisfy({ ASCII.isDigit($0) }),
      line.count == 3 || line[3] == 0x20 || line[3] == UInt8(ascii: "-")
    else { return .refused(Self.unexpected(line)) }
    if var known = reply {
      guard known.code == code else { return .refused(Self.unexpected(line)) }
      if line.dropFirst(4).firstWord.word.isWord("STARTTLS") { known.offersTLS = true }
      reply = known
    } else {
      reply = SMTPReply(code: code)
    }
    if line.count > 3, line[3] != 0x20 { return .wait }
    let offersTLS = reply?.offersTLS == true
    reply = nil
    switch stage {
    case .greeting:
      guard code.isWord("220") else { return .refused(Self.refusedSession(line)) }
      if goal == .greetingOnly { return .done }
      stage = .hello
      return .ask("EHLO \(name)\r\n")
    case .hello:
      guard code.isWord("250") else {
        return .refused("the upstream server refused EHLO: \(HeardText.quoted(line))")
      }
      guard offersTLS else { return .refused("the upstream server doesn't offer STARTTLS") }
      stage = .agreement
      return .ask("STARTTLS\r\n")
    case .agreement: return code.isWord("220") ? .agreed : .refused(Self.refusal(line))
    }
  }
}

/// IMAP: RFC 9051 §6.2.1.
extension UpstreamNegotiation {
  mutating func imapTurn(_ line: [UInt8]) -> LineTurn {
    let (tag, rest) = line.firstWord
    let word = rest?.firstWord.word ?? []
    switch stage {
    case .greeting:
      guard tag.isWord("*") else { return .refused(Self.unexpected(line)) }
      if word.isWord("BYE") { return .refused(Self.refusedSession(line)) }
      let isKnown = word.isWord("PREAUTH")
      guard isKnown || word.isWord("OK") else { return .refused(Self.unexpected(line)) }
      if goal == .greetingOnly { return .done }
      // RFC 9051 §11.1: STARTTLS is impossible then, and whoever is on the way can have said so to prevent it.
      guard !isKnown else {
        return .refused(
          "the upstream server greeted with PREAUTH, after which TLS can't begin: \(HeardText.quoted(line))")
      }
      stage = .agreement
      return .ask("a1 STARTTLS\r\n")
    case .hello, .agreement:
      if tag.isWord("*") {
        if word.isWord("BYE") { return .refused(Self.refusedSession(line)) }
        return line.announcesLiteral ? .refused(Self.unexpected(line)) : .wait
      }
      guard tag.elementsEqual("a1".utf8) else { return .refused(Self.unexpected(line)) }
      if word.isWord("OK") { return .agreed }
      return .refused(word.isWord("NO") || word.isWord("BAD") ? Self.refusal(line) : Self.unexpected(line))
    }
  }
}

/// POP3: RFC 2595 §4.
extension UpstreamNegotiation {
  mutating func pop3Turn(_ line: [UInt8]) -> LineTurn {
    let status = line.firstWord.word
    switch (stage, status.isWord("+OK"), status.isWord("-ERR")) {
    case (.greeting, true, _):
      if goal == .greetingOnly { return .done }
      stage = .agreement
      return .ask("STLS\r\n")
    case (_, true, _): return .agreed
    case (.greeting, _, true): return .refused(Self.refusedSession(line))
    case (_, _, true): return .refused(Self.refusal(line))
    case (_, false, false): return .refused(Self.unexpected(line))
    }
  }
}
