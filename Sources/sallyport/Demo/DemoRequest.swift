import Bytes
import HTTP

/// A request as the application sees it: what it needs of a head, copied out.
struct DemoRequest {
  let method: String
  let target: String
  /// The path's segments that are not empty.
  let parts: [String]
  let fields: [(name: String, value: String)]
  let framing: BodyFraming
  let expectsContinue: Bool
  let isHead: Bool
  private let upgrades: Bool

  init(_ head: RequestHead) {
    let bytes = head.bytes.readable
    func text(_ range: ByteRange) -> String { String(decoding: bytes[range], as: UTF8.self) }
    method = text(head.methodRange)
    target = text(head.target.raw)
    parts = text(head.target.path).split(separator: "/").map(String.init)
    fields = head.fields.map { (text($0.name), text($0.value)) }
    framing = head.framing
    expectsContinue = head.expectsContinue
    isHead = head.method == .head
    upgrades = head.upgrade.map { text($0).lowercased() == "websocket" } ?? false
  }

  /// The first of this name, letters folded; empty values are none.
  func field(_ name: String) -> String? {
    let name = name.lowercased()
    return fields.first { $0.name.lowercased() == name }.flatMap { $0.value.isEmpty ? nil : $0.value }
  }

  var wantsPage: Bool { field("Accept")?.lowercased().contains("text/html") ?? false }

  /// Of a WebSocket handshake (RFC 6455 §4.1); nil when it is none.
  var webSocketKey: String? { upgrades && field("Sec-WebSocket-Version") == "13" ? field("Sec-WebSocket-Key") : nil }
}
