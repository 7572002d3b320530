/// The dates of fields (RFC 9110 §5.6.7), in the three forms that a recipient must read.
public enum HTTPDate {
  /// Returns seconds since 1970; nil if this is no date. As in nginx, the name of the day isn't checked.
  public static func parse(_ bytes: UnsafeRawBufferPointer) -> Int64? {
    var reader = Reader(bytes)
    let isAsctime = reader.skipDayName()
    let (day, month, year): (Int64, Int64, Int64)
    if isAsctime {
      // Sun Nov  6 08:49:37 1994
      guard let name = reader.month(), reader.skip(0x20) else { return nil }
      _ = reader.skip(0x20)
      guard let number = reader.digits(1...2), reader.skip(0x20), let time = reader.time(), reader.skip(0x20),
        let late = reader.digits(4...4)
      else { return nil }
      return seconds(year: late, month: name, day: number, time: time)
    }
    guard let number = reader.digits(2...2) else { return nil }
    if reader.skip(0x2D) {
      // Sunday, 06-Nov-94 08:49:37 GMT
      guard let name = reader.month(), reader.skip(0x2D), let short = reader.digits(2...2) else { return nil }
      (day, month, year) = (number, name, short + (short < 70 ? 2000 : 1900))
    } else {
      // Sun, 06 Nov 1994 08:49:37 GMT
      guard reader.skip(0x20), let name = reader.month(), reader.skip(0x20), let late = reader.digits(4...4) else {
        return nil
      }
      (day, month, year) = (number, name, late)
    }
    guard reader.skip(0x20), let time = reader.time() else { return nil }
    return seconds(year: year, month: month, day: day, time: time)
  }

  private static func seconds(year: Int64, month: Int64, day: Int64, time: Int64) -> Int64? {
    let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    let lengths: [Int64] = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    guard year >= 1, (1...12).contains(month), (1...lengths[Int(month) - 1]).contains(day) else { return nil }
    // Days since 1970, by years that begin in March, so that a leap day is a year's last.
    let (shifted, start) = month > 2 ? (month - 3, year) : (month + 9, year - 1)
    let days = start * 365 + start / 4 - start / 100 + start / 400 + (shifted * 153 + 2) / 5 + day - 719_469
    return days * 86_400 + time
  }

  private struct Reader {
    private let bytes: UnsafeRawBufferPointer
    private var at = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    private var next: UInt8? { at < bytes.count ? bytes[at] : nil }

    /// Skips the name, and returns whether it has no comma, as in the form of `asctime`.
    mutating func skipDayName() -> Bool {
      while let byte = next, byte != 0x2C, byte != 0x20 { at += 1 }
      let isAsctime = next == 0x20
      at += 1
      while next == 0x20 { at += 1 }
      return isAsctime
    }

    mutating func skip(_ byte: UInt8) -> Bool {
      guard next == byte else { return false }
      at += 1
      return true
    }

    mutating func digits(_ count: ClosedRange<Int>) -> Int64? {
      var (value, read): (Int64, Int) = (0, 0)
      while read < count.upperBound, let byte = next, byte >= 0x30, byte <= 0x39 {
        value = value * 10 + Int64(byte - 0x30)
        read += 1
        at += 1
      }
      return read >= count.lowerBound ? value : nil
    }

    /// From 1.
    mutating func month() -> Int64? {
      let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
      guard at + 3 <= bytes.count else { return nil }
      let index = names.firstIndex { bytes[at..<at + 3].elementsEqual($0.utf8) }
      at += 3
      return index.map { Int64($0) + 1 }
    }

    /// Seconds of the day.
    mutating func time() -> Int64? {
      guard let hour = digits(2...2), skip(0x3A), let minute = digits(2...2), skip(0x3A), let second = digits(2...2),
        hour < 24, minute < 60, second < 60
      else { return nil }
      return hour * 3600 + minute * 60 + second
    }
  }
}
