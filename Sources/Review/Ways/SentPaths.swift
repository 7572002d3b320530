import Forward
import Patterns
import Traffic

/// Which paths a content gets of the requests that come by a way.
struct SentPaths {
  private let http: HTTPSettings
  private let paths = PathSearch()
  /// Those that a location writes in place of a request's own.
  private var written: [ObjectIdentifier: [Template]] = [:]

  init(_ ways: [Way], _ http: HTTPSettings) {
    self.http = http
    for way in ways { written[ObjectIdentifier(way.location)] = way.location.ways.sentPaths }
  }

  /// What a content gets of a request by a way; nil: there are no paths, as in `stream`, or none is found.
  func sample(of way: Way) -> [UInt8]? {
    guard http.servers[way.server].stream == nil else { return nil }
    if let path = writtenPath(way) ?? written[ObjectIdentifier(way.location)]?.first {
      let head = path.head
      return path.constant == nil ? head + Array("way-witness".utf8) : head
    }
    guard let path = paths.samples(of: way.location, in: http.servers[way.server].root).first else { return nil }
    guard let target = passTarget(way), let uri = target.uri else { return Array(path.utf8) }
    return uri + path.utf8.dropFirst(target.replacedPrefix)
  }

  /// Where a way's requests are passed; nil: they aren't. The block of an `if` or a `limit_except` may have its location's.
  private func passTarget(_ way: Way) -> PassTarget? {
    (way.location[UpstreamPass.self] ?? way.origin?[UpstreamPass.self])?.target
  }

  /// The path that a target with variables has for each request of a way; nil: the target has no path.
  private func writtenPath(_ way: Way) -> Template? {
    passTarget(way)?.upstream.template.flatMap { WrittenTarget($0.parts).path }
  }

  /// Whether a content can get the path by a way.
  func isReached(_ path: [UInt8]?, by way: Way) -> Bool {
    if http.servers[way.server].stream != nil { return true }
    guard let path else { return false }
    if let written = writtenPath(way) { return written.reaches(path) }
    for other in written[ObjectIdentifier(way.location)] ?? [] {
      if other.reaches(path) { return true }
    }
    // The error page of a request that no location has gotten may have any path.
    guard let origin = way.origin else { return true }
    var own = path
    if let target = passTarget(way), let uri = target.uri {
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

extension LocationMatch {
  fileprivate var path: [UInt8] {
    switch self {
    case .prefix(let path), .prefixNoRegex(let path), .exact(let path): path
    case .regex, .named: []
    }
  }
}

extension Template {
  /// Whether the text can be this path.
  fileprivate func reaches(_ path: [UInt8]) -> Bool { constant == nil ? path.starts(with: head) : path == head }

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
