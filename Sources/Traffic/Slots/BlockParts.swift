/// What a feature reads from the lines of `http` and `stream`, outside servers and locations: zones, formats, tables, an
/// exporter. A plain value whose initial state is that of a configuration without such lines.
package protocol BlockPart: Sendable {
  init()
  /// A block ends: what only its own lines may refer to has no name in the other block.
  mutating func endBlock()
}

extension BlockPart {
  package mutating func endBlock() {}
}

/// The parts of all features, found by their types.
package struct BlockParts: Sendable {
  package init() {}
  private var parts: [ObjectIdentifier: any BlockPart] = [:]

  package subscript<Part: BlockPart>(_ kind: Part.Type) -> Part {
    get { parts[ObjectIdentifier(kind)] as? Part ?? Part() }
    // Taken out while it is changed: a table with 10,000 lines would be copied for each of them.
    _modify {
      var part = parts.removeValue(forKey: ObjectIdentifier(kind)) as? Part ?? Part()
      defer { parts[ObjectIdentifier(kind)] = part }
      yield &part
    }
  }

  package mutating func endBlock() { for key in parts.keys { parts[key]?.endBlock() } }
}

extension SettingsBuilder {
  /// What a feature has read of the blocks so far.
  package subscript<Part: BlockPart>(_ kind: Part.Type) -> Part {
    get { parts[kind] }
    _modify { yield &parts[kind] }
  }
}

extension HTTPSettings {
  /// What a feature has read of the blocks. For what is loaded, compiled or reported; requests ask what was compiled.
  package subscript<Part: BlockPart>(_ kind: Part.Type) -> Part { parts[kind] }
}
