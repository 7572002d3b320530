import Traffic

/// Ways that ask for less than another way by which clients get to the same path of the same content.
///
/// A location without its rule, a listener without TLS, a default server without verification, and a line that sends the
/// upstream a guarded path from behind the rules have this in common. Where all ways ask for the same, there is none.
/// Beside them stand locations of paths of their own that ask for less than most others of the content: a rule that was
/// forgotten in one of many.
struct UnevenWays {
  struct Uneven {
    let way: Way
    let stricter: Way
    /// What the stricter way asks for, and the other one doesn't.
    let missing: [String]
  }

  /// The widest open first.
  private(set) var found: [Uneven] = []
  /// Those that ask for less than most other locations, of those that ask for no less than another way to the same path.
  private(set) var lesser: [Uneven] = []

  /// `ways`: those to one content.
  init(_ ways: [Way], _ http: HTTPSettings) {
    let paths = SentPaths(ways, http)
    var known: Set<String> = []
    let guards = ways.filter { way in
      way.hops.isEmpty && way.openness > .anybody && !way.gates.contains(where: \.isUnshowable)
        && known.insert("\(way.server) \(ObjectIdentifier(way.location)) \(way.asks)").inserted
    }.map { (way: $0, asks: Set($0.asks), path: paths.sample(of: $0)) }
    for way in ways where way.openness < .nobody && !way.isSubrequest {
      let asks = Set(way.asks)
      let stricter = guards.filter { other in
        (way.openness < other.way.openness || asks.isStrictSubset(of: other.asks))
          && paths.isReached(other.path, by: way)
      }.max {
        ($0.way.openness.rawValue, $0.asks.count) < ($1.way.openness.rawValue, $1.asks.count)
      }
      guard let stricter else { continue }
      found.append(Uneven(way: way, stricter: stricter.way, missing: stricter.way.asks.filter { !asks.contains($0) }))
    }
    // What leads from a listener and block that is open itself says nothing more.
    let open = Set(
      found.filter { $0.way.hops.isEmpty }.map { "\($0.way.listener) \($0.way.server) \($0.way.openness)" })
    found.removeAll {
      !$0.way.hops.isEmpty && $0.way.openness == .unknown
        && open.contains("\($0.way.listener) \($0.way.server) \(Way.Openness.anybody)")
    }
    compareLocations(ways)
  }

  private mutating func compareLocations(_ ways: [Way]) {
    let direct = ways.filter { $0.hops.isEmpty && $0.openness < .nobody }
    let all = direct.gathered { ObjectIdentifier($0.location) }.compactMap(\.first).map {
      (way: $0, asks: Set($0.asks))
    }
    for (way, asks) in all where !found.contains(where: { $0.way.location === way.location }) {
      let stricter = all.filter { asks.isStrictSubset(of: $0.asks) }
      guard stricter.count * 2 > all.count, let first = stricter.first else { continue }
      let common = stricter.reduce(first.asks) { $0.intersection($1.asks) }
      let missing = first.way.asks.filter { common.contains($0) && !asks.contains($0) }
      if !missing.isEmpty { lesser.append(Uneven(way: way, stricter: first.way, missing: missing)) }
    }
  }
}

extension Way {
  /// What the way asks of who a client is, in words.
  var asks: [String] { gates.filter { $0.openness > .anybody }.flatMap(\.asks) }
}
