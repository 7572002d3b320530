import Forward
import Patterns
import Traffic

/// The locations of a server block whose entry rules differ. nil for the others: there, another reading of a path leads
/// nowhere that is guarded better.
final class WatchedPaths: ServerPart {
  private let rules: [ObjectIdentifier: EntryRules]
  /// Whether a path without capitals can have a location by case alone: a location has capitals.
  let hasCapitals: Bool

  init?(_ root: LocationSettings) {
    let locations = root.withNested
    guard locations.contains(where: { $0[PathReadingRules.self].map { !$0.readings.isEmpty } ?? false }) else {
      return nil
    }
    let rules = Dictionary(
      locations.map { (ObjectIdentifier($0), EntryRules(of: $0, isOfServer: $0 === root)) },
      uniquingKeysWith: { first, _ in first })
    // No path is in the server itself if a location takes them all.
    let takesAll = root.locations.contains { ["/", ""].contains($0.match.prefixText ?? "no") }
    let chosen = Set((Self.byPath(root) + (takesAll ? [] : [root])).compactMap { rules[ObjectIdentifier($0)] })
    guard chosen.count > 1, chosen.contains(where: \.canRefuse) else { return nil }
    self.rules = rules
    hasCapitals = locations.contains { Self.hasCapitals($0.match) }
  }

  /// The locations that paths choose, outer ones before those inside.
  private static func byPath(_ outer: LocationSettings) -> [LocationSettings] {
    outer.locations.flatMap { inner -> [LocationSettings] in
      if case .named = inner.match { return [] }
      return [inner] + byPath(inner)
    }
  }

  func rules(of location: LocationSettings) -> EntryRules? { rules[ObjectIdentifier(location)] }

  private static func hasCapitals(_ match: LocationMatch) -> Bool {
    func any(_ text: some Sequence<UInt8>) -> Bool { text.contains { $0 &- 65 < 26 } }
    switch match {
    case .prefix(let path), .prefixNoRegex(let path), .exact(let path): return any(path)
    case .named: return false
    case .regex(let pattern, _):
      if pattern.isCaseless { return false }
      // A letter behind a backslash is a class of bytes, or it begins a code, which may be that of a capital.
      var text = Array(pattern.pattern.utf8)[...]
      while let byte = text.popFirst() {
        if byte == 0x5C {
          guard let next = text.popFirst(), !"xopPcN0".utf8.contains(next) else { return true }
        } else if any([byte]) || byte == 0x5B && text.first == 0x3A {
          return true
        }
      }
      return false
    }
  }

  // MARK: Words

  /// For the policy that `check` prints: the locations that are guarded, each with those whose paths can be read as one of
  /// its own.
  static func pairs(_ root: LocationSettings) -> [(guarded: [LocationSettings], open: [LocationSettings])] {
    guard let watched = WatchedPaths(root) else { return [] }
    let level = byPath(root)
    var groups: [(rules: EntryRules, guarded: [LocationSettings])] = []
    for location in level {
      guard let rules = watched.rules(of: location), rules.canRefuse else { continue }
      if let index = groups.firstIndex(where: { $0.rules == rules }) {
        groups[index].guarded.append(location)
      } else {
        groups.append((rules, [location]))
      }
    }
    return groups.compactMap { group in
      let open = level.filter { location in
        let reads = location[PathReadingRules.self].map { !$0.readings.isEmpty } ?? false
        return reads && watched.rules(of: location) != group.rules
      }
      return open.isEmpty ? nil : (group.guarded, open)
    }
  }
}
