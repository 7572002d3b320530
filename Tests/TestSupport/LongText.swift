import Testing

/// A text as an argument of a test, which logs name by its length if it is long.
package struct LongText: Sendable, CustomTestStringConvertible {
  package let text: String
  package init(_ text: String) { self.text = text }

  package var testDescription: String {
    text.utf8.count > 200 ? "\"\(text.prefix(40))…\" (\(text.utf8.count) bytes)" : text.debugDescription
  }
}
