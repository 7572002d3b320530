@testable import Negotiation

protocol Negotiating: Sendable {
  associatedtype Next: Sendable & Equatable
  static var waiting: Next { get }
  mutating func take(_ input: UnsafeRawBufferPointer) -> NegotiationStep<Next>
}

extension ClientNegotiation: Negotiating {
  static var waiting: Next { .more }
}

extension UpstreamNegotiation: Negotiating {
  static var waiting: Next { .more }
}

/// A negotiation, and the socket of its peer.
struct Talk<Machine: Negotiating>: Sendable {
  var machine: Machine
  /// What the negotiation has said.
  var said: [UInt8] = []
  /// What is in the socket.
  var socket: [UInt8] = []
  var next = Machine.waiting

  init(_ machine: Machine) { self.machine = machine }

  var text: String { String(decoding: said, as: UTF8.self) }

  /// Puts bytes into the socket, `size` at a time, and lets the negotiation see each piece, until it has ended. Bytes
  /// that come after that stay.
  func hearing(_ bytes: [UInt8], size: Int = .max) -> Talk {
    var talk = self
    var rest = bytes[...]
    while !rest.isEmpty {
      let piece = rest.prefix(size)
      rest = rest.dropFirst(piece.count)
      talk.socket += piece
      guard talk.next == Machine.waiting else { continue }
      let step = talk.socket.withUnsafeBytes { talk.machine.take($0) }
      talk.socket.removeFirst(step.consumed)
      talk.said += step.reply
      talk.next = step.next
    }
    return talk
  }

  func hearing(_ text: String, size: Int = .max) -> Talk { hearing(Array(text.utf8), size: size) }
}

extension Talk where Machine == ClientNegotiation {
  init(client kind: NegotiatedProtocol, name: String = "mail.example") {
    self.init(ClientNegotiation(kind, name: name))
  }

  var reason: String? {
    if case .end(let reason) = next { reason } else { nil }
  }
}

extension Talk where Machine == UpstreamNegotiation {
  init(upstream kind: NegotiatedProtocol, _ goal: UpstreamNegotiation.Goal = .tls) {
    self.init(UpstreamNegotiation(kind, goal: goal, name: "proxy.example"))
  }

  var reason: String? {
    if case .end(let reason) = next { reason } else { nil }
  }
}

/// BER, written by hand.
enum BER {
  static func element(_ identifier: UInt8, _ contents: [UInt8]...) -> [UInt8] {
    LDAPMessage.element(identifier, contents.flatMap { $0 })
  }

  /// A message with an id of one byte.
  static func message(_ id: UInt8, _ operation: [UInt8]) -> [UInt8] { element(0x30, [2, 1, id], operation) }

  static func startTLS(_ id: UInt8) -> [UInt8] {
    message(id, element(0x77, element(0x80, Array("1.3.6.1.4.1.1466.20037".utf8))))
  }

  /// A response with LDAPResult's fields.
  static func result(_ id: UInt8, _ operation: UInt8, _ code: UInt8, _ text: String, name: String? = nil) -> [UInt8] {
    let fields = element(0x0A, [code]) + element(0x04, []) + element(0x04, Array(text.utf8))
    return message(id, element(operation, fields + (name.map { element(0x8A, Array($0.utf8)) } ?? [])))
  }

  static func simpleBind(_ id: UInt8) -> [UInt8] {
    message(id, element(0x60, [2, 1, 3], element(0x04, Array("cn=a".utf8)), element(0x80, Array("secret".utf8))))
  }
}
