import Bytes
import Observability

/// Writes JSON (RFC 8259), compact, in the order of calls.
struct JSONText {
  private(set) var text = ""
  private var isFirst = true

  private mutating func separate() {
    if !isFirst { text += "," }
    isFirst = false
  }

  mutating func value(_ value: String) {
    separate()
    text += Self.quoted(value)
  }

  mutating func object(_ body: (inout JSONText) -> Void) {
    separate()
    text += "{"
    isFirst = true
    body(&self)
    text += "}"
    isFirst = false
  }

  /// A whole text: an array without a name.
  mutating func array<Element>(_ elements: [Element], _ body: (Element, inout JSONText) -> Void) {
    separate()
    text += "["
    isFirst = true
    for element in elements { body(element, &self) }
    text += "]"
    isFirst = false
  }

  mutating func array<Element>(
    _ name: String, _ elements: [Element], _ body: (Element, inout JSONText) -> Void
  ) {
    key(name)
    isFirst = true
    array(elements, body)
  }

  mutating func member(_ name: String, _ value: String?) {
    key(name)
    text += value.map(Self.quoted) ?? "null"
  }

  mutating func member(_ name: String, _ value: Int64) {
    key(name)
    text += "\(value)"
  }

  mutating func member(_ name: String, _ value: Int?) {
    key(name)
    text += value.map { "\($0)" } ?? "null"
  }

  mutating func object(_ name: String, _ body: (inout JSONText) -> Void) {
    key(name)
    isFirst = true
    object(body)
  }

  mutating func member(_ name: String, _ value: Bool) {
    key(name)
    text += value ? "true" : "false"
  }

  private mutating func key(_ name: String) {
    separate()
    text += "\(Self.quoted(name)):"
  }

  private static func quoted(_ text: String) -> String {
    var bytes = ByteBuffer()
    Array(text.utf8).withUnsafeBytes { LogEscape.json($0, &bytes) }
    return "\"\(bytes.readable.text)\""
  }
}
