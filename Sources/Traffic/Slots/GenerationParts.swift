/// What the daemon has loaded for a feature before a generation begins: keys, tables, names. Immutable; a reload can't fail
/// once all parts are there.
package protocol GenerationPart: Sendable {
  /// The part of a configuration that names nothing to load.
  init()
}

/// The parts of all features, found by their types.
package struct GenerationParts: Sendable {
  private var parts: [ObjectIdentifier: any GenerationPart] = [:]
  package init() {}

  package subscript<Part: GenerationPart>(_ kind: Part.Type) -> Part {
    get { parts[ObjectIdentifier(kind)] as? Part ?? Part() }
    _modify {
      var part = parts.removeValue(forKey: ObjectIdentifier(kind)) as? Part ?? Part()
      defer { parts[ObjectIdentifier(kind)] = part }
      yield &part
    }
  }
}

extension Generation {
  /// What was loaded for a feature.
  package subscript<Part: GenerationPart>(_ kind: Part.Type) -> Part { parts[kind] }
}
