import Forward
import Patterns
import Traffic

/// Ways that ask for less than another way by which clients get to the same path of the same content.
///
/// A location without its rule, a listener without TLS, a default server without verification, and a line that sends the
/// upstream a guarded path from behind the rules have this in common. Where all ways ask for the same, there is none.
struct UnevenWays {
  struct Uneven {
    let way: Way
    let stricter: Way
    /// What the stricter way asks for, and the other one doesn't.
    let missing: [String]
  }

  private let http: HTTPSettings
  private let paths = PathSearch()
  private var sentPaths: [ObjectIdentifier: [Template]] = [:]
  /// The widest open first.
  private(set) var found: [Uneven] = []

  /// `ways`: those to one content.
  init(_ ways: [Way], _ http: HTTPSettings) {
    self.http = http
    for way in ways { sentPaths[ObjectIdentifier(way.location)] = way.location.ways.sentPaths }
    var known: Set<String> = []
    let guards = ways.filter { way in
      way.hops.isEmpty && way.openness > .anybody
        && known.insert("\(way.server) \(ObjectIdentifier(way.location)) \(way.asks)").inserted
    }.map { (way: $0, asks: Set($0.asks), path: sample(of: $0)) }
    for way in ways where way.openness < .nobody && !way.isSubrequest {
      let asks = Set(way.asks)
      let stricter = guards.filter { other in
        (way.openness < other.way.openness || asks.isStrictSubset(of: other.asks)) && isReached(other.path, by: way)
      }.max {
        ($0.way.openness.rawValue, $0.asks.count) < ($1.way.openness.rawValue, $1.asks.count)
      }
      guard let stricter else { continue }
      found.append(Uneven(way: way, stricter: stricter.way, missing: stricter.way.asks.filter { !asks.contains($0) }))
    }
  }

  /// What a content gets of a request by a way; nil: there are no paths, as in `stream`, or none is found.
  private func sample(of way: Way) -> [UInt8]? {
    guard http.servers[way.server].stream == nil else { return nil }
    if let path = sentPaths[ObjectIdentifier(way.location)]?.first {
      let head = path.head
      return path.constant == nil ? head + Array("way-witness".utf8) : head
    }
    guard let path = paths.samples(of: way.location, in: http.servers[way.server].root).first else { return nil }
    guard let target = way.location[UpstreamPass.self]?.target, let uri = target.uri else { return Array(path.utf8) }
    return uri + path.utf8.dropFirst(target.replacedPrefix)
  }

  /// Whether a content can get the path by a way.
  private func isReached(_ path: [UInt8]?, by way: Way) -> Bool {
    if http.servers[way.server].stream != nil { return true }
    guard let path else { return false }
    for other in sentPaths[ObjectIdentifier(way.location)] ?? [] {
      if other.constant == nil ? path.starts(with: other.head) : path == other.head { return true }
    }
    // The error page of a request that no location has gotten may have any path.
    guard let origin = way.origin else { return true }
    var own = path
    if let target = way.location[UpstreamPass.self]?.target, let uri = target.uri {
      guard path.starts(with: uri) else { return false }
      own = Array(origin.match.path.prefix(target.replacedPrefix) + path.dropFirst(uri.count))
    }
    return switch paths.find(own, in: http.servers[way.server].root.locations) {
    case .location(let location): location === origin
    case .none: origin === http.servers[way.server].root
    case .redirect, .undecided: false
    }
  }
}

extension Way {
  /// What the way asks of who a client is, in words.
  var asks: [String] { gates.filter { $0.openness > .anybody }.flatMap(\.asks) }
}

extension LocationMatch {
  fileprivate var path: [UInt8] {
    switch self {
    case .prefix(let path), .prefixNoRegex(let path), .exact(let path): path
    case .regex, .named: []
    }
  }
}

extension Template {
  /// The text before the first variable.
  fileprivate var head: [UInt8] {
    var head: [UInt8] = []
    for part in parts {
      guard case .literal(let bytes) = part else { break }
      head += bytes
    }
    return head
  }
}
