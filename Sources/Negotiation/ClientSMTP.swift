/// RFC 3207 §4, with the replies of RFC 5321 and the codes of RFC 3463.
extension ClientNegotiation {
  func smtpAnswer(to line: [UInt8], _ length: Int) -> Answer {
    // RFC 5321 §4.1.1: white space before the line end counts for nothing.
    let line = line[..<((line.lastIndex { $0 != 0x20 && $0 != 0x09 } ?? -1) + 1)]
    let (verb, argument) = line.firstWord
    if verb.isWord("STARTTLS") {
      guard argument == nil else { return .reply("501 5.5.4 STARTTLS has no parameters\r\n", length: length) }
      return .beginTLS("220 2.0.0 Ready to start TLS\r\n", length: length)
    }
    if verb.isWord("EHLO") || verb.isWord("HELO") {
      guard argument != nil else { return .reply("501 5.5.4 A domain is missing\r\n", length: length) }
      return .reply(
        verb.isWord("EHLO") ? "250-\(name)\r\n250 STARTTLS\r\n" : "250 \(name)\r\n", length: length)
    }
    if verb.isWord("NOOP") || verb.isWord("RSET") { return .reply("250 2.0.0 OK\r\n", length: length) }
    if verb.isWord("QUIT") { return .end("221 2.0.0 \(name) closes\r\n", reason: Self.farewell) }
    return .reply("530 5.7.0 Must issue a STARTTLS command first\r\n", length: length)
  }
}
