import Testing

@testable import Daemon

/// What the process that runs programs takes from a process that may have been taken over.
@Suite struct `Requests for programs of dns-01` {
  private let value = String(repeating: "aZ09-_x", count: 6) + "q"

  @Test func `a request is read as it was written`() {
    let request = HookRequest(number: 0xFFFF_FFFE, verb: .cleanup, permission: 258, value: value)
    #expect(HookRequest(request.bytes[...]) == request)
    #expect(HookRequest(([0] + request.bytes)[1...]) == request)
  }

  @Test func `nothing else is a request`() {
    let bytes = HookRequest(number: 1, verb: .present, permission: 0, value: value).bytes
    for count in 0..<bytes.count { #expect(HookRequest(bytes[..<count]) == nil) }
    #expect(HookRequest((bytes + [65])[...]) == nil)
    for byte in [0, 10, 32, 34, 36, 39, 47, 59, 96, 127, 200] as [UInt8] {
      var other = bytes
      other[20] = byte
      #expect(HookRequest(other[...]) == nil, "\(byte)")
    }
    var other = bytes
    other[4] = 7
    #expect(HookRequest(other[...]) == nil)
  }

  @Test func `an answer keeps the number, and its text is one bounded line`() throws {
    let said = HookOutcome.firstLine(of: Array("\n \r\nfirst\u{1B}[31m line\nsecond".utf8))
    #expect(said == "first?[31m line")
    let outcome = HookOutcome(kind: .exited, code: -3, said: said)
    let read = try #require(HookOutcome.read(outcome.bytes(number: 77)[...]))
    #expect(read.number == 77 && read.outcome == outcome)
    #expect(HookOutcome(kind: .exited, code: 0, said: String(repeating: "x", count: 999)).bytes(number: 0).count == 265)
    #expect(HookOutcome.read([1, 2, 3]) == nil && HookOutcome.read([0, 0, 0, 0, 99, 0, 0, 0, 0]) == nil)
    #expect(HookOutcome(kind: .late, code: 300).description == "did not end within 300 s")
  }
}
