import Observability
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
  case upstreams(isOfStream: Bool)
  case upstream(String, isOfStream: Bool)
  case servers(String, isOfStream: Bool)
  case server(String, UInt64, isOfStream: Bool)
  case keyvals
  case keyval(String)
  case limits(APILimit)
  case limit(APILimit, String)
  // sallyport's own.
  case sallyport
  case clients
  case client(ClientName)
  case denials
  case denial([UInt8])
  /// The version isn't 9.
  case otherVersion
  case unknown

  /// `text`: normalized, behind the location's prefix.
  package init(_ text: String) {
    var segments = text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
    // nginx: with and without a slash at the end.
    if segments.last?.isEmpty == true { segments.removeLast() }
    if segments.first?.isEmpty == true { segments.removeFirst() }
    guard let version = segments.first else {
      self = .root
      return
    }
    guard version == "9" else {
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
    case ("http", 2) where rest[1] == "requests": self = .requests
    case ("http", 2) where rest[1] == "keyvals": self = .keyvals
    case ("http", 3) where rest[1] == "keyvals": self = .keyval(rest[2])
    case ("http", 2...3) where rest[1].hasPrefix("limit_"):
      guard let limit = APILimit(rawValue: rest[1]) else {
        self = .unknown
        return
      }
      self = rest.count == 2 ? .limits(limit) : .limit(limit, rest[2])
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

/// The kinds of zones whose decisions the API shows.
package enum APILimit: String, Sendable {
  case requests = "limit_reqs"
  case connections = "limit_conns"
}

/// Why the API refuses a request: nginx Plus's codes and texts.
package struct APIFault: Error, Equatable {
  package let status: Int
  package let code: String
  package let text: String

  static let notFound = APIFault(status: 404, code: "PathNotFound", text: "path not found")
  static let version = APIFault(status: 404, code: "UnknownVersion", text: "unknown version")
  static let upstream = APIFault(status: 404, code: "UpstreamNotFound", text: "upstream not found")
  static let server = APIFault(status: 404, code: "UpstreamServerNotFound", text: "server with this ID doesn't exist")
  static let limitRequests = APIFault(status: 404, code: "LimitReqNotFound", text: "limit_req not found")
  static let limitConnections = APIFault(status: 404, code: "LimitConnNotFound", text: "limit_conn not found")
  static let keyval = APIFault(status: 404, code: "KeyvalNotFound", text: "keyval not found")
  static let key = APIFault(status: 404, code: "KeyvalKeyNotFound", text: "key not found")
  static let store = APIFault(
    status: 503, code: "StoreUnavailable",
    text: "the shared store gives no answer, so ask again whether the pair has changed")
  static let keyExists = APIFault(status: 409, code: "KeyvalKeyExists", text: "key already exists")
  static let method = APIFault(status: 405, code: "MethodNotSupported", text: "method not supported")
  static let disabled = APIFault(status: 405, code: "MethodDisabled", text: "method disabled")
  static let crossOrigin = APIFault(
    status: 403, code: "CrossOrigin", text: "a page of another origin may not use the API")
  static let stranger = APIFault(
    status: 403, code: "Forbidden",
    text: "anybody but root and the user that serves, at the other end of the socket, may not use the API")
  static func body(_ text: String) -> APIFault { APIFault(status: 400, code: "UpstreamConfFormatError", text: text) }
}

extension APIFault {
  init(_ fault: ServerListFault) {
    self =
      switch fault {
      case .fixed:
        APIFault(
          status: 400, code: "UpstreamStatic",
          text: "servers can't be added or removed: the group has a health check")
      case .exists: APIFault(status: 409, code: "EntryExists", text: "the group has a server with this address")
      case .full: APIFault(status: 409, code: "UpstreamFull", text: "the group has \(GroupList.limit) servers already")
      case .unknown: .server
      case .ofDNS:
        APIFault(status: 400, code: "UpstreamServerImmutable", text: "DNS says the addresses of this server's name")
      case .noBackup: .body("the group's method has no backup servers")
      }
  }
}

extension APIFault {
  /// nil: the change is made.
  init?(_ change: KeyvalZone.Change) {
    switch change {
    case .done: return nil
    case .exists: self = .keyExists
    case .absent: self = .key
    case .malformed:
      self.init(
        status: 400, code: "KeyvalKeyInvalid", text: "the key must be an address or a network such as 10.0.0.0/8")
    case .busy: self = .store
    case .full: self.init(status: 409, code: "KeyvalFull", text: "no pair fits into the zone any more")
    }
  }
}
