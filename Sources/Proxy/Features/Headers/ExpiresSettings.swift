/// `expires`: which Expires and Cache-Control a response gets.
public enum ExpiresSettings: Sendable, Hashable {
  case rule(ExpiresRule)
  /// The value has variables, and is read for each response. `modified`: the word stands before it.
  case template(Template, modified: Bool)
}

/// One value of `expires`, as nginx reads it (`ngx_http_parse_expires`). Times are in seconds.
public enum ExpiresRule: Sendable, Hashable {
  case off
  /// The past, and `no-cache`.
  case epoch
  /// The end of 2037, and ten years.
  case max
  /// After the response.
  case afterResponse(Int64)
  /// After Last-Modified; after the response where it has none.
  case modified(Int64)
  /// The next time that it is so late in the day, by the local clock.
  case daily(Int64)

  /// nil: the text is no such value.
  public init?(_ text: some Collection<UInt8>, modified: Bool) {
    let text = Array(text)
    if !modified {
      switch String(decoding: text, as: UTF8.self) {
      case "off": self = .off
      case "epoch": self = .epoch
      case "max": self = .max
      default:
        if text.first == 0x40 {
          guard let time = Self.time(text.dropFirst()), time < 86_400 else { return nil }
          self = .daily(time)
          return
        }
        guard let time = Self.signed(text) else { return nil }
        self = .afterResponse(time)
      }
      return
    }
    guard let time = Self.signed(text) else { return nil }
    self = .modified(time)
  }

  private static func signed(_ text: [UInt8]) -> Int64? {
    switch text.first {
    case 0x2D: time(text.dropFirst()).map { -$0 }
    case 0x2B: time(text.dropFirst())
    default: time(text[...])
    }
  }

  /// Reads `1y 2M 3w 4d 5h 6m 7s` with each unit at most once and in this order, as ngx_parse_time; a last number without
  /// unit is seconds.
  private static func time(_ text: ArraySlice<UInt8>) -> Int64? {
    let units: [(UInt8, Int64)] = [
      (0x79, 31_536_000), (0x4D, 2_592_000), (0x77, 604_800), (0x64, 86_400), (0x68, 3600), (0x6D, 60), (0x73, 1),
    ]
    var total: Int64 = 0, place = 0, rest = text
    guard !rest.isEmpty else { return nil }
    while !rest.isEmpty {
      let digits = rest.prefix { $0 &- 48 < 10 }
      guard (1...10).contains(digits.count) else { return nil }
      let value = digits.reduce(Int64(0)) { $0 * 10 + Int64($1 &- 48) }
      rest = rest.dropFirst(digits.count)
      var scale: Int64 = 1
      if let letter = rest.popFirst(), letter != 0x20 {
        guard let index = units[place...].firstIndex(where: { $0.0 == letter }) else { return nil }
        scale = units[index].1
        place = index + 1
      } else {
        place = units.count
      }
      rest = rest.drop { $0 == 0x20 }
      total += value * scale
      // Some thousand years: sums with it don't overflow.
      guard total <= 100_000_000_000, rest.isEmpty || place < units.count else { return nil }
    }
    return total
  }
}
