import Observability
import Traffic

/// The ways of a configuration that ask for less than those of an older one: each that no older way to the same content,
/// by the same listener, names and location, asks for as little on.
package struct WeakerWays {
  package struct Weaker {
    package let way: Way
    /// What an older way asks for or promises beside it; empty: there was no such way.
    package let missing: [String]
  }

  package private(set) var found: [Weaker] = []
  private let http: HTTPSettings

  package init(_ new: Ways, than old: Ways) {
    http = new.http
    var former: [String: [Set<String>]] = [:]
    for way in old.all {
      let promises = Self.promises(way, old)
      former[Self.key(way, old.http), default: []].append(promises)
      // Whoever gets the response could as well have gotten nothing of it.
      if !way.isSubrequest { former[Self.key(way, old.http, isSubrequest: true), default: []].append(promises) }
    }
    for way in new.all where way.openness < .nobody {
      let own = Self.promises(way, new)
      guard let older = former[Self.key(way, new.http)] else {
        found.append(Weaker(way: way, missing: []))
        continue
      }
      if older.contains(where: { $0.isSubset(of: own) }) { continue }
      let nearest = older.min { $0.subtracting(own).count < $1.subtracting(own).count } ?? []
      found.append(Weaker(way: way, missing: nearest.subtracting(own).sorted()))
    }
  }

  /// `isSubrequest`: nil: as the way has it.
  private static func key(_ way: Way, _ http: HTTPSettings, isSubrequest: Bool? = nil) -> String {
    let listener = http.listeners[way.listener], server = http.servers[way.server]
    let isDefault = listener.defaultServer == way.server
    return [
      "\(listener.address)", "\(listener.isTLS)", server.names.map(\.asWritten).joined(separator: " "), "\(isDefault)",
      way.location.match.asWritten, way.content.stem, "\(isSubrequest ?? way.isSubrequest)",
      "\(way.entry == .admitted)",
    ].joined(separator: "\n")
  }

  /// What a way asks of its clients, and what it promises to the upstream.
  private static func promises(_ way: Way, _ ways: Ways) -> Set<String> {
    // What nobody must have is no promise.
    var promises = Set(way.gates.flatMap(\.words).filter { !$0.hasPrefix(AccessGate.asksNothing) })
    promises.formUnion(ways.told(by: way).map { "tells \($0)" })
    guard way.content.kind == .upstream else { return promises }
    let server = ways.http.servers[way.server]
    if server.head.mergesSlashes { promises.insert("several slashes are one") }
    let readings = way.location.ways.judgedReadings?.split(separator: " ") ?? []
    promises.formUnion(readings.map { "judges the reading \($0)" })
    return promises
  }

  package var lines: [String] {
    found.flatMap { weaker -> [String] in
      let way = weaker.way, listener = http.listeners[way.listener]
      let match = way.location.match.asWritten
      let head =
        "\(way.content.words), by \(listener.address) and location \(match.isEmpty ? "(the server itself)" : match)"
        + "  \(way.location.location): \(way.openness.words)"
      let missing = weaker.missing.isEmpty ? ["a new way"] : weaker.missing.map { "without: \($0)" }
      return [head] + missing.map { "  \($0)" }
    }.map { LogEscape.visible($0) }
  }
}

extension Ways {
  /// Every way, by destination.
  package var all: [Way] { destinations.flatMap { $0.ways.map(\.way) } }
}
