/// RFC 9051 §6.2.1, and RFC 2595 §3 for IMAP4rev1.
extension ClientNegotiation {
  /// RFC 2595 §3.2: without TLS, LOGIN is refused.
  static let imapCapabilities = "IMAP4rev1 STARTTLS LOGINDISABLED"
  /// The most bytes of a tag. It is the only part of a client's line that is sent back.
  static let tagLimit = 64

  func imapAnswer(to line: [UInt8], _ length: Int) -> Answer {
    let (word, rest) = line.firstWord
    let tag = Self.isTag(word) ? String(decoding: word, as: UTF8.self) : nil
    guard !line.announcesLiteral else {
      return .end(
        "\(tag ?? "*") BAD Literals are refused before TLS\r\n", reason: "the client sent a literal before TLS")
    }
    guard let tag else { return .reply("* BAD Invalid tag\r\n", length: length) }
    guard let (command, argument) = rest?.firstWord, !command.isEmpty else {
      return .reply("\(tag) BAD A command is missing\r\n", length: length)
    }
    let isBare = argument == nil
    if command.isWord("STARTTLS"), isBare {
      return .beginTLS("\(tag) OK Begin TLS negotiation now\r\n", length: length)
    }
    if command.isWord("CAPABILITY"), isBare {
      return .reply(
        "* CAPABILITY \(Self.imapCapabilities)\r\n\(tag) OK CAPABILITY completed\r\n", length: length)
    }
    if command.isWord("NOOP"), isBare { return .reply("\(tag) OK NOOP completed\r\n", length: length) }
    if command.isWord("LOGOUT"), isBare {
      return .end("* BYE \(name) closes\r\n\(tag) OK LOGOUT completed\r\n", reason: Self.farewell)
    }
    if ["STARTTLS", "CAPABILITY", "NOOP", "LOGOUT"].contains(where: { command.isWord($0) }) {
      return .reply("\(tag) BAD The command has no arguments\r\n", length: length)
    }
    return .reply("\(tag) NO [PRIVACYREQUIRED] TLS is required\r\n", length: length)
  }

  /// RFC 9051 §9: any ASTRING-CHAR but `+`.
  private static func isTag(_ word: ArraySlice<UInt8>) -> Bool {
    (1...tagLimit).contains(word.count)
      && word.allSatisfy { $0 > 0x20 && $0 < 0x7F && !"(){%*\"\\+".utf8.contains($0) }
  }
}
