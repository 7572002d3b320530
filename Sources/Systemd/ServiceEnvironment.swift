import Glibc

/// What systemd tells a service in variables whose value is a number.
enum ServiceEnvironment {
  enum Value: Equatable {
    case absent
    case number(UInt64)
    /// For systemd to set, and nothing else writes it so.
    case malformed
  }

  /// Decimal digits only.
  static func number(_ name: String) -> Value {
    guard let text = text(name) else { return .absent }
    guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = UInt64(text) else {
      return .malformed
    }
    return .number(number)
  }

  static func text(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
}
