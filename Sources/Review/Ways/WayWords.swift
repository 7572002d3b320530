import Observability
import Traffic

/// What a way is called, for a person.
struct WayWords {
  let http: HTTPSettings

  /// `0.0.0.0:443 ssl`
  func listener(_ way: Way) -> String {
    let listener = http.listeners[way.listener]
    let words = [listener.isTLS ? " ssl" : "", listener.expectsProxyHeader ? " proxy_protocol" : ""].joined()
    return "\(listener.address)\(words)\(listener.kind == .stream ? " (stream)" : "")"
  }

  /// How requests find the server block at the listener.
  func names(_ way: Way) -> String {
    let listener = http.listeners[way.listener], server = http.servers[way.server]
    // A session passed it to the listener of another block.
    guard listener.servers.contains(way.server) else { return "passed on" }
    let names = server.names.map(\.asWritten).filter { !$0.isEmpty }
    if listener.servers.count == 1 {
      return names.isEmpty ? "any name" : "\(names.joined(separator: " ")) and any other name"
    }
    let isDefault = listener.defaultServer == way.server
    switch (names.isEmpty, isDefault) {
    case (true, true): return "any name of no other server, or none (default_server)"
    case (true, false): return "requests without a Host"
    case (false, true):
      return "\(names.joined(separator: " ")), and any name of no other server, or none (default_server)"
    case (false, false): return names.joined(separator: " ")
    }
  }

  /// The listeners of some ways of one server block, and how requests find the block there.
  func doors(_ ways: [Way]) -> String {
    guard let first = ways.first else { return "" }
    var seen: Set<String> = []
    let listeners = ways.map(listener).filter { seen.insert($0).inserted }
    return "\(listeners.joined(separator: " and ")), \(names(first))  \(http.servers[first.server].location)"
  }

  static func text(_ hop: Way.Hop) -> String { hop.words + (hop.place.map { "  \($0)" } ?? "") }

  static func location(_ way: Way) -> String {
    let match = way.location.match.asWritten
    return "\(match.isEmpty ? "(the server itself)" : match)  \(way.location.location)"
  }
}

extension Sequence {
  /// The elements by a key, in the order in which the first of each came.
  func gathered<Key: Hashable>(by key: (Element) -> Key) -> [[Element]] {
    var order: [Key: Int] = [:]
    var groups: [[Element]] = []
    for element in self {
      let key = key(element)
      if let index = order[key] {
        groups[index].append(element)
      } else {
        order[key] = groups.count
        groups.append([element])
      }
    }
    return groups
  }
}
