public import Bytes
package import Glibc

/// The time as text, formatted once a second.
///
/// Every response has a Date and every access line a time; formatting each anew would cost more than the rest of the
/// line. Each worker has its own and never shares it: the bytes change in place with each second.
public final class ClockText {
  @usableFromInline static let httpDatePlace = 0, timeLocalPlace = 29, timeISO8601Place = 55
  private static let secondsPlace = 80, size = 100
  @usableFromInline let bytes: UnsafeMutableRawPointer
  /// Seconds since 1970 that the texts show, and the milliseconds of the last update.
  public private(set) var seconds: Int64 = .min
  public private(set) var milliseconds = 0
  /// How many digits the seconds have.
  private var secondsCount = 0

  public init() {
    bytes = .allocate(byteCount: Self.size, alignment: 8)
    update(seconds: 0, milliseconds: 0)
  }

  deinit { bytes.deallocate() }

  /// Reads the time. Cheap while the second stays the same.
  public func update() {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    update(seconds: Int64(now.tv_sec), milliseconds: Int(now.tv_nsec / 1_000_000))
  }

  /// Sets the time (CLOCK_REALTIME). Cheap while the second stays the same.
  public func update(seconds: Int64, milliseconds: Int) {
    self.milliseconds = min(max(0, milliseconds), 999)
    if seconds != self.seconds { format(seconds) }
  }

  /// `Sat, 21 Nov 2026 11:30:01 GMT`: IMF-fixdate, RFC 9110 §5.6.7. Valid until the next `update`.
  @inlinable public var httpDate: UnsafeRawBufferPointer { text(Self.httpDatePlace, 29) }
  /// `21/Nov/2026:11:30:01 +0000`: $time_local. Valid until the next `update`.
  @inlinable public var timeLocal: UnsafeRawBufferPointer { text(Self.timeLocalPlace, 26) }
  /// `2026-11-21T11:30:01+00:00`: $time_iso8601. Valid until the next `update`.
  @inlinable public var timeISO8601: UnsafeRawBufferPointer { text(Self.timeISO8601Place, 25) }

  @inlinable func text(_ place: Int, _ count: Int) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(start: bytes + place, count: count)
  }

  /// `1795260601.042`: $msec.
  public func appendSeconds(to buffer: inout ByteBuffer) {
    buffer.append(text(Self.secondsPlace, secondsCount))
    buffer.append(fraction: UInt64(milliseconds))
  }

  private func format(_ seconds: Int64) {
    self.seconds = seconds
    var line = ByteBuffer(capacity: Self.size)
    let utc = Moment(seconds, utc: true)
    line.append(string: Self.days[utc.weekday])
    line.append(", ")
    line.append(padded: utc.day)
    line.append(" ")
    line.append(string: Self.months[utc.month - 1])
    line.append(" ")
    line.append(year: utc.year)
    line.append(" ")
    line.append(time: utc)
    line.append(" GMT")

    let local = Moment(seconds, utc: false)
    line.append(padded: local.day)
    line.append("/")
    line.append(string: Self.months[local.month - 1])
    line.append("/")
    line.append(year: local.year)
    line.append(":")
    line.append(time: local)
    line.append(" ")
    line.append(offset: local, separator: "")

    line.append(date: local, separator: "-")
    line.append("T")
    line.append(time: local)
    line.append(offset: local, separator: ":")
    let start = line.count
    line.append(decimal: UInt64(max(0, seconds)))
    secondsCount = line.count - start
    UnsafeMutableRawBufferPointer(start: bytes, count: Self.size).copyMemory(from: line.readable)
  }

  /// Appends `2026/11/21 11:30:01` in local time, for the error log, which is written too seldom to cache it.
  package static func appendErrorTime(_ now: time_t, to line: inout ByteBuffer) {
    let moment = Moment(Int64(now), utc: false)
    line.append(date: moment, separator: "/")
    line.append(" ")
    line.append(time: moment)
  }

  /// Appends `Nov 21 11:30:01` in local time: RFC 3164 §4.1.2, the day padded with a space.
  package static func appendSyslogTime(_ now: time_t, to line: inout ByteBuffer) {
    let moment = Moment(Int64(now), utc: false)
    line.append(string: months[moment.month - 1])
    line.append(moment.day < 10 ? "  " : " ")
    line.append(decimal: UInt64(moment.day))
    line.append(" ")
    line.append(time: moment)
  }

  private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
  private static let months = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]
}

@available(*, unavailable)
extension ClockText: Sendable {}

/// The calendar fields of a time, each within its range, whatever the clock says.
package struct Moment {
  package let year: Int, month: Int, day: Int, weekday: Int, hour: Int, minute: Int, second: Int, offsetMinutes: Int

  package init(_ seconds: Int64, utc: Bool) {
    var parts = tm()
    var instant = time_t(seconds)
    let known = utc ? gmtime_r(&instant, &parts) != nil : localtime_r(&instant, &parts) != nil
    if !known { parts = tm() }
    year = min(max(0, Int(parts.tm_year) + 1900), 9999)
    month = min(max(0, Int(parts.tm_mon)), 11) + 1
    day = min(max(1, Int(parts.tm_mday)), 31)
    weekday = min(max(0, Int(parts.tm_wday)), 6)
    hour = min(max(0, Int(parts.tm_hour)), 23)
    minute = min(max(0, Int(parts.tm_min)), 59)
    second = min(max(0, Int(parts.tm_sec)), 60)
    offsetMinutes = min(max(-5999, parts.tm_gmtoff / 60), 5999)
  }

  /// `2026-11-22 21:45:03`
  package var words: String {
    func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
    return "\(year)-\(two(month))-\(two(day)) \(two(hour)):\(two(minute)):\(two(second))"
  }
}

extension ByteBuffer {
  /// Appends `.042` for 42 milliseconds. Whole seconds among them are left out.
  public mutating func append(fraction milliseconds: UInt64) {
    let rest = UInt32(truncatingIfNeeded: milliseconds % 1000)
    let hundreds = rest / 100, tens = rest / 10
    // From the lowest byte on: a point and three digits, in one store.
    var text = (0x3030_302E as UInt32) &+ hundreds << 8
    text &+= (tens &- hundreds &* 10) << 16
    text &+= (rest &- tens &* 10) << 24
    withUnsafeBytes(of: text.littleEndian) { append($0) }
  }

  /// Appends two digits.
  fileprivate mutating func append(padded value: Int) {
    append(48 + UInt8(truncatingIfNeeded: value / 10 % 10))
    append(48 + UInt8(truncatingIfNeeded: value % 10))
  }

  fileprivate mutating func append(year: Int) {
    append(padded: year / 100)
    append(padded: year % 100)
  }

  fileprivate mutating func append(date moment: Moment, separator: StaticString) {
    append(year: moment.year)
    append(separator)
    append(padded: moment.month)
    append(separator)
    append(padded: moment.day)
  }

  fileprivate mutating func append(time moment: Moment) {
    append(padded: moment.hour)
    append(":")
    append(padded: moment.minute)
    append(":")
    append(padded: moment.second)
  }

  fileprivate mutating func append(offset moment: Moment, separator: StaticString) {
    append(moment.offsetMinutes < 0 ? "-" : "+")
    append(padded: abs(moment.offsetMinutes) / 60)
    append(separator)
    append(padded: abs(moment.offsetMinutes) % 60)
  }
}
