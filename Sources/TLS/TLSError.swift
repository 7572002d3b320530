import COpenSSL
public import Observability

/// Settings or material that OpenSSL rejects.
public struct TLSSettingsError: Error, Sendable, CustomStringConvertible {
  public var location: SourceLocation?
  public var message: String
  public var hint: String?

  init(_ message: String, at location: SourceLocation? = nil, hint: String? = nil) {
    self.message = message
    self.location = location
    self.hint = hint
  }

  public var description: String { message }
  public var diagnostic: Diagnostic { Diagnostic(.error, at: location, message, hint: hint) }
}

/// Empties OpenSSL's error queue into one line: `0A000086:SSL routines::certificate verify failed`.
enum OpenSSLReasons {
  /// Whether the first error is that the peer closed the connection without close_notify.
  static var isUnexpectedEnd: Bool {
    let code = ERR_peek_error()
    return code != 0 && copenssl_err_lib(code) == ERR_LIB_SSL
      && copenssl_err_reason(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING
  }

  static func take() -> String {
    var lines: [String] = []
    while true {
      let code = ERR_get_error()
      if code == 0 { break }
      var text = [CChar](repeating: 0, count: 256)
      ERR_error_string_n(code, &text, text.count)
      let line = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      lines.append(line.hasPrefix("error:") ? String(line.dropFirst(6)) : line)
    }
    return lines.isEmpty ? "no reason given" : lines.joined(separator: "; ")
  }
}
