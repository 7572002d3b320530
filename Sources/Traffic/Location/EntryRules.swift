/// What a feature says of who may enter a location. Equal texts admit the same clients.
package struct EntryRule: Sendable, Hashable {
  package enum Effect: Sendable, Hashable {
    /// It keeps nobody out by itself, and changes what others do: `satisfy`.
    case none
    case judges
    /// It can't be asked about another request than the one that comes: a signature is valid once.
    case refusesOthers
  }

  package var text: String
  package var effect: Effect = .judges
  /// Whether it holds where no location is found, too: not if it refuses before a location is sought.
  package var holdsOutsideLocations = true

  package init(text: String, effect: Effect = .judges, holdsOutsideLocations: Bool = true) {
    self.text = text
    self.effect = effect
    self.holdsOutsideLocations = holdsOutsideLocations
  }
}

/// Who may enter one location.
package struct EntryRules: Sendable, Hashable {
  package let rules: [EntryRule]

  /// `isOfServer`: what stands outside locations.
  package init(of location: LocationSettings, isOfServer: Bool = false) {
    var rules = location.features.compactMap(\.entryRule).filter { !isOfServer || $0.holdsOutsideLocations }
    if location.isInternal { rules.append(EntryRule(text: "internal redirects alone")) }
    self.rules = rules
  }

  /// Whether they can keep somebody out.
  package var canRefuse: Bool { rules.contains { $0.effect != .none } }
  package var refusesOthers: Bool { rules.contains { $0.effect == .refusesOthers } }
  /// For a rule about rules: equal texts admit the same clients.
  package var text: String { rules.map(\.text).joined(separator: "; ") }
}
