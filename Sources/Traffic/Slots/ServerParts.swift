/// What a feature makes of a server block of `http` when all its locations are read: which of them differ, say. Immutable; all
/// workers share it.
package protocol ServerPart: AnyObject, Sendable {
  /// nil: the server block has nothing of it.
  init?(_ root: LocationSettings)
}

/// The parts of all features, found by their types.
package struct ServerParts: Sendable {
  private var parts: [any ServerPart] = []
  package init() {}
  package init(_ features: FeatureDirectives, _ root: LocationSettings) {
    parts = features.serverParts.compactMap { $0.init(root) }
  }

  package subscript<Part: ServerPart>(_ kind: Part.Type) -> Part? {
    for part in parts { if let part = part as? Part { return part } }
    return nil
  }
}

extension ServerSettings {
  /// What a feature has made of the server block. For what is compiled or reported.
  package subscript<Part: ServerPart>(_ kind: Part.Type) -> Part? { parts[kind] }
}
