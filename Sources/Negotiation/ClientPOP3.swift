/// RFC 2595 §4, with the replies of RFC 1939 and RFC 2449.
extension ClientNegotiation {
  func pop3Answer(to line: [UInt8], _ length: Int) -> Answer {
    let (command, argument) = line.firstWord
    guard argument == nil else { return .reply("-ERR TLS is required, use STLS\r\n", length: length) }
    if command.isWord("STLS") { return .beginTLS("+OK Begin TLS negotiation\r\n", length: length) }
    if command.isWord("CAPA") { return .reply("+OK Capabilities follow\r\nSTLS\r\n.\r\n", length: length) }
    if command.isWord("QUIT") { return .end("+OK \(name) closes\r\n", reason: Self.farewell) }
    return .reply("-ERR TLS is required, use STLS\r\n", length: length)
  }
}
