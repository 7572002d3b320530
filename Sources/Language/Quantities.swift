/// Parses nginx's sizes, times and numbers, without overflow.
package enum Quantity {
  /// Parses a decimal number without sign or blank.
  package static func number(_ text: String) -> Int? {
    guard !text.isEmpty else { return nil }
    var value = 0
    for byte in text.utf8 {
      guard let next = append(byte, to: value) else { return nil }
      value = next
    }
    return value
  }

  /// Parses a size in bytes: a number with an optional `k`, `m` or `g` of either case (`ngx_parse_offset`).
  package static func size(_ text: String) -> Int? {
    let shift: Int
    switch text.utf8.last {
    case UInt8(ascii: "k"), UInt8(ascii: "K"): shift = 10
    case UInt8(ascii: "m"), UInt8(ascii: "M"): shift = 20
    case UInt8(ascii: "g"), UInt8(ascii: "G"): shift = 30
    default: return number(text)
    }
    guard let count = number(String(text.dropLast())) else { return nil }
    let (value, overflow) = count.multipliedReportingOverflow(by: 1 << shift)
    return overflow ? nil : value
  }

  /// Parses a time in milliseconds (`ngx_parse_time`). Units are `ms s m h d w M y`, the largest first and each once,
  /// with blanks allowed between them. A bare number is in seconds. A month has 30 days and a year has 365.
  package static func milliseconds(_ text: String) -> Int? { time(text, allowMilliseconds: true) }

  /// Parses a time in seconds: like `milliseconds`, but without the unit `ms`.
  package static func seconds(_ text: String) -> Int? { time(text, allowMilliseconds: false).map { $0 / 1000 } }

  private static let units: [(suffix: String, milliseconds: Int)] = [
    ("y", 31_536_000_000), ("M", 2_592_000_000), ("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000),
    ("m", 60_000), ("s", 1000), ("ms", 1),
  ]

  private static func time(_ text: String, allowMilliseconds: Bool) -> Int? {
    var rest = Array(text.utf8)[...]
    var total = 0
    var nextUnit = 0
    var hasTerm = false
    while !rest.isEmpty {
      var value = 0
      let digits = rest.prefix { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }
      guard !digits.isEmpty else { return nil }
      for digit in digits {
        guard let next = append(digit, to: value) else { return nil }
        value = next
      }
      rest = rest.dropFirst(digits.count)
      let suffix = String(decoding: rest.prefix { $0 >= 0x41 && $0 != UInt8(ascii: " ") }, as: UTF8.self)
      rest = rest.dropFirst(suffix.utf8.count)
      let name = suffix.isEmpty ? "s" : suffix
      guard let index = units[nextUnit...].firstIndex(where: { $0.suffix == name }),
        allowMilliseconds || name != "ms"
      else { return nil }
      let (term, overflow) = value.multipliedReportingOverflow(by: units[index].milliseconds)
      let (sum, overflowOfSum) = total.addingReportingOverflow(term)
      guard !overflow, !overflowOfSum else { return nil }
      total = sum
      nextUnit = index + 1
      hasTerm = true
      rest = rest.drop { $0 == UInt8(ascii: " ") }
    }
    return hasTerm ? total : nil
  }

  private static func append(_ byte: UInt8, to value: Int) -> Int? {
    guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
    let (shifted, overflow) = value.multipliedReportingOverflow(by: 10)
    let (sum, overflowOfSum) = shifted.addingReportingOverflow(Int(byte) - 48)
    return overflow || overflowOfSum ? nil : sum
  }
}

/// Parses `on` or `off`, without case as in nginx.
package func Flag(_ text: String) -> Bool? {
  switch text.lowercased() {
  case "on": true
  case "off": false
  default: nil
  }
}

/// Describes the values that a directive expects.
package enum Expected {
  package static let size = "a size in bytes, with \"k\", \"m\" or \"g\" for more: 512, 16k, 1m"
  package static let milliseconds = "a time: 500ms, 30s, 5m, 1h 30m, 1d; a bare number is seconds"
  package static let seconds = "a time in whole seconds: 30s, 5m, 1h 30m, 1d; a bare number is seconds"
}
