/// What a TLS client says first (RFC 8446 §4.1.2), as its bytes stand on the wire.
package struct ClientHello: Sendable {
  /// The code points offered, in order.
  package let suites: [UInt16]
  /// Of the extension supported_versions, in order.
  package let versions: [UInt16]
  /// SNI; nil where the extension is not sent.
  package let serverName: String?

  package static let renegotiationSignal: UInt16 = 0x00FF

  /// `handshake`: the message after its record header; nil for one that is cut or none.
  package init?(handshake: [UInt8]) {
    var message = Reader(handshake[...])
    guard message.number(1) == 1, let length = message.number(3), var body = message.take(length),
      body.take(2 + 32) != nil, let session = body.number(1), body.take(session) != nil,
      let suiteBytes = body.number(2), var offered = body.take(suiteBytes), let compressions = body.number(1),
      body.take(compressions) != nil, let extensionBytes = body.number(2), var extensions = body.take(extensionBytes)
    else { return nil }
    suites = offered.numbers()
    var versions: [UInt16] = []
    var name: String?
    while let kind = extensions.number(2), let size = extensions.number(2), var content = extensions.take(size) {
      switch kind {
      case 43:
        _ = content.number(1)
        versions = content.numbers()
      case 0:
        _ = content.take(3)
        name = content.number(2).flatMap { content.take($0) }.map { String(decoding: $0.bytes, as: UTF8.self) }
      default: break
      }
    }
    self.versions = versions
    serverName = name
  }

  private struct Reader {
    var bytes: ArraySlice<UInt8>
    init(_ bytes: ArraySlice<UInt8>) { self.bytes = bytes }

    mutating func take(_ count: Int) -> Reader? {
      guard count <= bytes.count else { return nil }
      defer { bytes = bytes.dropFirst(count) }
      return Reader(bytes.prefix(count))
    }

    mutating func number(_ width: Int) -> Int? { take(width)?.bytes.reduce(0) { $0 << 8 | Int($1) } }

    mutating func numbers() -> [UInt16] {
      var all: [UInt16] = []
      while let next = number(2) { all.append(UInt16(next)) }
      return all
    }
  }
}

extension ClientHello {
  /// The record of a ClientHello of TLS 1.3 that no library sends. `groups` and `shares`: by their code points (RFC 8446
  /// §4.2.7, §4.2.8).
  package static func record(
    serverName: String? = nil, groups: [UInt16], shares: [(group: UInt16, key: [UInt8])]
  ) -> [UInt8] {
    func number(_ value: UInt16) -> [UInt8] { [UInt8(value >> 8), UInt8(value & 0xFF)] }
    func block(_ bytes: [UInt8]) -> [UInt8] { number(UInt16(truncatingIfNeeded: bytes.count)) + bytes }
    func part(_ kind: UInt16, _ bytes: [UInt8]) -> [UInt8] { number(kind) + block(bytes) }
    let name = serverName.map { part(0, block([0] + block(Array($0.utf8)))) } ?? []
    let extensions =
      name + part(43, [2, 3, 4]) + part(10, block(groups.flatMap(number))) + part(13, block([4, 3, 8, 4, 4, 1]))
      + part(51, block(shares.flatMap { number($0.group) + block($0.key) }))
    let suites: [UInt8] = [0, 2, 0x13, 1]
    let body: [UInt8] = [3, 3] + [UInt8](repeating: 7, count: 32) + [0] + suites + [1, 0] + block(extensions)
    return [0x16, 3, 1] + block([1, 0] + block(body))
  }
}
