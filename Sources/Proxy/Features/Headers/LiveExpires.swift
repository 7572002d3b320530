import Bytes
import Glibc
import HTTP
import Observability

/// `expires` in one worker: replaces Expires and Cache-Control of a response.
final class LiveExpires {
  private let settings: ExpiresSettings
  private let template: LiveTemplate?
  private let clock = ClockText()

  /// nil: nothing is ever set.
  init?(_ settings: ExpiresSettings?) {
    switch settings {
    case nil, .rule(.off): return nil
    case .rule?: template = nil
    case .template(let text, _)?: template = LiveTemplate(text)
    }
    self.settings = settings ?? .rule(.off)
  }

  func set(for exchange: Exchange) {
    guard let rule = rule(exchange) else { return }
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
