import Bytes
import Crypto
import Glibc
import Patterns

/// The right-hand side of a condition, in the form in which values of its key are compared.
enum RuleValue {
  static func canonical(_ text: String, _ key: IdentityKey) throws(RuleError) -> [UInt8] {
    try refuseVariable(text, key)
    let bytes = Array(text.utf8)
    switch key {
    case .dns: return Fold.all(bytes)
    case .email: return Fold.domain(bytes)
    case .ip: return try address(text)
    case .serial:
      guard bytes.allSatisfy({ ASCII.isDigit($0) || $0 &- 65 < 6 || $0 == 0x2D || $0 == 0x2A }) else {
        throw RuleError(
          "\"\(text)\" is no serial number", hint: "upper-case hexadecimal without colons, as $ssl_client_serial")
      }
      return bytes
    case .cn, .o, .ou, .uri, .issuer, .fingerprint, .spki: return bytes
    }
  }

  static func expression(_ pattern: String, _ key: IdentityKey) throws(RuleError) -> RegularExpression {
    guard !pattern.isEmpty else {
      throw RuleError("an empty regular expression for \"\(key.rawValue)\"", hint: "write a pattern after \"~\"")
    }
    // Values have a folded domain and an unfolded local part, so a capital letter in the domain would never match.
    if key == .email, let at = pattern.lastIndex(of: "@"), hasCapital(pattern[at...]) {
      throw RuleError("a capital letter after \"@\" in \"\(pattern)\"", hint: "domains are compared in small letters")
    }
    do throws(PatternError) {
      return try RegularExpression(pattern, caseless: key == .dns, isWhole: true)
    } catch {
      throw RuleError(
        "invalid regular expression \"\(pattern)\": \(error)",
        hint: "an expression with \"{\", \"}\" or \";\" needs quotes around the word")
    }
  }

  /// A capital letter after a backslash (`\S`, `\D`) is an escape sequence.
  private static func hasCapital(_ text: Substring) -> Bool {
    var isEscaped = false
    for byte in text.utf8 {
      if !isEscaped && byte &- 65 < 26 { return true }
      isEscaped = !isEscaped && byte == UInt8(ascii: "\\")
    }
    return false
  }

  /// Returns an address in the notation of values, or a pattern over that notation.
  private static func address(_ text: String) throws(RuleError) -> [UInt8] {
    var octets = [UInt8](repeating: 0, count: 16)
    for (family, count) in [(AF_INET, 4), (AF_INET6, 16)] where inet_pton(family, text, &octets) == 1 {
      return Array(SubjectAlternativeName(kind: .ip, bytes: Array(octets.prefix(count))).description.utf8)
    }
    let bytes = Fold.all(text.utf8)
    let isNotation = bytes.allSatisfy { ASCII.hexValue($0) != nil || [0x2E, 0x3A, 0x2A].contains($0) }
    guard isNotation, bytes.contains(0x2A) else {
      throw RuleError(
        "\"\(text)\" is no IP address", hint: "an address, or a pattern as 10.0.0.*; prefix lengths are not supported")
    }
    return bytes
  }

  private static func refuseVariable(_ text: String, _ key: IdentityKey) throws(RuleError) {
    let bytes = Array(text.utf8)
    for (index, byte) in bytes.enumerated() where byte == UInt8(ascii: "$") && index + 1 < bytes.count {
      let next = ASCII.lower(bytes[index + 1])
      guard next &- 97 < 26 || next == UInt8(ascii: "_") || next == UInt8(ascii: "{") else { continue }
      throw RuleError(
        "a variable in \"\(key.rawValue)=\(text)\"",
        hint: "rules are constant; a \"$\" itself is \(key.rawValue)=~…\\$…")
    }
  }
}

/// Parses a SHA-256 as a rule spells it.
enum RuleDigest {
  static func parse(_ text: String, _ key: IdentityKey) throws(RuleError) -> [UInt8] {
    let expected =
      key == .spki
      ? "64 hexadecimal digits, or 44 characters of base64 as $ssl_client_spki shows them"
      : "64 hexadecimal digits: openssl x509 -fingerprint -sha256"
    if text.hasPrefix("~") || text.contains("*") {
      throw RuleError("a pattern for \"\(key.rawValue)\"", hint: expected)
    }
    if let octets = try? Hex.decode(text) {
      if octets.count == 20 {
        throw RuleError("\"\(text)\" has 40 digits: a SHA-1, which is too weak", hint: expected)
      }
      if octets.count == 32 { return octets }
      // A text of hexadecimal digits may also be base64, of another length.
    }
    if key == .spki, let octets = try? Base64.decode(text), octets.count == 32 { return octets }
    throw RuleError("\"\(text)\" is no SHA-256", hint: expected)
  }
}
