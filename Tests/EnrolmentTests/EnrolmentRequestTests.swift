import Bytes
import Enrolment
import Foundation
import TestSupport
import Testing

@Suite struct `A request for a certificate` {
  private func parse(_ text: String) throws -> EnrolmentRequest {
    try Array(text.utf8).withUnsafeBytes { try EnrolmentRequest(parsing: $0) }
  }

  private func text(_ secret: SecretBytes) -> String { secret.withUnsafeBytes { String(decoding: $0, as: UTF8.self) } }

  @Test func `is read with white space, escapes and members that nobody knows`() throws {
    let request = try parse(
      " {\"os\": {\"v\": [1, -2.5e+3, true, null, \"x\"]},\n\"device\" : \"my.phone_1-a\", "
        + "\"passphrase\":\"p\\u00e4\\\\\\\"\\n\\ud83d\\ude00word\"} ")
    #expect(request.device == "my.phone_1-a")
    #expect(text(request.passphrase) == "pä\\\"\n😀word")
  }

  @Test(arguments: [
    "", "{}", "[]", "null", "{\"device\": \"a\"}", "{\"passphrase\": \"12345678\"}",
    "{\"device\": \"a\", \"passphrase\": \"1234567\"}", "{\"device\": \"\", \"passphrase\": \"12345678\"}",
    "{\"device\": \"a/b\", \"passphrase\": \"12345678\"}", "{\"device\": \"é\", \"passphrase\": \"12345678\"}",
    "{\"device\": \"a\", \"device\": \"a\", \"passphrase\": \"12345678\"}",
    "{\"device\": 1, \"passphrase\": \"12345678\"}", "{\"device\": \"a\", \"passphrase\": \"1234567\\u0000\"}",
    "{\"device\": \"a\", \"passphrase\": \"12345678\"} x", "{\"device\": \"a\", \"passphrase\": \"12345678\",}",
    "{\"device\": \"a\" \"passphrase\": \"12345678\"}", "{\"device\": \"a\", \"passphrase\": \"\\ud83d1234567\"}",
    "{\"device\": \"a\", \"passphrase\": \"12345678", "{\"x\": 01, \"device\": \"a\", \"passphrase\": \"12345678\"}",
    "{\"x\": tru, \"device\": \"a\", \"passphrase\": \"12345678\"}",
    "{\"device\": \"a\", \"passphrase\": \"1234\n5678\"}",
    "{\"device\": \"\(String(repeating: "a", count: 65))\", \"passphrase\": \"12345678\"}",
    "{\"x\": \(String(repeating: "[", count: 40)), \"device\": \"a\", \"passphrase\": \"12345678\"}",
  ])
  func `is refused when it is anything else`(body: String) {
    #expect(throws: EnrolmentRequest.ParseError.self) { try parse(body) }
  }

  @Test func `has a bound, and is UTF-8`() {
    let long = "{\"x\": \"\(String(repeating: "a", count: 16384))\", \"device\": \"a\", \"passphrase\": \"12345678\"}"
    #expect(throws: EnrolmentRequest.ParseError.self) { try parse(long) }
    let bytes = Array("{\"device\": \"a\", \"passphrase\": \"12345678".utf8) + [0xFF] + Array("\"}".utf8)
    #expect(throws: EnrolmentRequest.ParseError.self) {
      try bytes.withUnsafeBytes { try EnrolmentRequest(parsing: $0) }
    }
  }

  @Test func `what was found by fuzzing, and the seeds, are read without harm`() {
    for input in FuzzInput.all(of: "FuzzEnrolment") {
      input.text.withUnsafeBytes { bytes in
        _ = try? EnrolmentRequest(parsing: bytes)
        _ = try? AuthorityIndex(parsing: bytes)
        _ = AccountFile(bytes)
        _ = ShownCredentials(bytes)
      }
    }
  }
}

@Suite struct `Wrong passwords` {
  private let limit = FailureWindow.Limit(count: 3, time: 60)
  private let alice = FailureWindow.Key.user(Array("alice".utf8))
  private let home = FailureWindow.Key.address("192.0.2.1")

  @Test func `are counted by user and by address, and forgotten in time`() {
    var window = FailureWindow()
    for instant in [100, 110, 120] as [Int64] {
      #expect(window.begin([alice, home], limit, at: instant) == nil)
    }
    #expect(window.begin([alice], limit, at: 121) == 39)
    #expect(window.begin([.user([1]), home], limit, at: 121) == 39)
    #expect(window.begin([.user([1]), .address("192.0.2.2")], limit, at: 121) == nil)
    #expect(window.begin([alice], limit, at: 161) == nil)
    #expect(window.begin([alice], limit, at: 162) == 8)
    #expect(window.begin([home], limit, at: 162) == nil)
  }

  @Test func `a location with another limit shortens no history`() {
    let few = FailureWindow.Limit(count: 1, time: 5)
    var window = FailureWindow()
    for instant in [100, 101, 102] as [Int64] { #expect(window.begin([alice, home], limit, at: instant) == nil) }
    #expect(window.begin([alice, home], few, at: 103) == 4)
    #expect(window.begin([alice, home], few, at: 108) == nil)
    #expect(window.begin([alice, home], limit, at: 109) == 52)
  }

  @Test func `what was right is forgiven, and nothing else`() {
    var window = FailureWindow()
    for instant in [100, 101] as [Int64] { #expect(window.begin([alice, home], limit, at: instant) == nil) }
    for _ in 0..<5 {
      #expect(window.begin([alice, home], limit, at: 102) == nil)
      window.forgive([alice, home], at: 102)
    }
    #expect(window.begin([alice], limit, at: 102) == nil)
    #expect(window.begin([alice], limit, at: 103) == 57)
    #expect(window.begin([home], limit, at: 103) == nil)
  }

  @Test func `of more users and addresses than are remembered the oldest go, many at a time`() {
    let once = FailureWindow.Limit(count: 1, time: 1 << 20)
    let count = FailureWindow.keyLimit + 2 * FailureWindow.spare + 1
    func key(_ number: Int) -> FailureWindow.Key { .address("\(number)") }
    var window = FailureWindow()
    for number in 0..<count { _ = window.begin([key(number)], once, at: Int64(number)) }
    // Not with each of those that came beyond the limit.
    #expect(window.sweeps == 2)
    for number in stride(from: count - FailureWindow.keyLimit, to: count, by: 101) {
      #expect(window.begin([key(number)], once, at: Int64(count)) != nil, "\(number)")
    }
    #expect(window.begin([key(0)], once, at: Int64(count)) == nil)
  }
}
