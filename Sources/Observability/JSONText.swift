import Bytes

/// Writes JSON (RFC 8259), compact, in the order of calls.
package struct JSONText {
  package private(set) var text = ""
  private var isFirst = true

  package init() {}

  private mutating func separate() {
    if !isFirst { text += "," }
    isFirst = false
  }

  package mutating func value(_ value: String) {
    separate()
    text += Self.quoted(value)
  }

  package mutating func value(_ value: Int64) {
    separate()
    text += "\(value)"
  }

  package mutating func object(_ body: (inout JSONText) -> Void) {
    separate()
    text += "{"
    isFirst = true
    body(&self)
    text += "}"
    isFirst = false
  }

  /// Appends an array without a name, as a whole text.
  package mutating func array<Element>(_ elements: [Element], _ body: (Element, inout JSONText) -> Void) {
    separate()
    text += "["
    isFirst = true
    for element in elements { body(element, &self) }
    text += "]"
    isFirst = false
  }

  package mutating func array<Element>(
    _ name: String, _ elements: [Element], _ body: (Element, inout JSONText) -> Void
  ) {
    key(name)
    isFirst = true
    array(elements, body)
  }

  package mutating func member(_ name: String, _ value: String?) {
    key(name)
    text += value.map(Self.quoted) ?? "null"
  }

  /// Appends null for nil.
  package mutating func member(_ name: String, _ value: Int64?) {
    key(name)
    text += value.map { "\($0)" } ?? "null"
  }

  package mutating func member(_ name: String, _ value: Int?) {
    key(name)
    text += value.map { "\($0)" } ?? "null"
  }

  package mutating func object(_ name: String, _ body: (inout JSONText) -> Void) {
    key(name)
    isFirst = true
    object(body)
  }

  package mutating func member(_ name: String, _ value: Bool) {
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
