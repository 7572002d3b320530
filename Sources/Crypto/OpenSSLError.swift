import COpenSSL

/// What OpenSSL says went wrong: its whole error queue of this thread, taken off it.
///
/// The queue is per thread and shared with live sessions, so every failed call is followed by `drain` or `discard`:
/// an entry left behind would be read as the fault of somebody's handshake.
public struct OpenSSLError: Error, Sendable, Hashable, CustomStringConvertible {
  /// OpenSSL's packed codes, the first cause first.
  package let codes: [UInt]
  /// OpenSSL's reason texts, the first cause first, repetitions left out.
  public let description: String

  package static func drain() -> OpenSSLError {
    var codes: [UInt] = []
    var reasons: [String] = []
    var data: UnsafePointer<CChar>?
    var flags: CInt = 0
    while true {
      let code = ERR_get_error_all(nil, nil, nil, &data, &flags)
      if code == 0 { break }
      codes.append(code)
      var reason = ERR_reason_error_string(code).map { String(cString: $0) } ?? "error \(code)"
      if flags & ERR_TXT_STRING != 0, let data {
        let detail = String(cString: data)
        if !detail.isEmpty { reason += " (\(detail))" }
      }
      if !reasons.contains(reason) { reasons.append(reason) }
    }
    return OpenSSLError(
      codes: codes, description: reasons.isEmpty ? "no reason given by OpenSSL" : reasons.joined(separator: "; "))
  }

  /// Empties the queue of a trial whose failure is no news.
  package static func discard() { ERR_clear_error() }
}

/// Why bytes did not become the object that was wanted.
public enum CryptoError: Error, Sendable, Hashable, CustomStringConvertible {
  /// Neither PEM, DER nor PKCS#12, or damaged.
  case malformed(String)
  /// Well-formed, but without the wanted object; the text says what is there instead.
  case absent(String)
  /// Encrypted, and no pass phrase was given.
  case passwordRequired
  /// Encrypted, and none of the pass phrases opens it.
  case wrongPassword
  /// Encrypted by an algorithm that this OpenSSL lacks.
  case unsupported(String)
  /// A token, or the way to it, says no.
  case token(String, hint: String)

  public var description: String {
    switch self {
    case .malformed(let reason): "malformed: \(reason)"
    case .absent(let what): what
    case .passwordRequired: "encrypted, and no pass phrase was given"
    case .wrongPassword: "encrypted, and none of the given pass phrases opens it"
    case .unsupported(let reason): "encrypted in a way that this OpenSSL does not support: \(reason)"
    case .token(let fault, _): fault
    }
  }
}
