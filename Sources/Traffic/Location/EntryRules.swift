/// What a feature says of who may enter a location. Equal texts admit the same clients.
struct EntryRule: Sendable, Hashable {
  enum Effect: Sendable, Hashable {
    /// It keeps nobody out by itself, and changes what others do: `satisfy`.
    case none
    case judges
    /// It can't be asked about another request than the one that comes: a signature is valid once.
    case refusesOthers
  }

  var text: String
  var effect: Effect = .judges
  /// Whether it holds where no location is found, too: not if it refuses before a location is sought.
  var holdsOutsideLocations = true
}

/// Who may enter one location.
package struct EntryRules: Sendable, Hashable {
  let rules: [EntryRule]

  /// `isOfServer`: what stands outside locations.
  init(of location: LocationSettings, isOfServer: Bool = false) {
    var rules = location.features.compactMap(\.entryRule).filter { !isOfServer || $0.holdsOutsideLocations }
    if location.isInternal { rules.append(EntryRule(text: "internal redirects alone")) }
    self.rules = rules
  }

  /// Whether they can keep somebody out.
  package var canRefuse: Bool { rules.contains { $0.effect != .none } }
  var refusesOthers: Bool { rules.contains { $0.effect == .refusesOthers } }
  /// For a rule about rules: equal texts admit the same clients.
  var text: String { rules.map(\.text).joined(separator: "; ") }
}
