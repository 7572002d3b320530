package import Observability

/// One word of a statement, nginx's parameter: its text with escapes resolved, and its place.
package struct Word: Sendable, Hashable {
  package var text: String
  package var location: SourceLocation
  /// Whether the word was in quotes: `""` is a word, and a quoted `{` is text.
  package var quoted: Bool

  package init(_ text: String, at location: SourceLocation, quoted: Bool = false) {
    self.text = text
    self.location = location
    self.quoted = quoted
  }
}

/// A statement of the configuration language: a simple directive, or a directive with a block.
package struct Directive: Sendable, Hashable {
  package var name: String
  package var arguments: [Word]
  /// The directives of the block; nil for a directive that ends in `;`.
  package var block: [Directive]?
  /// The place of the directive's name.
  package var location: SourceLocation

  package init(name: String, arguments: [Word], block: [Directive]?, location: SourceLocation) {
    self.name = name
    self.arguments = arguments
    self.block = block
    self.location = location
  }
}
