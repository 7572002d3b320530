/// RFC 4511 §4.14.
extension ClientNegotiation {
  mutating func ldapAnswer(to input: UnsafeRawBufferPointer) -> Answer? {
    switch LDAPMessage.first(of: input) {
    case .incomplete: return nil
    case .malformed:
      return Self.disconnection("a malformed message", "the client sent a malformed LDAP message before TLS")
    case .tooLarge:
      return Self.disconnection(
        "a message that is too large",
        "the client sent an LDAP message of more than \(LDAPMessage.most) bytes before TLS")
    case .message(let message, let length): return ldapAnswer(to: message, length)
    }
  }

  private mutating func ldapAnswer(to message: LDAPMessage, _ length: Int) -> Answer {
    guard !isOneTooMany() else {
      return .end(LDAPMessage.notice(.unavailable, "too many messages before TLS"), reason: Self.tooManyMessages)
    }
    // RFC 4511 §4.1.1.1: 0 is for messages that only a server sends.
    guard message.id != 0 else {
      return Self.disconnection("a request with messageID 0", "the client sent an LDAP request with messageID 0")
    }
    switch message.operation {
    case LDAPMessage.Operation.unbindRequest: return .end([], reason: Self.farewell)
    // RFC 4511 §4.11: nothing is under way that could be abandoned, and this request has no response.
    case LDAPMessage.Operation.abandonRequest: return .reply([], length: length)
    case LDAPMessage.Operation.extendedRequest:
      guard let request = message.extendedRequest else {
        return Self.disconnection("a malformed message", "the client sent a malformed LDAP message before TLS")
      }
      guard request.name == LDAPMessage.startTLS else { break }
      let operation = LDAPMessage.Operation.extendedResponse
      // RFC 4511 §4.14.1: the request has no value.
      guard !request.hasValue else {
        let text = "StartTLS has no requestValue"
        return .reply(
          LDAPMessage.response(message.id, operation, .protocolError, text, name: LDAPMessage.startTLS), length: length)
      }
      return .beginTLS(
        LDAPMessage.response(message.id, operation, .success, "", name: LDAPMessage.startTLS), length: length)
    default: break
    }
    guard let response = LDAPMessage.Operation.response(to: message.operation) else {
      return Self.disconnection("an unknown operation", "the client sent an unknown LDAP operation before TLS")
    }
    let text = "TLS is required: use StartTLS first"
    return .reply(LDAPMessage.response(message.id, response, .confidentialityRequired, text), length: length)
  }

  /// RFC 4511 §5.1 and §4.1.1: what can't be read ends the session, with a notice.
  private static func disconnection(_ what: String, _ reason: String) -> Answer {
    .end(LDAPMessage.notice(.protocolError, what), reason: reason)
  }
}
