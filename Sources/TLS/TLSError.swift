import COpenSSL
import Crypto
public import Observability

/// Settings or material that OpenSSL rejects.
public struct TLSSettingsError: Error, Sendable, CustomStringConvertible {
  public var location: SourceLocation?
  public var message: String
  public var hint: String?

  package init(_ message: String, at location: SourceLocation? = nil, hint: String? = nil) {
    self.message = message
    self.location = location
    self.hint = hint
  }

  public var description: String { message }
  public var diagnostic: Diagnostic { Diagnostic(.error, at: location, message, hint: hint) }
}

/// Empties OpenSSL's error queue into one line.
enum OpenSSLReasons {
  /// Whether the first error is that the peer closed the connection without close_notify.
  static var isUnexpectedEnd: Bool {
    copenssl_err_reason(ERR_peek_error(), ERR_LIB_SSL) == SSL_R_UNEXPECTED_EOF_WHILE_READING
  }

  /// Whether the last error is the peer's alert about the name of the host (RFC 6066 §3).
  static var isUnknownName: Bool {
    copenssl_err_reason(ERR_peek_last_error(), ERR_LIB_SSL) == SSL_AD_REASON_OFFSET + SSL_AD_UNRECOGNIZED_NAME
  }

  /// For logs: OpenSSL's line as nginx has it, by which people search, and behind it what it means:
  /// `0A0000C1:SSL routines::no shared cipher: no cipher suite is allowed by both sides, …`.
  static func take() -> String {
    var lines: [String] = []
    var meaning: String?
    while true {
      let code = ERR_get_error()
      if code == 0 { break }
      if meaning == nil { meaning = OpenSSLMeaning.of(code) }
      var text = [CChar](repeating: 0, count: 256)
      ERR_error_string_n(code, &text, text.count)
      let line = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      lines.append(line.hasPrefix("error:") ? String(line.dropFirst(6)) : line)
    }
    if lines.isEmpty { return "no reason given" }
    return lines.joined(separator: "; ") + (meaning.map { ": \($0)" } ?? "")
  }

  /// For what a command or the check of a configuration prints: what the reason means, and behind it OpenSSL's words.
  static func words() -> String { OpenSSLError.drain().description }
}
