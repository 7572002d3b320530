import Patterns
package import Traffic

/// The search for the location of a path, among settings: as `LocationTree` makes it among live locations.
package struct PathSearch {
  package enum Result {
    case location(LocationSettings)
    /// The client is sent to the path with a slash at its end.
    case redirect
    /// What stands outside locations.
    case none
    /// A pattern gave up.
    case undecided
  }

  private let scratch = RegularExpression.Scratch()

  package init() {}

  package func find(_ path: [UInt8], in locations: [LocationSettings]) -> Result {
    for location in locations { if case .exact(path) = location.match { return .location(location) } }
    if isSlashed(path, locations) { return .redirect }
    var best: LocationSettings?
    var (length, isFinal) = (-1, false)
    for location in locations {
      switch location.match {
      case .prefix(let prefix) where prefix.count > length && path.starts(with: prefix):
        (best, length, isFinal) = (location, prefix.count, false)
      case .prefixNoRegex(let prefix) where prefix.count > length && path.starts(with: prefix):
        (best, length, isFinal) = (location, prefix.count, true)
      default: break
      }
    }
    if let outer = best, !outer.locations.isEmpty {
      switch find(path, in: outer.locations) {
      case .none: break
      case .location(let inner):
        // A regular expression or an exact path of the inner level decides.
        switch inner.match {
        case .exact, .regex: return .location(inner)
        case .prefix, .prefixNoRegex, .named: best = inner
        }
      case let decided: return decided
      }
    }
    if !isFinal {
      for location in locations {
        guard case .regex(let pattern, _) = location.match else { continue }
        var captures = Captures()
        switch path.withUnsafeBytes({ pattern.match($0, scratch: scratch, into: &captures) }) {
        case .noMatch: continue
        case .limit: return .undecided
        case .match:
          guard !location.locations.isEmpty else { return .location(location) }
          switch find(path, in: location.locations) {
          case .none: return .location(location)
          case let decided: return decided
          }
        }
      }
    }
    return best.map { .location($0) } ?? .none
  }

  /// Paths by which a request comes to a location without a detour; none if none is found.
  func samples(of location: LocationSettings, in root: LocationSettings) -> [String] {
    let candidates: [String]
    switch location.match {
    case .exact(let path): candidates = [String(decoding: path, as: UTF8.self)]
    case .prefix(let path), .prefixNoRegex(let path):
      let text = String(decoding: path, as: UTF8.self)
      candidates =
        text.isEmpty ? ["/", "/way-witness"] : [text, text + "way-witness", text + "/way-witness", text + "7"]
    case .regex(let pattern, _):
      let text = pattern.witness { path in
        guard path.first == 0x2F, case .location(let found) = find(path, in: root.locations) else { return false }
        return found === location
      }
      candidates = text.map { [String(decoding: $0, as: UTF8.self)] } ?? []
    case .named: return []
    }
    return candidates.filter { path in
      switch find(Array(path.utf8), in: root.locations) {
      case .location(let found): found === location
      case .none: location === root
      case .redirect, .undecided: false
      }
    }
  }

  private func isSlashed(_ path: [UInt8], _ locations: [LocationSettings]) -> Bool {
    let prefixes = locations.compactMap { location -> (path: [UInt8], adds: Bool)? in
      switch location.match {
      case .prefix(let path), .prefixNoRegex(let path): (path, location.features.contains(where: \.addsSlashes))
      case .exact, .regex, .named: nil
      }
    }
    return prefixes.contains { prefix in
      prefix.adds && prefix.path.count == path.count + 1 && prefix.path.count > 1 && prefix.path.last == 0x2F
        && prefix.path.starts(with: path) && !prefixes.contains { $0.path == path }
    }
  }

  /// The locations that a path can have which begins with this text.
  package static func candidates(_ text: [UInt8], in locations: [LocationSettings]) -> [LocationSettings] {
    locations.flatMap { location -> [LocationSettings] in
      let inner = candidates(text, in: location.locations)
      switch location.match {
      case .prefix(let path), .prefixNoRegex(let path):
        return path.starts(with: text) || text.starts(with: path) ? [location] + inner : inner
      case .exact(let path): return path.starts(with: text) ? [location] + inner : inner
      case .regex: return [location] + inner
      case .named: return inner
      }
    }
  }
}
