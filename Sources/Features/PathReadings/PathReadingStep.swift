import Bytes
import Forward
import HTTP
import Observability
import Patterns
import Traffic

/// One location that another reading of a request's path leads to, and that may refuse the client.
struct ReadingCandidate {
  let path: [UInt8]
  let location: LiveLocation
}

/// `path_readings`: the step after the access phase. The location of the path has admitted the client; now those of its other
/// readings must.
final class PathReadingStep: PhaseStep {
  private let readings: PathReadings
  private let watched: WatchedPaths
  /// Made with the first path that has another reading.
  private var tree: ReadingTree?

  init(_ readings: PathReadings, _ watched: WatchedPaths) {
    self.readings = readings
    self.watched = watched
  }

  override var words: String { "path_readings" }

  override func run(_ exchange: Exchange) -> StepOutcome {
    if exchange.target.hasAdmittedReadings { return .next }
    var sources = Self.sources(of: exchange)
    var found: PathReadings = []
    if sources.hasRaw {
      found.formUnion(readings.possible(for: .raw(exchange.head.bytes.readable[exchange.head.target.path])))
    }
    // Without a rewrite, the decoded path comes of the raw one, of which the escapes have been looked at.
    if sources.hasDecoded, !found.isEmpty || exchange.target.isRewritten || !sources.hasRaw {
      found.formUnion(readings.possible(for: .decoded(exchange.target.uri.readable)))
    }
    if watched.hasCapitals { found.formUnion(readings.intersection(.case)) }
    if found.isEmpty { return .next }
    // Such a path has no escape that hides anything, so that the decoded one says all.
    if found == .case, sources.hasDecoded, !exchange.target.isRewritten { sources.hasRaw = false }
    return judge(exchange, sources, found)
  }

  /// The texts of the path that upstreams can get: the client's own, unless a redirect has replaced it; the decoded one, of
  /// which `proxy_pass` with a URI and a rewritten request make theirs. After `rewrite … break`, the configuration says
  /// itself which path the location sends, and no location was found by that.
  private static func sources(of exchange: Exchange) -> (hasRaw: Bool, hasDecoded: Bool) {
    (exchange.redirection != .path, !exchange.target.hasLeftLocation)
  }

  @inline(never)
  private func judge(
    _ exchange: Exchange, _ sources: (hasRaw: Bool, hasDecoded: Bool), _ found: PathReadings
  ) -> StepOutcome {
    var candidates: [ReadingCandidate] = []
    if sources.hasRaw {
      let path = exchange.head.bytes.readable[exchange.head.target.path]
      if let refusal = add(.raw(path), found, exchange, to: &candidates) { return .fail(refusal) }
    }
    if sources.hasDecoded {
      let path = exchange.target.uri.readable
      if let refusal = add(.decoded(path), found, exchange, to: &candidates) { return .fail(refusal) }
    }
    return ReadingProbe.judge(candidates[...], of: exchange)
  }

  /// Adds the locations of the other readings of one text. Returns the refusal if that is clear already.
  private func add(
    _ source: ReadPath, _ found: PathReadings, _ exchange: Exchange, to candidates: inout [ReadingCandidate]
  ) -> ErrorResponse? {
    let merges = exchange.server.settings.head.mergesSlashes
    let foldsCase = found.contains(.case)
    guard let paths = found.readings(of: source, mergesSlashes: merges) else {
      exchange.log(.error, "access forbidden: the path has more other readings than are looked up (path_readings)")
      return ErrorResponse(403)
    }
    let tree = tree(for: exchange)
    var plain = ByteBuffer()
    switch source {
    case .raw(let path): if !TargetPath.normalize(path: path, mergeSlashes: merges, into: &plain) { return nil }
    case .decoded(let path): plain.append(path)
    }
    var captures = Captures()
    let base: LiveLocation? =
      switch exchange.server.locations.find(
        plain.readable, captures: &captures, scratch: exchange.worker.patternScratch)
      {
      case .location(let location), .pattern(let location, _, _), .redirect(let location): location
      case .none: exchange.server.root
      case .undecided: nil
      }
    let own = [base, exchange.location].compactMap { $0 }
    let ownRules = own.map { watched.rules(of: $0.settings) }
    for path in paths {
      let spelled = foldsCase ? PathReadings.folded(path) : path
      for choice in 0..<tree.choices {
        let location: LiveLocation
        switch tree.find(spelled, choice: choice, scratch: exchange.worker.patternScratch) {
        case .location(let found): location = found
        case .nowhere: location = exchange.server.root
        case .undecided(let pattern):
          exchange.log(.error, "the regular expression \"\(pattern.pattern)\" gave up on another reading of this path")
          return ErrorResponse(500)
        }
        if own.contains(where: { $0 === location }) { continue }
        guard let rules = watched.rules(of: location.settings), rules.canRefuse, !ownRules.contains(rules) else {
          continue
        }
        if candidates.contains(where: { $0.location === location }) { continue }
        let candidate = ReadingCandidate(path: path, location: location)
        let isClosed =
          rules.refusesOthers
          || location.settings.isInternal && exchange.redirection == .none && !exchange.target.isInternal
        if isClosed { return Self.refuse(candidate, exchange) }
        candidates.append(candidate)
      }
    }
    return nil
  }

  private func tree(for exchange: Exchange) -> ReadingTree {
    if let tree { return tree }
    let tree = ReadingTree(exchange.server.locations.all, foldsCase: readings.contains(.case))
    self.tree = tree
    return tree
  }

  static func refuse(_ candidate: ReadingCandidate, _ exchange: Exchange) -> ErrorResponse {
    let path = LogEscape.text(Array(exchange.head.bytes.readable[exchange.head.target.path]))
    exchange.log(
      .error,
      "access forbidden: \"\(path)\" can be read as \"\(LogEscape.text(candidate.path))\", and"
        + " \(candidate.location.settings.place) refuses this client (path_readings)")
    return ErrorResponse(403)
  }
}

extension LocationSettings {
  /// `location /admin/`
  fileprivate var place: String {
    let spelling = match.asWritten
    return spelling.isEmpty ? "the server itself" : "location \(spelling)"
  }
}
