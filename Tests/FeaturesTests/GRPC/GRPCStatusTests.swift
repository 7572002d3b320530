@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `Statuses and timeouts of gRPC` {
  private func milliseconds(_ text: String) -> Int? {
    Array(text.utf8).withUnsafeBytes { GRPCCall.timeout($0) }
  }

  @Test func `a timeout is digits and a unit, rounded up`() {
    let times = [
      "1H": 3_600_000, "2M": 120_000, "3S": 3000, "4m": 4, "5u": 1, "1000u": 1, "1001u": 2, "6n": 1, "1000001n": 2,
      "0S": 0, "0n": 0, "00000001S": 1000, "99999999H": 359_999_996_400_000,
    ]
    for (text, time) in times { #expect(milliseconds(text) == time, "\(text)") }
  }

  @Test(arguments: [
    "", "S", "1", "12", "1s", "1h", "1D", "-1S", "+1S", "1.5S", "1 S", " 1S", "1S ", "123456789S", "1SS", "S1",
    "\u{0661}S",
    "1\0",
  ])
  func `what is no timeout is none`(text: String) { #expect(milliseconds(text) == nil) }

  @Test func `statuses are those of the table of gRPC, and where it has none the nearest`() {
    let statuses: [Int: UInt8] = [
      400: 13, 401: 16, 403: 7, 404: 12, 405: 2, 408: 4, 413: 8, 421: 14, 429: 14, 494: 8, 495: 16, 496: 16, 499: 1,
      500: 13, 502: 14, 503: 14, 504: 14, 418: 2, 505: 2,
    ]
    for (code, status) in statuses { #expect(GRPCStatus(ErrorResponse(code)).rawValue == status, "\(code)") }
  }
}
