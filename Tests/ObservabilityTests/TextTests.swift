import Bytes
import Glibc
import Testing

@testable import Observability

@Suite struct `The clock's text` {
  /// 2026-11-21 11:30:01 UTC.
  static let second: Int64 = 1_795_260_601

  @Test func `is what HTTP, nginx and ISO 8601 write`() {
    let clock = ClockText()
    clock.update(seconds: Self.second, milliseconds: 42)
    #expect(clock.httpDate.text == "Sat, 21 Nov 2026 11:30:01 GMT")
    var parts = tm()
    var instant = time_t(Self.second)
    localtime_r(&instant, &parts)
    #expect(clock.timeLocal.text == written(parts, "%d/%b/%Y:%H:%M:%S %z"))
    #expect(clock.timeISO8601.text == colonInOffset(written(parts, "%Y-%m-%dT%H:%M:%S%z")))
  }

  @Test func `changes with the second, and only then`() {
    let clock = ClockText()
    clock.update(seconds: Self.second, milliseconds: 0)
    clock.update(seconds: Self.second, milliseconds: 999)
    #expect(clock.httpDate.text.hasSuffix("11:30:01 GMT"))
    #expect(clock.milliseconds == 999)
    clock.update(seconds: Self.second + 1, milliseconds: 0)
    #expect(clock.httpDate.text.hasSuffix("11:30:02 GMT"))
    clock.update(seconds: Self.second - 3600, milliseconds: 0)
    #expect(clock.httpDate.text.hasSuffix("10:30:01 GMT"))
  }

  @Test(arguments: [
    (0, "Thu, 01 Jan 1970 00:00:00 GMT"), (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
    (4_102_444_799, "Thu, 31 Dec 2099 23:59:59 GMT"), (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
  ])
  func `dates are right at the edges`(seconds: Int, date: String) {
    let clock = ClockText()
    clock.update(seconds: Int64(seconds), milliseconds: 0)
    #expect(clock.httpDate.text == date)
  }

  @Test(arguments: [Int64.max, Int64.min, 253_402_300_800])
  func `a clock gone mad breaks nothing and keeps the widths`(seconds: Int64) {
    let clock = ClockText()
    clock.update(seconds: seconds, milliseconds: -5)
    #expect(clock.httpDate.count == 29 && clock.httpDate.text.hasSuffix(" GMT"))
    #expect(clock.timeISO8601.count == 25)
    #expect(clock.milliseconds == 0)
  }

  @Test func `milliseconds keep their zeros`() {
    let clock = ClockText()
    for (milliseconds, text) in [(0, "000"), (7, "007"), (42, "042"), (999, "999")] {
      clock.update(seconds: Self.second, milliseconds: milliseconds)
      var line = ByteBuffer()
      clock.appendSeconds(to: &line)
      #expect(line.readable.text == "1795260601.\(text)")
    }
  }

  @Test func `syslog pads the day with a space`() {
    // 2026-11-05 12:00:00 UTC: the fifth from UTC-12 to UTC+11.
    var line = ByteBuffer()
    ClockText.appendSyslogTime(1_793_880_000, to: &line)
    #expect(line.readable.text.hasPrefix("Nov  5 "))
    #expect(line.count == 15)
  }

  private func written(_ parts: tm, _ format: String) -> String {
    var parts = parts
    var room = [CChar](repeating: 0, count: 64)
    let count = strftime(&room, room.count, format, &parts)
    return String(decoding: room.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  private func colonInOffset(_ text: String) -> String { text.dropLast(2) + ":" + text.suffix(2) }
}

@Suite struct `Log escaping` {
  func escaped(_ bytes: [UInt8], _ escape: (UnsafeRawBufferPointer, inout ByteBuffer) -> Void) -> [UInt8] {
    var line = ByteBuffer()
    bytes.withUnsafeBytes { escape($0, &line) }
    return Array(line.readable)
  }

  @Test func `default spells out quote, backslash, controls and all from 0x7F on`() {
    #expect(
      escaped(Array("a\"b\\c\r\n\t\u{7F}é~ ".utf8), LogEscape.default)
        == Array(#"a\x22b\x5Cc\x0D\x0A\x09\x7F\xC3\xA9~ "#.utf8))
  }

  @Test func `json escapes what RFC 8259 demands and leaves UTF-8 alone`() {
    #expect(
      escaped(Array("a\"b\\c\r\n\t\u{8}\u{C}\u{1}\u{1F}é\u{7F}".utf8), LogEscape.json)
        == Array(#"a\"b\\c\r\n\t\b\f\u0001\u001Fé"#.utf8) + [0x7F])
  }

  @Test func `none copies`() {
    #expect(escaped([0, 10, 255, 34], LogEscape.none) == [0, 10, 255, 34])
  }

  @Test func `every byte comes out as the rule says`() {
    for byte in UInt8.min...UInt8.max {
      let plain = byte >= 0x20 && byte < 0x7F && byte != 0x22 && byte != 0x5C
      #expect((escaped([byte], LogEscape.default) == [byte]) == plain)
      // A byte from 0x80 on alone is not UTF-8.
      let plainJSON = byte >= 0x20 && byte < 0x80 && byte != 0x22 && byte != 0x5C
      #expect((escaped([byte], LogEscape.json) == [byte]) == plainJSON)
    }
  }

  @Test func `nothing stays nothing`() {
    #expect(escaped([], LogEscape.default) == [])
    #expect(escaped([], LogEscape.json) == [])
  }
}
