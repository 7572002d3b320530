import Testing

@testable import Language

@Suite struct QuantityTests {
  @Test(arguments: [
    ("0", 0), ("512", 512), ("1k", 1024), ("16K", 16384), ("8m", 8 << 20), ("1G", 1 << 30), ("", nil), ("k", nil),
    ("1.5k", nil), ("-1", nil), ("1kb", nil), ("9223372036854775807", Int.max), ("9223372036854775808", nil),
    ("9007199254740992k", nil), ("99999999999999999999g", nil),
  ])
  func `sizes are bytes, k, m or g`(text: String, bytes: Int?) {
    #expect(Quantity.size(text) == bytes)
  }

  @Test(arguments: [
    ("0", 0), ("30", 30_000), ("30s", 30_000), ("500ms", 500), ("5m", 300_000), ("1h30m", 5_400_000),
    ("1h 30m", 5_400_000), ("1d", 86_400_000), ("1w", 604_800_000), ("1M", 2_592_000_000), ("1y", 31_536_000_000),
    ("1y 1M 1w 1d 1h 1m 1s 1ms", 34_822_861_001), ("1m 30", 90_000), ("30m 1h", nil), ("1h 1h", nil), ("", nil),
    ("s", nil), ("1x", nil), ("-1s", nil), ("1h m", nil), ("292471209y", nil), ("99999999999999999999", nil),
  ])
  func `times are largest unit first, a bare number is seconds`(text: String, milliseconds: Int?) {
    #expect(Quantity.milliseconds(text) == milliseconds)
  }

  @Test func `where seconds are wanted milliseconds are refused`() {
    #expect(Quantity.seconds("500ms") == nil)
    #expect(Quantity.seconds("1m 30s") == 90)
  }
}
