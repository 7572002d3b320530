import Forward
import HTTP
import Patterns
import Traffic

/// The locations of one level, for the search with another reading of a path. It finds what `LocationTree` finds, but may do
/// so without regard to case.
final class ReadingTree {
  private struct Entry {
    let path: [UInt8]
    let location: LiveLocation
    var isFinal = false
    var inner: ReadingTree?
  }

  private struct Pattern {
    let pattern: RegularExpression
    let location: LiveLocation
    let inner: ReadingTree?
  }

  private let exact: [Entry]
  /// Longest first.
  private let prefixes: [Entry]
  private let slashed: [Entry]
  private let patterns: [Pattern]
  /// How many choices there are where locations differ by case alone: each is a result of its own.
  let choices: Int

  init(_ locations: [LiveLocation], foldsCase: Bool) {
    func spelled(_ path: [UInt8]) -> [UInt8] { foldsCase ? PathReadings.folded(path) : path }
    func inner(_ location: LiveLocation) -> ReadingTree? {
      location.hasInner ? ReadingTree(location.inner.all, foldsCase: foldsCase) : nil
    }
    var exact: [Entry] = [], prefixes: [Entry] = [], patterns: [Pattern] = []
    for location in locations {
      switch location.settings.match {
      case .exact(let path): exact.append(Entry(path: spelled(path), location: location))
      case .prefix(let path):
        prefixes.append(Entry(path: spelled(path), location: location, inner: inner(location)))
      case .prefixNoRegex(let path):
        prefixes.append(Entry(path: spelled(path), location: location, isFinal: true, inner: inner(location)))
      case .regex(let pattern, _):
        // It has been compiled before, so it can be compiled again.
        let folded = foldsCase ? try? RegularExpression(pattern.pattern, caseless: true) : nil
        patterns.append(Pattern(pattern: folded ?? pattern, location: location, inner: inner(location)))
      case .named: break
      }
    }
    self.exact = exact
    self.prefixes = prefixes.sorted { $0.path.count > $1.path.count }
    slashed = prefixes.filter { entry in
      entry.location.settings[UpstreamPass.self] != nil && entry.path.count > 1 && entry.path.last == 0x2F
        && !prefixes.contains { $0.path == entry.path.dropLast() }
    }
    self.patterns = patterns
    func most(_ entries: [Entry]) -> Int {
      var counts: [[UInt8]: Int] = [:]
      for entry in entries { counts[entry.path, default: 0] += 1 }
      return counts.values.max() ?? 1
    }
    let deeper = prefixes.compactMap { $0.inner?.choices } + patterns.compactMap { $0.inner?.choices }
    choices = max(most(exact), most(prefixes)) * (deeper.max() ?? 1)
  }

  enum Found {
    case location(LiveLocation)
    case nowhere
    /// A regular expression reached its limit, so the location is unknown.
    case undecided(RegularExpression)
  }

  /// `choice`: below `choices`.
  func find(_ path: [UInt8], choice: Int, scratch: RegularExpression.Scratch) -> Found {
    if let (entry, _) = Self.pick(exact, choice, { $0.path == path }) { return .location(entry.location) }
    // The proxy would answer with a redirect; an upstream knows the location by this path as well.
    if let (entry, _) = Self.pick(slashed, choice, { $0.path.count == path.count + 1 && $0.path.starts(with: path) }) {
      return .location(entry.location)
    }
    var best: LiveLocation?
    var isFinal = false
    if let longest = prefixes.first(where: { path.starts(with: $0.path) }),
      let (entry, rest) = Self.pick(prefixes, choice, { $0.path == longest.path })
    {
      best = entry.location
      isFinal = entry.isFinal
      switch entry.inner?.find(path, choice: rest, scratch: scratch) {
      case nil, .nowhere?: break
      case .location(let inner)?:
        switch inner.settings.match {
        // This level's own prefix decides whether this level's regular expressions are tried.
        case .prefix, .prefixNoRegex: best = inner
        case .exact, .regex, .named: return .location(inner)
        }
      case .undecided(let pattern)?: return .undecided(pattern)
      }
    }
    if !isFinal {
      for entry in patterns {
        var captures = Captures()
        switch path.withUnsafeBytes({ entry.pattern.match($0, scratch: scratch, into: &captures) }) {
        case .match:
          switch entry.inner?.find(path, choice: choice, scratch: scratch) {
          case nil, .nowhere?: return .location(entry.location)
          case let found?: return found
          }
        case .noMatch: continue
        case .limit: return .undecided(entry.pattern)
        }
      }
    }
    return best.map { .location($0) } ?? .nowhere
  }

  /// One of the entries for which this holds, and what is left of the choice.
  private static func pick(_ entries: [Entry], _ choice: Int, _ holds: (Entry) -> Bool) -> (entry: Entry, rest: Int)? {
    var count = 0
    for entry in entries where holds(entry) { count += 1 }
    guard count > 0 else { return nil }
    var left = choice % count
    for entry in entries where holds(entry) {
      if left == 0 { return (entry, choice / count) }
      left -= 1
    }
    return nil
  }
}
