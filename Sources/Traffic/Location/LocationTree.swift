import Bytes
package import Patterns

/// The locations of one level, and the choice among them as nginx makes it.
///
/// An exact match wins; else the longest prefix is remembered, its own inner locations are asked, and the regular
/// expressions of the level are tried in order unless the prefix said `^~`.
package final class LocationTree {
  package let all: [LiveLocation]
  private let exact: [(path: [UInt8], location: LiveLocation)]
  /// Longest first.
  private let prefixes: [Prefix]
  /// Prefixes that end in a slash and pass on: a path that lacks just this slash is sent there (nginx's auto_redirect).
  private let slashed: [(path: [UInt8], location: LiveLocation)]
  private let patterns: [(pattern: RegularExpression, slots: [NamedCapture], location: LiveLocation)]
  private let named: [String: LiveLocation]

  package init(_ locations: [LiveLocation]) {
    var exact: [(path: [UInt8], location: LiveLocation)] = []
    var prefixes: [(path: [UInt8], location: LiveLocation, isFinal: Bool)] = []
    var patterns: [(pattern: RegularExpression, slots: [NamedCapture], location: LiveLocation)] = []
    var named: [String: LiveLocation] = [:]
    for location in locations {
      switch location.settings.match {
      case .exact(let path): exact.append((path, location))
      case .prefix(let path): prefixes.append((path, location, false))
      case .prefixNoRegex(let path): prefixes.append((path, location, true))
      case .regex(let pattern, let slots): patterns.append((pattern, slots, location))
      case .named(let name): named[name] = location
      }
    }
    self.all = locations
    self.exact = exact
    self.prefixes = prefixes.map { Prefix($0) }.sorted { $0.path.count > $1.path.count }
    self.slashed = prefixes.compactMap { path, location, _ in
      guard location.settings.features.contains(where: \.addsSlashes), path.count > 1, path.last == 0x2F else {
        return nil
      }
      // Another location matches the path without the slash.
      return prefixes.contains { $0.path == path.dropLast() } ? nil : (path, location)
    }
    self.patterns = patterns
    self.named = named
  }

  // A class, of which `borrowing` counts no reference while its path is compared.
  private final class Prefix {
    let path: [UInt8]
    let location: LiveLocation
    let isFinal: Bool

    init(_ prefix: (path: [UInt8], location: LiveLocation, isFinal: Bool)) {
      (path, location, isFinal) = prefix
    }
  }

  package enum Choice {
    case location(LiveLocation)
    /// The captures are the exchange's from now on.
    case pattern(LiveLocation, RegularExpression, [NamedCapture])
    /// To this location's path, which is the request's with a slash at its end.
    case redirect(LiveLocation)
    case none
    /// A regular expression reached its limit, so the location is unknown.
    case undecided(RegularExpression)
  }

  package func named(_ name: String) -> LiveLocation? { named[name] }

  package func find(_ path: UnsafeRawBufferPointer, captures: inout Captures, scratch: RegularExpression.Scratch)
    -> Choice
  {
    for entry in exact where path.equals(entry.path) { return .location(entry.location) }
    for entry in slashed where entry.path.count == path.count + 1 && path.equals(entry.path.dropLast()) {
      return .redirect(entry.location)
    }
    var best: LiveLocation?
    var isFinal = false
    // By index: an iterator would retain each entry.
    for index in prefixes.indices where borrowing(prefixes[index], { path.begins(with: $0.path) }) {
      best = prefixes[index].location
      isFinal = prefixes[index].isFinal
      break
    }
    if let outer = best, outer.hasInner {
      switch outer.inner.find(path, captures: &captures, scratch: scratch) {
      case .none: break
      case .location(let inner):
        if case .exact = inner.settings.match { return .location(inner) }
        // This level's own prefix, not the inner one, decides whether this level's regular expressions are tried.
        best = inner
      case let decided: return decided
      }
    }
    if !isFinal {
      for entry in patterns {
        switch entry.pattern.match(path, scratch: scratch, into: &captures) {
        case .match:
          guard entry.location.hasInner else { return .pattern(entry.location, entry.pattern, entry.slots) }
          let chosen: LiveLocation
          switch entry.location.inner.find(path, captures: &captures, scratch: scratch) {
          case .none: chosen = entry.location
          case .location(let inner): chosen = inner
          case let decided: return decided
          }
          // Inner regular expressions have overwritten the captures, so this one matches again for $1.
          _ = entry.pattern.match(path, scratch: scratch, into: &captures)
          return .pattern(chosen, entry.pattern, entry.slots)
        case .noMatch: continue
        case .limit: return .undecided(entry.pattern)
        }
      }
    }
    return best.map { .location($0) } ?? .none
  }
}

extension UnsafeRawBufferPointer {
  /// Equal byte for byte to an array, without a copy.
  @inline(__always)
  package func equals(_ bytes: [UInt8]) -> Bool {
    count == bytes.count && bytes.withUnsafeBytes { equals($0) }
  }

  @inline(__always)
  package func equals(_ bytes: ArraySlice<UInt8>) -> Bool {
    count == bytes.count && bytes.withUnsafeBytes { equals($0) }
  }

  @inline(__always)
  package func begins(with bytes: [UInt8]) -> Bool {
    count >= bytes.count && bytes.withUnsafeBytes { UnsafeRawBufferPointer(rebasing: self[..<$0.count]).equals($0) }
  }
}
