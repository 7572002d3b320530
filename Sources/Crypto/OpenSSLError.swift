import COpenSSL
import Glibc

/// The errors that OpenSSL reports: the thread's whole error queue, removed from it.
///
/// Live sessions share the thread's queue, so call `drain` or `discard` after every failed call. A handshake would
/// report a remaining entry as its own fault.
public struct OpenSSLError: Error, Sendable, Hashable, CustomStringConvertible {
  /// OpenSSL's packed codes, the first cause first.
  package let codes: [UInt]
  /// What went wrong, in a plain sentence with OpenSSL's reason behind it. Where OpenSSLMeaning has no entry: OpenSSL's
  /// reason texts, the first cause first, without repetitions.
  public let description: String

  package init(codes: [UInt] = [], description: String) {
    self.codes = codes
    self.description = description
  }

  package static func drain() -> OpenSSLError {
    var codes: [UInt] = []
    var reasons: [String] = []
    var first: String?
    var data: UnsafePointer<CChar>?
    var flags: CInt = 0
    while true {
      let code = ERR_get_error_all(nil, nil, nil, &data, &flags)
      if code == 0 { break }
      codes.append(code)
      var reason = text(of: code)
      if first == nil, !OpenSSLMeaning.isEcho(code) { first = reason }
      if flags & ERR_TXT_STRING != 0, let data {
        let detail = String(cString: data)
        if !detail.isEmpty { reason += " (\(detail))" }
      }
      if !reasons.contains(reason) { reasons.append(reason) }
    }
    if let meaning = codes.lazy.compactMap({ OpenSSLMeaning.of($0) }).first {
      return OpenSSLError(codes: codes, description: first.map { "\(meaning); OpenSSL: \($0)" } ?? meaning)
    }
    return OpenSSLError(
      codes: codes, description: reasons.isEmpty ? "no reason given by OpenSSL" : reasons.joined(separator: "; "))
  }

  /// OpenSSL has no texts for the system's errors.
  private static func text(of code: UInt) -> String {
    let number = copenssl_err_reason(code, ERR_LIB_SYS)
    if number >= 0 { return String(cString: strerror(number)) }
    return ERR_reason_error_string(code).map { String(cString: $0) } ?? "error \(code)"
  }

  /// Empties the queue after a failure that nobody needs to see.
  package static func discard() { ERR_clear_error() }
}

/// Why bytes could not be parsed as the expected object.
public enum CryptoError: Error, Sendable, Hashable, CustomStringConvertible {
  /// Neither PEM, DER nor PKCS#12, or damaged.
  case malformed(String)
  /// Well-formed, but without the expected object; the text says what is there instead.
  case absent(String)
  /// Encrypted, and no pass phrase was given.
  case passwordRequired
  /// Encrypted, and no given pass phrase opens it.
  case wrongPassword
  /// Encrypted by an algorithm that this OpenSSL lacks.
  case unsupported(String)
  /// A key of an algorithm that this OpenSSL lacks.
  case missing(PostQuantumSignature)
  /// A token, or the engine that leads to it, refused.
  case token(String, hint: String)

  public var description: String {
    switch self {
    case .malformed(let reason): "malformed: \(reason)"
    case .absent(let what): what
    case .passwordRequired: "encrypted, and no pass phrase was given"
    case .wrongPassword: "encrypted, and none of the given pass phrases opens it"
    case .unsupported(let reason): "encrypted in a way that this OpenSSL does not support: \(reason)"
    case .missing(let algorithm): "a key of \(algorithm.rawValue), but \(algorithm.absence)"
    case .token(let fault, _): fault
    }
  }
}
