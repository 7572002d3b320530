import Observability

/// Sizes that requests compute.
package enum SizeText {
  /// Parses a size of nginx with an optional `k` or `m` (`ngx_parse_size`); nil for any other text.
  package static func size(_ text: [UInt8]) -> Int? {
    let unit: Int
    switch text.last {
    case UInt8(ascii: "k"), UInt8(ascii: "K"): unit = 1024
    case UInt8(ascii: "m"), UInt8(ascii: "M"): unit = 1 << 20
    default: unit = 1
    }
    let digits = unit == 1 ? text[...] : text.dropLast()
    guard !digits.isEmpty else { return nil }
    var value = 0
    for digit in digits {
      guard digit >= 0x30, digit <= 0x39 else { return nil }
      let (shifted, overflow) = value.multipliedReportingOverflow(by: 10)
      let (sum, overflowOfSum) = shifted.addingReportingOverflow(Int(digit) - 0x30)
      guard !overflow, !overflowOfSum else { return nil }
      value = sum
    }
    let (size, overflow) = value.multipliedReportingOverflow(by: unit)
    return overflow ? nil : size
  }
}

extension Transaction {
  /// The size that a text says, which variables may have made. nil for an empty text, which is no limit as in nginx, and after
  /// a line in the log for a text that is no size.
  package func size(of text: [UInt8]) -> Int? {
    if text.isEmpty { return nil }
    if let size = SizeText.size(text) { return size }
    log(.error, "invalid size \"\(LogEscape.text(text))\"")
    return nil
  }
}
