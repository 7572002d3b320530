/// PostgreSQL's documentation, "Message Flow", "SSL Session Encryption".
extension ClientNegotiation {
  mutating func postgresAnswer(to input: UnsafeRawBufferPointer) -> Answer? {
    guard let first = input.first else { return nil }
    if first == 0x16, !hasAskedForGSS {
      return Answer(length: 0, reply: [], next: .beginTLSDirectly, mayBeFollowed: true)
    }
    // No length begins with another byte, so other protocols don't have to be waited for.
    guard first == 0 else { return .end([], reason: "the client's first message is none of PostgreSQL's") }
    var cursor = ByteCursor(input)
    guard let length = cursor.uint32().map(Int.init) else { return nil }
    guard (8...PostgresMessage.mostStartup).contains(length) else {
      return .end([], reason: "the client's first message has an invalid length")
    }
    guard let code = cursor.uint32() else { return nil }
    switch (code, length) {
    case (PostgresMessage.sslCode, 8): return .beginTLS("S", length: 8)
    case (PostgresMessage.gssCode, 8):
      guard !hasAskedForGSS else { return .end([], reason: "the client asked for GSSAPI encryption twice") }
      hasAskedForGSS = true
      // As PostgreSQL does, it takes bytes behind this request for an injection too: the client must know the answer to
      // choose what it sends next.
      return Answer(length: 8, reply: [UInt8(ascii: "N")], next: .more, mayBeFollowed: false)
    case (PostgresMessage.cancelCode, PostgresMessage.cancelLengths):
      guard input.count >= length else { return nil }
      return Answer(
        length: length, reply: [], next: .cancel(request: Array(input.prefix(length))), mayBeFollowed: false)
    case (0x0003_0000...0x0003_FFFF, _):
      // The reply waits for the whole message: closing a socket before its last byte has come would reset it.
      guard input.count >= length else { return nil }
      return .end(
        PostgresMessage.fatal("28000", "connection requires TLS: use sslmode=require or stronger"),
        reason: "the client began a session without TLS")
    default: return .end([], reason: "the client's first message is none of PostgreSQL's")
    }
  }
}
