package import Observability

/// One word of a statement: what nginx calls a parameter, with its place and its escapes resolved.
package struct Word: Sendable, Hashable {
  package var text: String
  package var location: SourceLocation
  /// Whether it stood in quotes: `""` is a word, and a quoted `{` is text.
  package var quoted: Bool

  package init(_ text: String, at location: SourceLocation, quoted: Bool = false) {
    self.text = text
    self.location = location
    self.quoted = quoted
  }
}

/// A statement of the configuration language: a simple directive, or one with a block.
package struct Directive: Sendable, Hashable {
  package var name: String
  package var arguments: [Word]
  /// None for a directive that ends in `;`.
  package var block: [Directive]?
  /// The place of the name.
  package var location: SourceLocation

  package init(name: String, arguments: [Word], block: [Directive]?, location: SourceLocation) {
    self.name = name
    self.arguments = arguments
    self.block = block
    self.location = location
  }
}
