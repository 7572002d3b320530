import Testing

@testable import Negotiation

@Suite struct `PostgreSQL clients before TLS` {
  static let ssl: [UInt8] = [0, 0, 0, 8, 0x04, 0xD2, 0x16, 0x2F]
  static let gss: [UInt8] = [0, 0, 0, 8, 0x04, 0xD2, 0x16, 0x30]
  static let startup: [UInt8] = [0, 0, 0, 17, 0, 3, 0, 0] + Array("user\0me\0\0".utf8)

  static func cancel(key: Int) -> [UInt8] {
    let length = UInt16(12 + key)
    return [0, 0, UInt8(length >> 8), UInt8(length & 255), 0x04, 0xD2, 0x16, 0x2E, 0, 0, 0, 42]
      + (0..<key).map { UInt8(truncatingIfNeeded: $0) }
  }

  private func heard(_ bytes: [UInt8]) -> Talk<ClientNegotiation> { Talk(client: .postgres).hearing(bytes) }

  @Test func `nothing is said before the client has spoken`() {
    #expect(ClientNegotiation(.postgres, name: "a").greeting.isEmpty)
  }

  @Test func `an SSLRequest is granted, and TLS begins behind it`() {
    let talk = heard(Self.ssl)
    #expect(talk.text == "S" && talk.next == .beginTLS && talk.socket.isEmpty)
  }

  @Test func `bytes behind an SSLRequest end the connection without a word`() {
    for bytes in [Self.ssl + [0], Self.ssl + Self.startup, Self.ssl + [0x16, 3, 1], Self.ssl + Self.ssl] {
      let talk = heard(bytes)
      #expect(talk.said.isEmpty && talk.reason == ClientNegotiation.injection && talk.socket.isEmpty)
    }
  }

  @Test func `a GSSENCRequest is refused once, and an SSLRequest may follow`() {
    let talk = heard(Self.gss)
    #expect(talk.text == "N" && talk.next == .more && talk.socket.isEmpty)
    let granted = talk.hearing(Self.ssl)
    #expect(granted.text == "NS" && granted.next == .beginTLS)
    #expect(talk.hearing(Self.gss).reason == "the client asked for GSSAPI encryption twice")
    #expect(talk.hearing(Self.gss).text == "N")
    #expect(talk.hearing(Self.cancel(key: 4)).next == .cancel(request: Self.cancel(key: 4)))
    #expect(talk.hearing(Self.startup).reason == "the client began a session without TLS")
  }

  @Test func `bytes behind a GSSENCRequest end the connection, because its client must know the answer`() {
    let talk = heard(Self.gss + Self.ssl)
    #expect(talk.said.isEmpty && talk.reason == ClientNegotiation.injection)
  }

  @Test func `TLS without a request begins with the first byte, and only there`() {
    let talk = heard([0x16, 3, 1, 0, 5])
    #expect(talk.next == .beginTLSDirectly && talk.said.isEmpty && talk.socket == [0x16, 3, 1, 0, 5])
    #expect(heard(Self.gss).hearing([0x16]).reason == "the client's first message is none of PostgreSQL's")
  }

  @Test(arguments: [4, 5, 32, 255, 256])
  func `a CancelRequest is handed on as it is`(key: Int) {
    let request = Self.cancel(key: key)
    let talk = heard(request)
    #expect(talk.next == .cancel(request: request) && talk.said.isEmpty && talk.socket.isEmpty)
    #expect(heard(request.dropLast()).next == .more)
    #expect(heard(request + [0]).reason == ClientNegotiation.injection)
  }

  @Test(arguments: [0, 3, 257]) func `a CancelRequest with a key of another length is none`(key: Int) {
    let talk = heard(Self.cancel(key: key))
    #expect(talk.reason == "the client's first message is none of PostgreSQL's" && talk.said.isEmpty)
  }

  @Test func `a session without TLS is refused in PostgreSQL's words when its whole message has come`() {
    #expect(heard(Self.startup.dropLast()).next == .more)
    let talk = heard(Self.startup + [1, 2])
    #expect(talk.reason == "the client began a session without TLS" && talk.socket.isEmpty)
    let fields = "SFATAL\0VFATAL\0C28000\0Mconnection requires TLS: use sslmode=require or stronger\0\0"
    #expect(talk.said == [UInt8(ascii: "E"), 0, 0, 0, UInt8(fields.utf8.count + 4)] + Array(fields.utf8))
    // Protocol 3.2, and a version that only tests whether the server negotiates.
    for minor: [UInt8] in [[0, 2], [0x27, 0x0F]] {
      #expect(heard([0, 0, 0, 9, 0, 3] + minor + [0]).said == talk.said)
    }
  }

  @Test func `a length is bounded, and what isn't PostgreSQL ends at its first byte`() {
    #expect(heard([0, 0, 0x27, 0x14, 0, 3, 0, 0]).next == .more)
    for bytes: [UInt8] in [[0, 0, 0x27, 0x15], [0, 0, 0, 7], [0, 0, 0, 0], [0, 1, 0, 0], [0, 255, 255, 255]] {
      #expect(heard(bytes).reason == "the client's first message has an invalid length")
    }
    for bytes: [UInt8] in [
      [0x47], [0x80], [1], [255], [0, 0, 0, 8, 0, 2, 0, 0], [0, 0, 0, 9, 0x04, 0xD2, 0x16, 0x2F],
    ] {
      let talk = heard(bytes)
      #expect(talk.reason == "the client's first message is none of PostgreSQL's" && talk.said.isEmpty)
    }
  }
}
