import Bytes
import HTTP

/// The parts of a request that the application uses, copied from its head.
struct DemoRequest {
  let method: String
  let target: String
  /// The path's segments without empty ones.
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

  /// Returns the value of the first field with this name, case-insensitively; nil when the value is empty.
  func field(_ name: String) -> String? {
    let name = name.lowercased()
    return fields.first { $0.name.lowercased() == name }.flatMap { $0.value.isEmpty ? nil : $0.value }
  }

  var wantsPage: Bool { field("Accept")?.lowercased().contains("text/html") ?? false }

  /// The key of a WebSocket handshake (RFC 6455 §4.1); nil for any other request.
  var webSocketKey: String? { upgrades && field("Sec-WebSocket-Version") == "13" ? field("Sec-WebSocket-Key") : nil }
}
