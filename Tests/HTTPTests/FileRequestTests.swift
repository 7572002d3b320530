import Bytes
import Files
import HTTP
import TestSupport
import Testing

/// What a request says about a file: ranges, dates, content codings.
@Suite struct `Requests for files` {
  private func ranges(_ text: String, of length: UInt64 = 36, limit: Int = .max) -> RangeRequest {
    Array("bytes=\(text)".utf8).withUnsafeBytes { RangeRequest($0, length: length, limit: limit) }
  }

  @Test func `ranges are read, bounded and added up`() {
    #expect(ranges("0-0") == .parts([0..<1]))
    #expect(ranges("5-") == .parts([5..<36]))
    #expect(ranges("-5") == .parts([31..<36]))
    #expect(ranges("-100") == .parts([0..<36]))
    #expect(ranges("0-99") == .parts([0..<36]))
    #expect(ranges("1 - 2 , -1") == .parts([1..<3, 35..<36]))
    #expect(ranges("40-,0-1") == .parts([0..<2]))
    for text in ["36-", "-0", "a", "-", "5", "1-2x", "99999999999999999999-", "1-9223372036854775808", "0-0,,1-1"] {
      #expect(ranges(text) == .unsatisfiable, "\(text)")
    }
    // More than the whole, more parts than allowed, an empty part at the beginning.
    #expect(ranges("0-,0-0") == .whole)
    #expect(ranges("0-0,2-2", limit: 1) == .whole)
    #expect(ranges("0-", of: 0) == .whole)
    #expect(Array("lines=0-1".utf8).withUnsafeBytes { RangeRequest($0, length: 36, limit: 9) } == .whole)
  }

  private func date(_ text: String) -> Int64? { Array(text.utf8).withUnsafeBytes { HTTPDate.parse($0) } }

  @Test func `dates of the three forms are the same moment`() {
    for text in [
      "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
      "Sun Nov 6 08:49:37 1994",
    ] { #expect(date(text) == 784_111_777, "\(text)") }
    #expect(date("Thu, 01 Jan 1970 00:00:00 GMT") == 0)
    #expect(date("Thu, 29 Feb 2024 12:00:00 GMT") == 1_709_208_000)
    #expect(date("Tue, 19 Jan 2038 03:14:08 GMT") == 2_147_483_648)
    for text in [
      "", "Sun", "Sun,", "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 31 Feb 1994 08:49:37 GMT",
      "Sun, 29 Feb 1900 00:00:00 GMT",
      "Sun, 06 Xyz 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 08:49", "Sun, 06 Nov 19",
    ] { #expect(date(text) == nil, "\(text)") }
  }

  @Test func `gzip is accepted by name, unless its weight is nothing`() {
    func accepts(_ text: String) -> Bool { Array(text.utf8).withUnsafeBytes { GzipAcceptance.accepts($0) } }
    for text in ["gzip", "br, GZIP", "gzip;q=0.001", "gzip ; q=1", "deflate,gzip;q=0.5,br"] { #expect(accepts(text)) }
    for text in ["", "gzi", "x-gzip", "gzip;q=0", "gzip;q=0.000", "gzip;q=2", "gzip;q=0.1234", "gzipped", "*"] {
      #expect(!accepts(text), "\(text)")
    }
  }

  @Test func `what was once fuzzed keeps its bounds`() {
    let inputs = FuzzInput.all(of: "FuzzFileRequest")
    #expect(inputs.count > 5)
    for input in inputs {
      Array(input.bytes.dropFirst()).withUnsafeBytes { bytes in
        if case .parts(let parts) = RangeRequest(bytes, length: 36, limit: .max) {
          #expect(parts.allSatisfy { !$0.isEmpty && $0.upperBound <= 36 } && parts.reduce(0) { $0 + $1.count } <= 36)
        }
        _ = HTTPDate.parse(bytes)
        _ = GzipAcceptance.accepts(bytes)
      }
      if let path = ServedPath(folder: [0x2F], below: Array(input.bytes.dropFirst())) {
        #expect(!path.below.split(separator: 0x2F).contains { Array($0) == [0x2E, 0x2E] })
      }
    }
  }
}
