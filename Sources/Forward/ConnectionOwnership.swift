import Bytes
import HTTP
import Traffic

/// Whether a connection to an upstream must serve nobody else after a request. NTLM, and Negotiate, which can contain it,
/// authenticate the connection and not the request: whoever came next would be the first client.
enum ConnectionOwnership {
  /// By the request as it goes out. Also after `Connection: close`, by which the upstream ends the connection
  /// (RFC 9112 §9.6).
  static func isOfOneClient(_ outgoing: OutgoingRequestHead) -> Bool {
    var isOwned = false
    outgoing.forEachField { name, value in
      switch FieldName.known(name) {
      case .authorization, .proxyAuthorization: isOwned = isOwned || bindsConnection(value)
      case .connection: isOwned = isOwned || closes(value)
      default: break
      }
    }
    return isOwned
  }

  /// By a field that is set.
  static func mayBeOfOneClient(_ field: SetField) -> Bool {
    switch field.name.withUnsafeBytes({ FieldName.known($0) }) {
    case .authorization, .proxyAuthorization: true
    case .connection: field.values.contains { $0.constant.map { $0.withUnsafeBytes { closes($0) } } ?? true }
    default: false
    }
  }

  /// By the client's own request.
  static func isOfOneClient(_ head: RequestHead) -> Bool {
    head.fields.contains {
      ($0.id == .authorization || $0.id == .proxyAuthorization) && bindsConnection(head.bytes.readable[$0.value])
    }
  }

  /// By the response: its upstream asks for such credentials, or says that it has taken them.
  static func isOfOneClient(_ response: ResponseHead) -> Bool {
    response.fields.contains {
      ($0.id == .wwwAuthenticate || $0.id == .proxyAuthenticate) && bindsConnection(response.bytes.readable[$0.value])
    }
  }

  /// The scheme ends at the first byte that is none of a token (RFC 9110 §11.1).
  private static func bindsConnection(_ value: UnsafeRawBufferPointer) -> Bool {
    let scheme = UnsafeRawBufferPointer(rebasing: value.prefix { ($0 | 0x20) &- 0x61 < 26 })
    return scheme.equalsIgnoringCase("ntlm") || scheme.equalsIgnoringCase("negotiate")
  }

  private static func closes(_ value: UnsafeRawBufferPointer) -> Bool {
    value.split(separator: 0x2C).contains { element in
      let word = element.drop { $0 == 0x20 || $0 == 0x09 }
      let end = word.lastIndex { $0 != 0x20 && $0 != 0x09 }.map { $0 + 1 } ?? word.startIndex
      return UnsafeRawBufferPointer(rebasing: word[word.startIndex..<end]).equalsIgnoringCase("close")
    }
  }
}
