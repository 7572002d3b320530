import Bytes

/// Whether a client takes the content coding gzip, by its Accept-Encoding as nginx reads it.
public enum GzipAcceptance {
  /// The first `gzip` that stands at the beginning or after a comma or blank decides; a weight of 0 refuses it. `*` says
  /// nothing.
  public static func accepts(_ value: UnsafeRawBufferPointer) -> Bool {
    let name = Array("gzip".utf8)
    var at = 0
    while true {
      guard at + 4 <= value.count else { return false }
      let isHere = zip(value[at..<at + 4], name).allSatisfy { ASCII.lower($0) == $1 }
      if isHere, at == 0 || value[at - 1] == 0x2C || value[at - 1] == 0x20 { break }
      at += isHere ? 4 : 1
    }
    return hasWeight(value[(at + 4)...])
  }

  /// Reads what follows the name.
  private static func hasWeight(_ rest: Slice<UnsafeRawBufferPointer>) -> Bool {
    var rest = rest.drop { $0 == 0x20 }
    guard let mark = rest.popFirst(), mark != 0x2C else { return true }
    guard mark == 0x3B else { return false }
    rest = rest.drop { $0 == 0x20 }
    guard let letter = rest.popFirst() else { return true }
    guard ASCII.lower(letter) == 0x71, rest.popFirst() == 0x3D, let digit = rest.popFirst() else { return false }
    guard digit == 0x30 || digit == 0x31 else { return false }
    let whole = Int(digit - 0x30) * 100
    guard let point = rest.popFirst(), point != 0x2C, point != 0x20 else { return whole > 0 }
    guard point == 0x2E else { return false }
    // As in nginx, each decimal adds itself: what counts is whether it is more than nothing, and at most 1.
    let decimals = rest.prefix { $0 != 0x2C && $0 != 0x20 }
    guard decimals.count <= 3, decimals.allSatisfy({ ASCII.isDigit($0) }) else { return false }
    let weight = decimals.reduce(whole) { $0 + Int($1 - 0x30) }
    return weight > 0 && weight <= 100
  }
}
