import Observability
import Traffic

/// The ways of a configuration that ask for less than those of an older one: each that no older way to the same content,
/// by the same listener, name and location, asks for as little on.
package struct WeakerWays {
  package struct Weaker {
    package let way: Way
    /// What an older way asks for or promises beside it; empty: there was no such way.
    package let missing: [String]
    /// What the way lets somebody do that no older way does.
    package let added: [String]
  }

  /// What a way asks of its clients and promises to the upstream, and what it grants.
  private struct Terms {
    var promises: Set<String>
    var grants: Set<String>

    func holds(_ other: Terms) -> Bool { other.promises.isSubset(of: promises) && grants.isSubset(of: other.grants) }

    func distance(to other: Terms) -> Int {
      other.promises.subtracting(promises).count + grants.subtracting(other.grants).count
    }
  }

  package private(set) var found: [Weaker] = []
  private let http: HTTPSettings

  package init(_ new: Ways, than old: Ways) {
    http = new.http
    var former: [String: [Terms]] = [:]
    for way in old.all {
      let terms = Self.terms(way, old)
      former[Self.key(way, way.server, old.http), default: []].append(terms)
      // Whoever gets the response could as well have gotten nothing of it.
      if !way.isSubrequest {
        former[Self.key(way, way.server, old.http, isSubrequest: true), default: []].append(terms)
      }
    }
    for way in new.all where way.openness < .nobody {
      let own = Self.terms(way, new)
      let older = Self.formerServers(way, new.http, old.http).map { servers in
        servers.flatMap { former[Self.key(way, $0, new.http, old.http)] ?? [] }
      }
      // Each name must have had such a way.
      guard let open = older.first(where: { terms in !terms.contains { own.holds($0) } }) else { continue }
      let nearest = open.min { own.distance(to: $0) < own.distance(to: $1) }
      found.append(
        Weaker(
          way: way, missing: nearest.map { $0.promises.subtracting(own.promises).sorted() } ?? [],
          added: nearest.map { own.grants.subtracting($0.grants).sorted() } ?? []))
    }
    found = Way.Openness.allCases.flatMap { openness in found.filter { $0.way.openness == openness } }
  }

  /// `server`: by its place in the older configuration, if `older` is given. `isSubrequest`: nil: as the way has it.
  private static func key(
    _ way: Way, _ server: Int, _ http: HTTPSettings, _ older: HTTPSettings? = nil, isSubrequest: Bool? = nil
  ) -> String {
    let listener = http.listeners[way.listener]
    return [
      "\(listener.address)", "\(listener.isTLS)", "\((older ?? http).servers[server].location)",
      way.location.match.asWritten, way.content.stem, "\(isSubrequest ?? way.isSubrequest)",
      "\(way.entry == .admitted)",
    ].joined(separator: "\n")
  }

  /// The older server blocks that requests of the way came to, for each name of its server block; none for a name of which
  /// nobody can say it.
  private static func formerServers(_ way: Way, _ new: HTTPSettings, _ old: HTTPSettings) -> [[Int]] {
    let listener = new.listeners[way.listener], server = new.servers[way.server]
    guard
      let former = old.listeners.first(where: {
        $0.address == listener.address && $0.isTLS == listener.isTLS && $0.kind == listener.kind
      })
    else { return [[]] }
    // A session of another listener was passed here.
    guard listener.servers.contains(way.server) else {
      let names = server.names.map(\.asWritten)
      return [old.servers.indices.filter { old.servers[$0].names.map(\.asWritten) == names }]
    }
    var found = server.names.map { name -> [Int] in
      let written = name.asWritten
      if let same = former.servers.first(where: { old.servers[$0].names.contains { $0.asWritten == written } }) {
        return [same]
      }
      guard case .exact(let text) = name else { return former.servers.count == 1 ? [former.defaultServer] : [] }
      let patterns = former.servers.filter { old.servers[$0].names.contains { $0.mayMatch(text) } }
      return patterns.isEmpty ? [former.defaultServer] : patterns.count == 1 ? patterns : []
    }
    if listener.defaultServer == way.server { found.append([former.defaultServer]) }
    return found
  }

  private static func terms(_ way: Way, _ ways: Ways) -> Terms {
    var promises = Set(way.gates.flatMap(\.asks))
    promises.formUnion(ways.told(by: way).map { "tells \($0)" })
    var grants = Set(ways.written(by: way).map { "tells \($0), which a client may write" })
    grants.formUnion(way.location.ways.opens)
    let server = ways.http.servers[way.server], root = server.root.ways
    if way.gates.contains(where: { $0.conditions.contains { $0.kind == .address } }) {
      let whose = root.addressesSaidBy + way.location.ways.addressesSaidBy
      grants.formUnion(whose.map { "\($0) may say which address a client has" })
    }
    if way.openness >= .certificate {
      grants.formUnion(root.certificatesSaidBy.map { "\($0) may say which certificate a client has" })
    }
    guard way.content.kind == .upstream else { return Terms(promises: promises, grants: grants) }
    if server.head.mergesSlashes { promises.insert("several slashes are one") }
    let readings = way.location.ways.judgedReadings?.split(separator: " ") ?? []
    promises.formUnion(readings.map { "judges the reading \($0)" })
    return Terms(promises: promises, grants: grants)
  }

  /// Ways of one server block that lack the same are told together.
  package var lines: [String] {
    let words = WayWords(http: http)
    return found.gathered { weaker -> String in
      let way = weaker.way
      return "\(way.openness) \(way.server) \(words.names(way)) \(weaker.missing) \(weaker.added)"
    }.flatMap { group -> [String] in
      guard let first = group.first else { return [] }
      let way = first.way
      let contents = group.map { "  to        \($0.way.content.words) by location \(WayWords.location($0.way))" }
      let changes =
        first.missing.map { "  without   \($0)" } + first.added.map { "  added     \($0)" }
      return ["\(way.openness.words), by \(words.doors(group.map(\.way)))"]
        + contents.gathered { $0 }.compactMap(\.first) + (changes.isEmpty ? ["  a new way"] : changes)
    }.map { LogEscape.visible($0) }
  }
}

extension ServerName {
  /// Whether a name that isn't spelled so may be found by it.
  fileprivate func mayMatch(_ name: String) -> Bool {
    switch self {
    case .exact: false
    case .leadingWildcard(let suffix, let matchesBare): name.hasSuffix(suffix) || matchesBare && suffix == ".\(name)"
    case .trailingWildcard(let prefix): name.hasPrefix(prefix)
    case .regex: true
    }
  }
}

extension Ways {
  /// Every way, by destination.
  package var all: [Way] { destinations.flatMap { $0.ways.map(\.way) } }
}
