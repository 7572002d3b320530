/// The protocols whose server answers with one message.
extension UpstreamNegotiation {
  enum MessageTurn {
    case wait
    /// `length`: of the message, in bytes.
    case agreed(length: Int)
    case refused(String)
  }

  /// PostgreSQL's documentation, "SSL Session Encryption": one byte, or an ErrorResponse of a server that doesn't know
  /// the request. Its text comes from somebody who isn't authenticated, so it may go to the log, but not to a client
  /// (CVE-2024-10977).
  func postgresTurn(_ input: UnsafeRawBufferPointer) -> MessageTurn {
    var cursor = ByteCursor(input)
    switch cursor.uint8() {
    case nil: return .wait
    case UInt8(ascii: "S"): return .agreed(length: 1)
    case UInt8(ascii: "N"): return .refused("the upstream server doesn't offer TLS")
    case UInt8(ascii: "E"):
      guard let length = cursor.uint32().map(Int.init) else { return .wait }
      guard (4...PostgresMessage.mostError).contains(length) else {
        return .refused("the upstream server refused TLS by an error of invalid length")
      }
      guard let fields = cursor.take(length - 4) else { return .wait }
      return .refused(Self.refusal(PostgresMessage.message(ofError: fields)))
    case let other?: return .refused(Self.unexpected([other]))
    }
  }

  static let ldapMessageID: UInt32 = 1

  /// RFC 4511 §4.14.2.
  func ldapTurn(_ input: UnsafeRawBufferPointer) -> MessageTurn {
    let fault = "the upstream server sent a malformed or unexpected LDAP message before TLS"
    switch LDAPMessage.first(of: input) {
    case .incomplete: return .wait
    case .malformed: return .refused(fault)
    case .tooLarge: return .refused("the upstream server sent more than \(Self.most) bytes before TLS")
    case .message(let message, let length):
      guard message.operation == LDAPMessage.Operation.extendedResponse, let result = message.result else {
        return .refused(fault)
      }
      if message.id == 0, result.name == LDAPMessage.noticeOfDisconnection {
        return .refused(
          "the upstream server refused the session: result code \(result.code), \(HeardText.quoted(result.diagnostic))")
      }
      guard message.id == Self.ldapMessageID, result.name ?? LDAPMessage.startTLS == LDAPMessage.startTLS else {
        return .refused(fault)
      }
      guard result.code == 0 else {
        return .refused(
          "the upstream server refused TLS: result code \(result.code), \(HeardText.quoted(result.diagnostic))")
      }
      return .agreed(length: length)
    }
  }
}
