/// What an audit log tells of, before it has its place in the chain.
package struct AuditEvent: Sendable, Equatable {
  package enum Kind: String, Sendable, CaseIterable {
    /// A process begins to write, with the configuration that it serves.
    case start
    /// A process has written its last line.
    case stop
    /// Another generation serves.
    case reload
    /// A handshake has let a client in, or refuses its requests.
    case admission
    /// A handshake, a request or a session of `stream` was refused for its client.
    case refusal
    /// A request, a session or a connection has ended, because its client is let in no more.
    case revocation
    /// The API has changed something.
    case change
    /// Events that found no room were not written.
    case lost
    /// The line before was cut by the end of its process.
    case recovered
    /// The last line of a file that was moved away.
    case rotate
    /// The first line of the file that goes on after it.
    case resume
    /// A signature of all lines before.
    case signature
  }

  package enum Value: Sendable, Equatable {
    case text(String)
    case number(Int64)
    case flag(Bool)
  }

  package struct Member: Sendable, Equatable {
    let name: String
    let value: Value
  }

  package let kind: Kind
  /// Milliseconds since 1970.
  package let moment: Int64
  package private(set) var members: [Member] = []

  /// The octets of a text that a line has: clients write names as long as they like.
  static let longestText = 512

  package init(_ kind: Kind, at moment: Int64) {
    self.kind = kind
    self.moment = moment
  }

  /// Adds a text; nothing for nil.
  package mutating func add(_ name: String, _ text: String?) {
    guard let text else { return }
    let cut =
      text.utf8.count <= Self.longestText
      ? text : String(decoding: text.utf8.prefix(Self.longestText), as: UTF8.self) + "…"
    members.append(Member(name: name, value: .text(cut)))
  }

  package mutating func add(_ name: String, _ number: Int64) {
    members.append(Member(name: name, value: .number(number)))
  }

  package mutating func add(_ name: String, _ flag: Bool) { members.append(Member(name: name, value: .flag(flag))) }
}
