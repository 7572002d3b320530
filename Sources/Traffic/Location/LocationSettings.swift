public import Observability
public import Patterns

/// Which normalised paths a location is for (`location`).
public enum LocationMatch: Sendable {
  case prefix([UInt8])
  /// `^~`: no regular expression is tried when this prefix is the longest.
  case prefixNoRegex([UInt8])
  case exact([UInt8])
  case regex(RegularExpression, slots: [NamedCapture])
  /// `@name`: reached from error_page only.
  case named(String)
}

extension LocationMatch {
  /// The path that paths of the location begin with; nil for the other kinds.
  package var prefixText: String? {
    switch self {
    case .prefix(let path), .prefixNoRegex(let path): String(decoding: path, as: UTF8.self)
    case .exact, .regex, .named: nil
    }
  }
}

/// A named group of a regular expression and the exchange's slot that it fills.
public struct NamedCapture: Sendable, Hashable {
  public var group: Int
  public var slot: Int
}

/// Everything that may differ from location to location; a server block has one for what stands outside locations.
///
/// Immutable once built; shared by all workers. A class, so that an exchange holds a pointer.
public final class LocationSettings: Sendable {
  public let match: LocationMatch
  /// Nested locations.
  public let locations: [LocationSettings]
  /// What features say here, in the order of `Features.all`.
  package let features: [any LocationDirectives]
  /// Their types, by which a feature is found without a cast: a configuration with 10,000 server blocks is asked some
  /// hundred thousand times.
  private let kinds: [ObjectIdentifier]
  /// nil: no feature responds here but for files.
  package let content: (any ContentDirectives)?
  /// The locations that requests reach only by way of this one: those of its `if` and of its `limit_except`.
  public let conditional: [LocationSettings]
  public let limits: LocationLimits
  /// Where it stands, for messages.
  public let location: SourceLocation
  /// Only internal redirects may enter (`internal`).
  public let isInternal: Bool
  /// $server_name and redirects: `absolute_redirect`, `port_in_redirect`, `server_name_in_redirect`, `server_tokens`.
  public let redirects: RedirectSettings
  /// nil: as without `client_body_in_file_only` and `client_body_temp_path`.
  public let bodyFiles: BodyFileSettings?

  package init(
    match: LocationMatch, locations: [LocationSettings], limits: LocationLimits, redirects: RedirectSettings,
    isInternal: Bool, location: SourceLocation, features: [any LocationDirectives] = [],
    bodyFiles: BodyFileSettings? = nil
  ) {
    self.bodyFiles = bodyFiles
    self.features = features
    self.kinds = features.map { ObjectIdentifier(type(of: $0)) }
    self.content = features.last { type(of: $0).asContent != nil } as? any ContentDirectives
    self.conditional = features.flatMap(\.conditional)
    self.match = match
    self.locations = locations
    self.limits = limits
    self.redirects = redirects
    self.isInternal = isInternal
    self.location = location
  }

  /// What the location has of a feature; nil: nothing. For what is loaded or reported; a request asks the parts that were
  /// compiled.
  package subscript<F>(feature: F.Type) -> F? {
    let kind = ObjectIdentifier(feature)
    return kinds.firstIndex { $0 == kind }.flatMap { features[$0] as? F }
  }
}

extension LocationSettings {
  /// The location, and those inside it.
  package var withNested: [LocationSettings] {
    var all: [LocationSettings] = []
    visitNested { all.append($0) }
    return all
  }

  /// Calls `visit` with the location and those inside it, in the order of the file. Makes no array: a configuration with
  /// 10,000 server blocks is walked through some twenty times.
  package func visitNested(_ visit: (LocationSettings) -> Void) {
    visit(self)
    for location in locations { location.visitNested(visit) }
    for location in conditional { location.visitNested(visit) }
  }
}

/// How our own redirects and pages are written.
public struct RedirectSettings: RowSettings, Sendable, Hashable {
  public var absolute = true
  public var portIn = true
  public var serverNameIn = false
  /// `server_tokens`: whether the version shows in Server and in error pages.
  public var serverTokens = true
  public init() {}
}

/// Bounds of a location. Times in milliseconds, sizes in bytes.
public struct LocationLimits: RowSettings, Sendable, Hashable {
  /// 0 is no bound (`client_max_body_size`, 1m).
  public var maxBodySize: UInt64 = 1 << 20
  /// nil: not said; see docs/decisions/0007-request-buffering.md (`client_body_buffer_size`).
  public var bodyBufferSize: Int?
  public var bodyTimeout = 60_000
  /// Bytes a second; 0: no limit (`client_body_min_rate`).
  public var bodyMinRate = 100
  public var sendTimeout = 60_000
  public var keepaliveTimeout = 75_000
  /// Seconds announced in Keep-Alive; nil announces none.
  public var keepaliveAnnounced: Int?
  public var keepaliveRequests = 1000
  public var keepaliveTime = 3_600_000
  public var lingeringClose = true
  public var lingeringTime = 30_000
  public var lingeringTimeout = 5_000
  public var resetsTimedOut = false
  /// Whether a body of unknown length goes to HTTP/1.1 clients in chunks (`chunked_transfer_encoding`).
  public var chunkedResponses = true
  public init() {}
}

extension HTTPSettings {
  /// Every location, including nested ones, and what is outside locations, each with its server's index, in file order.
  package var everyLocation: [(server: Int, settings: LocationSettings)] {
    var every: [(server: Int, settings: LocationSettings)] = []
    for index in servers.indices { servers[index].root.visitNested { every.append((index, $0)) } }
    return every
  }

  /// Calls `visit` with every location, in the order of the file.
  package func visitLocations(_ visit: (LocationSettings) -> Void) {
    for server in servers { server.root.visitNested(visit) }
  }
}
