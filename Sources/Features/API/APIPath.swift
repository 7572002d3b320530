import Observability
package import Traffic
import Upstream

/// What a path of the API names. A pure value: segments are matched whole, and what is none of them is nothing.
package enum APIPath: Equatable, Sendable {
  case root
  case version
  case nginx
  case connections
  case ssl
  case workers
  case http
  case stream
  case requests
  case processes
  /// What nginx Plus has there and sallyport doesn't: slabs, caches, and zones that only `status_zone` makes.
  case empty
  /// The counts of `resolver` lines: of all, or of the one with these servers.
  case resolvers
  case resolver(String)
  /// The counts of server blocks: of all, or of the one of this name.
  case serverZones(isOfStream: Bool)
  case serverZone(String, isOfStream: Bool)
  case upstreams(isOfStream: Bool)
  case upstream(String, isOfStream: Bool)
  case servers(String, isOfStream: Bool)
  case server(String, UInt64, isOfStream: Bool)
  /// What a feature shows (`APIObjects`), by its name: all things, or the one that the second name is of.
  case objects(String, isOfStream: Bool = false)
  case object(String, String, isOfStream: Bool = false)
  // sallyport's own.
  case sallyport
  case clients
  case client(ClientName)
  case denials
  case denial([UInt8])
  case errors
  case logLevel
  /// The version is none of `versions`.
  case otherVersion
  case unknown

  /// Clients of nginx Plus name the version that they were written for: 2 and 3 are what two of them ask for by themselves. A
  /// version only adds to the one before; below 4, a fault named its path and method, too.
  static let versions = (1...9).map(String.init)

  /// `text`: normalized, behind the location's prefix.
  package init(_ text: String, objects: [any APIObjects]) {
    var segments = text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
    // nginx: with and without a slash at the end.
    if segments.last?.isEmpty == true { segments.removeLast() }
    if segments.first?.isEmpty == true { segments.removeFirst() }
    guard let version = segments.first else {
      self = .root
      return
    }
    guard Self.versions.contains(version) else {
      self = .otherVersion
      return
    }
    let rest = Array(segments.dropFirst())
    switch (rest.first, rest.count) {
    case (nil, _): self = .version
    case ("nginx", 1): self = .nginx
    case ("connections", 1): self = .connections
    case ("ssl", 1): self = .ssl
    case ("workers", 1): self = .workers
    case ("http", 1): self = .http
    case ("stream", 1): self = .stream
    case ("sallyport", _): self = .own(Array(rest.dropFirst()))
    case ("processes", 1): self = .processes
    case ("slabs", 1): self = .empty
    case ("resolvers", 1): self = .resolvers
    case ("resolvers", 2): self = .resolver(rest[1])
    case ("http", 2) where rest[1] == "requests": self = .requests
    case ("http", 2) where rest[1] == "location_zones" || rest[1] == "caches": self = .empty
    case ("stream", 2) where rest[1] == "keyvals": self = .empty
    case ("http", 2...3) where rest[1] == "server_zones", ("stream", 2...3) where rest[1] == "server_zones":
      let isOfStream = rest[0] == "stream"
      self = rest.count == 2 ? .serverZones(isOfStream: isOfStream) : .serverZone(rest[2], isOfStream: isOfStream)
    case ("http", 2...3) where objects.contains { $0.name == rest[1] && $0.kind == .http },
      ("stream", 2...3) where objects.contains { $0.name == rest[1] && $0.kind == .stream }:
      let isOfStream = rest[0] == "stream"
      self =
        rest.count == 2
        ? .objects(rest[1], isOfStream: isOfStream) : .object(rest[1], rest[2], isOfStream: isOfStream)
    case ("http", _) where rest[1] == "upstreams": self = .upstreams(rest.dropFirst(2), isOfStream: false)
    case ("stream", _) where rest[1] == "upstreams": self = .upstreams(rest.dropFirst(2), isOfStream: true)
    default: self = .unknown
    }
  }

  private static func own(_ rest: [String]) -> APIPath {
    switch (rest.first, rest.count) {
    case (nil, _): return .sallyport
    case ("clients", 1): return .clients
    case ("clients", 3) where rest[1] == "fingerprint":
      return ClientName(fingerprint: rest[2]).map { .client($0) } ?? .unknown
    case ("clients", 3) where rest[1] == "serial": return .client(.serial(rest[2]))
    case ("clients", 3) where rest[1] == "subject": return .client(.subject(rest[2]))
    case ("errors", 1): return .errors
    case ("log_level", 1): return .logLevel
    case ("denials", 1): return .denials
    case ("denials", 2):
      guard case .fingerprint(let octets)? = ClientName(fingerprint: rest[1]) else { return .unknown }
      return .denial(octets)
    default: return .unknown
    }
  }

  private static func upstreams(_ rest: ArraySlice<String>, isOfStream: Bool) -> APIPath {
    let rest = Array(rest)
    switch rest.count {
    case 0: return .upstreams(isOfStream: isOfStream)
    case 1: return .upstream(rest[0], isOfStream: isOfStream)
    case 2 where rest[1] == "servers": return .servers(rest[0], isOfStream: isOfStream)
    case 3 where rest[1] == "servers":
      let isNumber = (1...19).contains(rest[2].utf8.count) && rest[2].utf8.allSatisfy { (0x30...0x39).contains($0) }
      guard isNumber, let id = UInt64(rest[2]) else { return .unknown }
      return .server(rest[0], id, isOfStream: isOfStream)
    default: return .unknown
    }
  }
}
