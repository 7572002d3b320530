package import Negotiation

/// What a probe says inside TLS, to find out whether the server takes the client in.
package enum ProbeSpeech: Sendable, Hashable {
  /// A GET.
  case http1, http2
  /// A question of the protocol that TLS was negotiated in.
  case negotiated(NegotiatedProtocol)
  /// Nothing, because the protocol isn't known: a refusal comes by itself.
  case nothing

  var negotiated: NegotiatedProtocol? { if case .negotiated(let kind) = self { kind } else { nil } }
}

/// The one question of a probe in a protocol that isn't HTTP, and the server's answer to it. Pure.
///
/// It asks for nothing that a server grants to users only, so that the answer says something of the certificate alone.
enum ProbeQuestion {
  static func bytes(_ kind: NegotiatedProtocol) -> [UInt8] {
    switch kind {
    // A startup message that names no user, which a server refuses before it looks at its rules.
    case .postgres: [0, 0, 0, 9, 0, 3, 0, 0, 0]
    case .smtp, .pop3: Array("QUIT\r\n".utf8)
    case .imap: Array("a2 LOGOUT\r\n".utf8)
    // "Who am I?" (RFC 4532), message 2.
    case .ldap: [0x30, 0x1E, 0x02, 0x01, 0x02, 0x77, 0x19, 0x80, 0x17] + Array("1.3.6.1.4.1.4203.1.11.3".utf8)
    }
  }

  /// Returns the words of a refusal, or nil if the server has taken the client in. `answer`: the first bytes of it.
  static func refusal(_ answer: [UInt8], _ kind: NegotiatedProtocol) -> String? {
    let line = String(decoding: answer.prefix(200).prefix { $0 != 0x0A && $0 != 0x0D }, as: UTF8.self)
    switch kind {
    case .postgres:
      guard answer.first == UInt8(ascii: "E"),
        let message = answer.dropFirst(5).split(separator: 0).first(where: { $0.first == UInt8(ascii: "M") })
      else { return nil }
      let words = String(decoding: message.dropFirst().prefix(200), as: UTF8.self)
      return words.contains("certificate") ? words : nil
    case .smtp: return line.hasPrefix("4") || line.hasPrefix("5") ? line : nil
    case .imap: return line.hasPrefix("a2 NO") || line.hasPrefix("a2 BAD") ? line : nil
    case .pop3: return line.hasPrefix("-ERR") ? line : nil
    // A message of number 0 is a notice of disconnection (RFC 4511 §4.4.1).
    case .ldap: return Array(answer.prefix(5).suffix(3)) == [0x02, 0x01, 0x00] ? "a notice of disconnection" : nil
    }
  }
}
