import Bytes
import Forward
import Glibc
import HTTP
import Language
import Observability
import Traffic

/// expires (nginx: ngx_http_headers_module): which Expires and Cache-Control a response gets.
struct Expires: FeatureSettings, LocationFeature {
  enum Value: Sendable, Hashable {
    case rule(ExpiresRule)
    /// The value has variables, and is read for each response. `modified`: the word stands before it.
    case template(Template, modified: Bool)
  }

  /// nil: the response keeps its own fields.
  var value: Value?

  // MARK: Directives

  static let chapter = Chapter.fields

  static let rows: [Row<Expires>] = [
    .line(
      "expires", .everyHTTP.union(.locationIf), .words(1...2, "[modified] TIME | @TIME | epoch | max | off"),
      initial: "off", "Replaces Expires and Cache-Control; the value may have variables.", example: "expires 1h;",
      trust: .none
    ) { $0.value = value($1, &$2) }
  ]

  private static func value(_ line: Directive, _ builder: inout SettingsBuilder) -> Value? {
    let isModified = line.arguments.count > 1
    if isModified, line.text(0) != "modified" {
      builder.refuse(line, 0, hint: "[modified] TIME")
      return nil
    }
    let word = line.arguments.count - 1
    if line.text(word).contains("$") {
      return .template(builder.template(line, word), modified: isModified)
    }
    guard let rule = ExpiresRule(Array(line.text(word).utf8), modified: isModified) else {
      builder.refuse(
        line, word, hint: "30d, -1, @15h30m (below 24 hours), modified +24h, epoch, max or off")
      return nil
    }
    if case .off = rule { return nil }
    return .rule(rule)
  }

  var isInEffect: Bool { value != nil }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    if let value { parts.headFilters.append(LiveExpires(value)) }
  }
}

/// One value of `expires`, as nginx reads it (`ngx_http_parse_expires`). Times are in seconds.
enum ExpiresRule: Sendable, Hashable {
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
  init?(_ text: some Collection<UInt8>, modified: Bool) {
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

/// `expires` in one worker: replaces Expires and Cache-Control of a response.
final class LiveExpires: HeadFilter {
  private let settings: Expires.Value
  private let template: CompiledTemplate?
  private let clock = ClockText()

  init(_ settings: Expires.Value) {
    self.settings = settings
    template = if case .template(let text, _) = settings { text.compiled } else { nil }
  }

  override func change(_ exchange: Exchange) {
    guard AddHeader.isUsual(exchange.response.status), let rule = rule(exchange) else { return }
    let now = exchange.worker.clock
    now.update()
    let (end, control) = Self.values(rule, isConstant: template == nil, now: now.seconds) {
      Self.lastModified(exchange.response)
    }
    guard let end else { return }
    clock.update(seconds: end, milliseconds: 0)
    let response = exchange.response
    response.remove("Expires")
    response.remove("Cache-Control")
    _ = response.add("Expires", clock.httpDate)
    Array(control.utf8).withUnsafeBytes { _ = response.add("Cache-Control", $0) }
  }

  private func rule(_ exchange: Exchange) -> ExpiresRule? {
    switch settings {
    case .rule(let rule): rule
    // As in nginx, a value that can't be read sets nothing.
    case .template(_, let modified): template.flatMap { ExpiresRule($0.bytes(exchange), modified: modified) }
    }
  }

  /// The seconds of Expires, nil for none, and Cache-Control. `lastModified`: nil without that field. `isConstant`: the
  /// configuration says the time itself; as in nginx, only then a negative one forbids caching of what is younger yet.
  static func values(
    _ rule: ExpiresRule, isConstant: Bool, now: Int64, lastModified: () -> Int64?
  ) -> (end: Int64?, control: String) {
    func until(_ end: Int64, _ time: Int64) -> (Int64?, String) {
      let age = end - now
      return (end, time < 0 && isConstant || age < 0 ? "no-cache" : "max-age=\(age)")
    }
    switch rule {
    case .off: return (nil, "")
    case .epoch: return (1, "no-cache")
    case .max: return (2_145_916_555, "max-age=315360000")
    case .afterResponse(0), .modified(0): return (now, "max-age=0")
    case .afterResponse(let time): return until(now + time, time)
    case .modified(let time): return until((lastModified() ?? now) + time, time)
    case .daily(let time): return until(next(time, after: now), time)
    }
  }

  /// The next moment at which the local clock is so many seconds into its day.
  private static func next(_ time: Int64, after now: Int64) -> Int64 {
    var instant = time_t(now), parts = tm()
    guard localtime_r(&instant, &parts) != nil else { return now + time }
    parts.tm_hour = Int32(truncatingIfNeeded: time / 3600)
    parts.tm_min = Int32(truncatingIfNeeded: time / 60 % 60)
    parts.tm_sec = Int32(truncatingIfNeeded: time % 60)
    var day = parts
    let today = Int64(mktime(&day))
    if today > now { return today }
    parts.tm_mday += 1
    return Int64(mktime(&parts))
  }

  /// The time of Last-Modified, if it has the form that RFC 9110 §5.6.7 demands of senders.
  private static func lastModified(_ response: OutgoingResponseHead) -> Int64? {
    var text = ByteBuffer()
    Array("last_modified".utf8).withUnsafeBytes { response.append(variableName: $0, to: &text) }
    return seconds(Array(text.readable))
  }

  /// `Sun, 06 Nov 1994 08:49:37 GMT` as seconds since 1970.
  static func seconds(_ text: [UInt8]) -> Int64? {
    guard text.count == 29, text[25...].elementsEqual(" GMT".utf8) else { return nil }
    func number(_ range: Range<Int>) -> Int32? {
      var value: Int32 = 0
      for byte in text[range] {
        guard byte &- 48 < 10 else { return nil }
        value = value * 10 + Int32(byte &- 48)
      }
      return value
    }
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    guard let day = number(5..<7), let month = months.firstIndex(where: { text[8..<11].elementsEqual($0.utf8) }),
      let year = number(12..<16), let hour = number(17..<19), let minute = number(20..<22),
      let second = number(23..<25), year >= 1900
    else { return nil }
    var parts = tm()
    parts.tm_mday = day
    parts.tm_mon = Int32(month)
    parts.tm_year = year - 1900
    (parts.tm_hour, parts.tm_min, parts.tm_sec) = (hour, minute, second)
    return Int64(timegm(&parts))
  }
}
