import Testing

@testable import Negotiation

@Suite struct `LDAP clients before TLS` {
  private func heard(_ bytes: [UInt8]) -> Talk<ClientNegotiation> { Talk(client: .ldap).hearing(bytes) }
  private static let oid = "1.3.6.1.4.1.1466.20037"
  private static func notice(_ code: UInt8, _ text: String) -> [UInt8] {
    BER.result(0, 0x78, code, text, name: "1.3.6.1.4.1.1466.20036")
  }

  @Test func `StartTLS is granted with the id of the request, and TLS begins behind it`() {
    let talk = heard(BER.startTLS(7))
    #expect(talk.said == BER.result(7, 0x78, 0, "", name: Self.oid))
    #expect(talk.next == .beginTLS && talk.socket.isEmpty)
  }

  @Test func `bytes behind StartTLS end the connection, and nothing of the input is answered`() {
    for bytes in [
      BER.startTLS(1) + [0x16], BER.startTLS(1) + BER.simpleBind(2), BER.simpleBind(1) + BER.startTLS(2) + [0],
    ] {
      let talk = heard(bytes)
      #expect(talk.said.isEmpty && talk.reason == ClientNegotiation.injection && talk.socket.isEmpty)
    }
  }

  @Test func `lengths may have more octets than they need, as those of Microsoft's clients`() {
    let name = [0x80, 0x84, 0, 0, 0, 22] + Array(Self.oid.utf8)
    let operation = [0x77, 0x84, 0, 0, 0, UInt8(name.count)] + name
    let message = [0x30, 0x84, 0, 0, 0, UInt8(operation.count + 3), 2, 1, 1] + operation
    #expect(heard(message).next == .beginTLS)
    let other = [0x30, 0x81, UInt8(operation.count + 6), 2, 4, 0x7F, 0xFF, 0xFF, 0xFF] + operation
    let talk = heard(other)
    #expect(talk.next == .beginTLS && talk.said.starts(with: [0x30, 39, 2, 4, 0x7F, 0xFF, 0xFF, 0xFF, 0x78]))
  }

  @Test func `an id is sent back in the fewest octets`() {
    for (id, octets): ([UInt8], [UInt8]) in [
      ([2, 1, 127], [2, 1, 127]), ([2, 2, 0, 1], [2, 1, 1]), ([2, 2, 0, 128], [2, 2, 0, 128]),
      ([2, 3, 1, 0, 0], [2, 3, 1, 0, 0]), ([2, 4, 0, 0x80, 0, 0], [2, 4, 0, 0x80, 0, 0]),
    ] {
      let talk = heard(BER.element(0x30, id, [0x4A, 1, 0x61]))
      #expect(talk.said.dropFirst(2).starts(with: octets) && talk.next == .more)
    }
  }

  @Test(
    arguments: [
      (0x60, 0x61), (0x63, 0x65), (0x66, 0x67), (0x68, 0x69), (0x4A, 0x6B), (0x6C, 0x6D), (0x6E, 0x6F), (0x77, 0x78),
    ] as [(UInt8, UInt8)])
  func `each other request gets its own kind of response, and the session goes on`(request: UInt8, response: UInt8) {
    let contents = request == 0x77 ? BER.element(0x80, Array("1.3.6.1.4.1.4203.1.11.3".utf8)) : [4, 1, 0x61]
    let talk = heard(BER.message(9, BER.element(request, contents)))
    #expect(talk.said == BER.result(9, response, 13, "TLS is required: use StartTLS first"))
    #expect(talk.next == .more && talk.socket.isEmpty)
    #expect(talk.hearing(BER.startTLS(10)).next == .beginTLS)
  }

  @Test func `a request may have controls`() {
    let controls = BER.element(0xA0, BER.element(0x30, BER.element(0x04, Array("1.2.3".utf8))))
    let message = BER.element(0x30, [2, 1, 5], BER.element(0x77, BER.element(0x80, Array(Self.oid.utf8))), controls)
    #expect(heard(message).next == .beginTLS)
  }

  @Test func `StartTLS with a value is refused, and the session goes on`() {
    let request = BER.message(3, BER.element(0x77, BER.element(0x80, Array(Self.oid.utf8)), BER.element(0x81, [1])))
    let talk = heard(request)
    #expect(talk.said == BER.result(3, 0x78, 2, "StartTLS has no requestValue", name: Self.oid))
    #expect(talk.next == .more)
  }

  @Test func `an unbind ends the session without a word, and an abandon has no response`() {
    let talk = heard(BER.message(2, [0x42, 0]))
    #expect(talk.said.isEmpty && talk.reason == "the client ended the session before TLS")
    let other = heard(BER.message(2, [0x50, 1, 1]))
    #expect(other.said.isEmpty && other.next == .more && other.socket.isEmpty)
  }

  @Test func `after 20 messages, the next one ends the session`() {
    let talk = heard((1...20).flatMap { BER.simpleBind($0) })
    #expect(talk.next == .more)
    let more = talk.hearing(BER.startTLS(21))
    #expect(more.said == talk.said + Self.notice(52, "too many messages before TLS"))
    #expect(more.reason == "the client sent more than 20 messages before TLS")
  }

  @Test(
    arguments: [
      [0x31], [0x16], [0x47], [0x30, 0x80], [0x30, 0x85], [0x30, 0xFF],
      // No id; an id that is no INTEGER, empty, negative, above 2^31 - 1 or of five octets.
      [0x30, 0], [0x30, 2, 4, 0], [0x30, 5, 0x0A, 1, 1, 0x42, 0], [0x30, 4, 2, 0, 0x42, 0],
      [0x30, 5, 2, 1, 0x80, 0x42, 0],
      [0x30, 8, 2, 4, 0x80, 0, 0, 0, 0x42, 0], [0x30, 9, 2, 5, 0, 0, 0, 0, 1, 0x42, 0],
      // No operation; one that is longer than the message, of indefinite length, or with an identifier of two octets.
      [0x30, 3, 2, 1, 1], [0x30, 5, 2, 1, 1, 0x42, 1], [0x30, 7, 2, 1, 1, 0x60, 0x80, 0, 0],
      [0x30, 6, 2, 1, 1, 0x7F, 0x20, 0],
      // Something else than controls, and something behind them.
      [0x30, 7, 2, 1, 1, 0x42, 0, 4, 0], [0x30, 9, 2, 1, 1, 0x42, 0, 0xA0, 0, 4, 0],
      // Extended requests without a name, or with another field than its value.
      [0x30, 5, 2, 1, 1, 0x77, 0], [0x30, 7, 2, 1, 1, 0x77, 2, 0x81, 0], [0x30, 9, 2, 1, 1, 0x77, 4, 0x80, 0, 0x82, 0],
      [0x30, 11, 2, 1, 1, 0x77, 6, 0x80, 0, 0x81, 0, 0x81, 0],
    ] as [[UInt8]])
  func `what is malformed ends the session with a notice`(bytes: [UInt8]) {
    let talk = heard(bytes)
    #expect(talk.said == Self.notice(2, "a malformed message"))
    #expect(talk.reason == "the client sent a malformed LDAP message before TLS" && talk.socket.isEmpty)
  }

  @Test func `responses, unknown operations and an id of 0 end the session with a notice`() {
    for operation: UInt8 in [0x61, 0x78, 0x64, 0x73, 0x79, 0x40, 0x02] {
      let talk = heard(BER.message(1, [operation, 0]))
      #expect(talk.said == Self.notice(2, "an unknown operation"))
      #expect(talk.reason == "the client sent an unknown LDAP operation before TLS")
    }
    #expect(heard(BER.startTLS(0)).said == Self.notice(2, "a request with messageID 0"))
  }

  @Test func `a message has 64 KiB at most, with its head`() {
    let most = BER.message(1, BER.element(0x60, [UInt8](repeating: 0, count: 65_536 - 4 - 3 - 4)))
    #expect(most.count == 65_536)
    #expect(heard(most).said == BER.result(1, 0x61, 13, "TLS is required: use StartTLS first"))
    #expect(heard(most.dropLast()).next == .more)
    // 65,533 bytes and their head of 4; longer ones.
    for head: [UInt8] in [[0x30, 0x82, 0xFF, 0xFD], [0x30, 0x83, 1, 0, 0], [0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF]] {
      let talk = heard(head)
      #expect(talk.said == Self.notice(2, "a message that is too large"))
      #expect(talk.reason == "the client sent an LDAP message of more than 65536 bytes before TLS")
    }
    #expect(heard([0x30, 0x82, 0xFF, 0xFC]).next == .more)
  }
}
