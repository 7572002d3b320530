@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `The messages of gRPC's health service` {
  private typealias Fault = GRPCHealthMessage.Fault

  private func status(_ body: [UInt8]) -> Result<GRPCHealthMessage.ServingStatus, Fault> {
    Result { () throws(Fault) in try GRPCHealthMessage.status(of: body) }
  }

  private func framed(_ message: [UInt8]) -> [UInt8] { [0, 0, 0, 0, UInt8(message.count)] + message }

  @Test func `a request has the service, and none for the whole server`() {
    #expect(GRPCHealthMessage.request(service: "") == [0, 0, 0, 0, 0])
    #expect(GRPCHealthMessage.request(service: "a.B") == [0, 0, 0, 0, 5, 0x0A, 3, 0x61, 0x2E, 0x42])
    let long = GRPCHealthMessage.request(service: String(repeating: "x", count: 300))
    #expect(long.prefix(8) == [0, 0, 0, 1, 0x2F, 0x0A, 0xAC, 0x02] && long.count == 308)
  }

  @Test(arguments: [
    ([0x08, 0x01], GRPCHealthMessage.ServingStatus.serving), ([], .unknown), ([0x08, 0x00], .unknown),
    ([0x08, 0x02], .notServing), ([0x08, 0x03], .serviceUnknown), ([0x08, 0x04], .unknown),
    // A number in more bytes than it needs, and one that only its low 32 bits would make SERVING.
    ([0x08, 0x81, 0x00], .serving), ([0x08, 0x81, 0x80, 0x80, 0x80, 0x10], .unknown),
    // The last of two counts.
    ([0x08, 0x02, 0x08, 0x01], .serving), ([0x08, 0x01, 0x08, 0x02], .notServing),
    // Unknown fields of each kind: a number, 8 bytes, bytes, 4 bytes.
    ([0x10, 0xFF, 0x01, 0x08, 0x01], .serving), ([0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x08, 0x01], .serving),
    ([0x12, 0x02, 0x08, 0x02, 0x08, 0x01], .serving), ([0x15, 1, 2, 3, 4, 0x08, 0x01], .serving),
    // SERVING within another field is not the status.
    ([0x12, 0x02, 0x08, 0x01], .unknown),
  ])
  func `a status is field 1`(message: [UInt8], expected: GRPCHealthMessage.ServingStatus) {
    #expect(status(framed(message)) == .success(expected))
  }

  @Test(arguments: [
    ([], "the response has no whole message"), ([0, 0, 0, 0], "the response has no whole message"),
    ([1, 0, 0, 0, 2, 8, 1], "the message is compressed"),
    ([0, 0, 0, 0, 3, 8, 1], "the message has 2 bytes and announces 3"),
    ([0, 0, 0, 0, 1, 8, 1], "the message has 2 bytes and announces 1"),
    ([0, 0xFF, 0xFF, 0xFF, 0xFF, 8, 1], "the message has 2 bytes and announces 4294967295"),
    // A second message.
    ([0, 0, 0, 0, 2, 8, 1, 0, 0, 0, 0, 0], "the message has 7 bytes and announces 2"),
  ])
  func `a body of other framing is none`(body: [UInt8], reason: String) {
    #expect(status(body) == .failure(Fault(reason)))
  }

  @Test(arguments: [
    ([0x08], "the message ends within a number"), ([0x08, 0x81], "the message ends within a number"),
    ([0x88], "the message ends within a number"), ([0x12, 5, 1], "the message ends within a field"),
    ([0x11, 1, 2], "the message ends within a field"), ([0x15, 1], "the message ends within a field"),
    // A length of 2^64 - 1.
    ([0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01], "the message ends within a field"),
    ([0x08] + [UInt8](repeating: 0xFF, count: 9) + [0x02], "the message has a number of more than 64 bits"),
    ([0x08] + [UInt8](repeating: 0x80, count: 40), "the message has a number of more than 64 bits"),
    ([0x00, 0x01], "the message has a field of number 0"), ([0x13], "the message has a field of unknown kind"),
    ([0x0A, 0x01, 0x01], "the status is no number"), ([0x09, 1, 0, 0, 0, 0, 0, 0, 0], "the status is no number"),
  ])
  func `a message that is broken is none`(message: [UInt8], reason: String) {
    #expect(status(framed(message)) == .failure(Fault(reason)))
  }

  /// Every body of up to two bytes of message, and random ones: none may trap, and only field 1 of value 1 is SERVING.
  @Test func `any bytes give a status or a fault`() {
    for first in 0...UInt8.max {
      for second in 0...UInt8.max {
        if case .success(.serving) = status(framed([first, second])) { #expect([first, second] == [8, 1]) }
      }
    }
    var generator = SystemRandomNumberGenerator()
    for _ in 0..<20_000 {
      let message = (0..<Int.random(in: 0...24)).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
      _ = status(framed(message))
      _ = status(message)
    }
  }
}
