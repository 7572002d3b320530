/// A time as Go writes it: `300ms`, `1m30s`, `1h`.
enum GhostunnelDuration {
  /// In milliseconds; nil: it is none.
  static func milliseconds(_ text: String) -> Int? {
    if text == "0" { return 0 }
    var rest = text.utf8[...]
    var sum = 0
    guard !rest.isEmpty else { return nil }
    while !rest.isEmpty {
      let digits = rest.prefix { $0 &- 48 < 10 }
      rest = rest[digits.endIndex...]
      let unit = rest.prefix { !($0 &- 48 < 10) }
      rest = rest[unit.endIndex...]
      guard digits.count < 10, let number = Int(Substring(digits)) else { return nil }
      switch String(Substring(unit)) {
      case "ms": sum += number
      case "s": sum += number * 1000
      case "m": sum += number * 60_000
      case "h": sum += number * 3_600_000
      default: return nil
      }
      guard sum < 1 << 40 else { return nil }
    }
    return sum
  }

  /// As our language writes it.
  static func written(_ milliseconds: Int) -> String {
    milliseconds % 1000 == 0 ? "\(milliseconds / 1000)s" : "\(milliseconds)ms"
  }
}
