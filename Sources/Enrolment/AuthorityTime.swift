package import Crypto
import Glibc

/// Formats times in the authority's files and responses. Seconds since 1970, UTC.
package enum AuthorityTime {
  /// As in index.txt, which copies it from the certificate: UTCTime until 2049, then GeneralizedTime (RFC 5280
  /// §4.1.2.5).
  static func inIndex(_ seconds: Int64) -> String {
    let parts = calendar(seconds)
    let year = (1950..<2050).contains(parts.year) ? padded(parts.year % 100, 2) : padded(parts.year, 4)
    return year + parts.rest.map { padded($0, 2) }.joined() + "Z"
  }

  /// Returns nil for a text that is neither YYMMDDHHMMSSZ nor YYYYMMDDHHMMSSZ, or not a date of the calendar.
  static func seconds(inIndex text: some StringProtocol) -> Int64? {
    let digits = Array(text.utf8)
    guard digits.last == UInt8(ascii: "Z") else { return nil }
    let numbers = digits.dropLast().map { Int($0) - 48 }
    guard numbers.count == 12 || numbers.count == 14, numbers.allSatisfy({ (0...9).contains($0) }) else { return nil }
    let pairs = stride(from: 0, to: numbers.count, by: 2).map { numbers[$0] * 10 + numbers[$0 + 1] }
    let isShort = pairs.count == 6
    let year = isShort ? pairs[0] + (pairs[0] < 50 ? 2000 : 1900) : pairs[0] * 100 + pairs[1]
    let rest = Array(pairs.dropFirst(isShort ? 1 : 2))
    var parts = tm()
    parts.tm_year = CInt(year - 1900)
    parts.tm_mon = CInt(rest[0] - 1)
    parts.tm_mday = CInt(rest[1])
    parts.tm_hour = CInt(rest[2])
    parts.tm_min = CInt(rest[3])
    parts.tm_sec = CInt(rest[4])
    let seconds = Int64(timegm(&parts))
    // timegm reads the 31st of February as a day in March.
    let read = calendar(seconds)
    return read.year == year && read.rest == rest ? seconds : nil
  }

  /// `2026-11-21T11:30:01Z`.
  package static func rfc3339(_ seconds: Int64) -> String {
    let parts = calendar(seconds)
    let rest = parts.rest.map { padded($0, 2) }
    return "\(padded(parts.year, 4))-\(rest[0])-\(rest[1])T\(rest[2]):\(rest[3]):\(rest[4])Z"
  }

  /// Formats a certificate's time as RFC 3339, or says that it can't be read.
  package static func rfc3339(_ instant: CertificateTime) -> String {
    instant.seconds.map { rfc3339($0) } ?? "a time that can't be read"
  }

  /// `rest`: month, day, hour, minute, second.
  private static func calendar(_ seconds: Int64) -> (year: Int, rest: [Int]) {
    var instant = time_t(seconds)
    var parts = tm()
    if gmtime_r(&instant, &parts) == nil { parts = tm() }
    let rest = [parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec]
    return (min(max(0, Int(parts.tm_year) + 1900), 9999), rest.map { Int($0) })
  }

  private static func padded(_ number: Int, _ width: Int) -> String {
    let text = "\(number)"
    return String(repeating: "0", count: max(0, width - text.utf8.count)) + text
  }
}
