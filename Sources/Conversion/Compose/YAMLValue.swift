/// A node of a YAML document, with the line where it begins.
package struct YAMLNode: Sendable, Equatable {
  package indirect enum Value: Sendable, Equatable {
    case empty
    case scalar(String)
    case sequence([YAMLNode])
    case mapping([Entry])
  }

  package struct Entry: Sendable, Equatable {
    package let key: String
    package let line: Int
    package let node: YAMLNode
  }

  package let value: Value
  package let line: Int

  package subscript(key: String) -> YAMLNode? {
    guard case .mapping(let entries) = value else { return nil }
    return entries.first { $0.key == key }?.node
  }

  package var entries: [Entry]? {
    switch value {
    case .mapping(let entries): entries
    case .empty: []
    default: nil
    }
  }

  package var text: String? {
    guard case .scalar(let text) = value else { return nil }
    return text
  }
}

/// What can't be read, and where.
package struct ComposeFault: Error, Sendable, Equatable, CustomStringConvertible {
  package let line: Int
  package let message: String
  package let hint: String

  package init(line: Int, _ message: String, hint: String) {
    self.line = line
    self.message = message
    self.hint = hint
  }

  package var description: String { "line \(line): \(message)\n    hint: \(hint)" }
}
