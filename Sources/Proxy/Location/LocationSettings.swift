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

/// A named group of a regular expression and the exchange's slot that it fills.
public struct NamedCapture: Sendable, Hashable {
  public var group: Int
  public var slot: Int
  public init(group: Int, slot: Int) {
    self.group = group
    self.slot = slot
  }
}

/// `return`: a status alone, a redirect, or a text.
public struct ReturnSettings: Sendable, Hashable {
  public enum Content: Sendable, Hashable {
    /// The standard page of the status; 444 closes without an answer.
    case standard
    /// A Location for 301, 302, 303, 307, 308.
    case redirect(Template)
    /// A body of type text/plain.
    case text(Template)
  }
  public var status: Int
  public var content: Content
  public init(status: Int, content: Content) {
    self.status = status
    self.content = content
  }
}

/// One `add_header` or `add_trailer` line.
public struct AddedField: Sendable, Hashable {
  public var name: [UInt8]
  public var value: Template
  /// With any status, not only 200, 201, 204, 206, 301, 302, 303, 304, 307, 308.
  public var always: Bool
  public init(name: [UInt8], value: Template, always: Bool) {
    self.name = name
    self.value = value
    self.always = always
  }
}

/// One status of an `error_page` line.
public struct ErrorPage: Sendable, Hashable {
  public enum Target: Sendable, Hashable {
    /// A path (internal redirect).
    case path(Template)
    case named(String)
    /// A URL: redirect.
    case redirect(Template)
  }
  public var status: Int
  public var target: Target
  /// `=200`, or `=` (the target's own status, 0), or nil: the status stays.
  public var replacement: Int?
  public init(status: Int, target: Target, replacement: Int?) {
    self.status = status
    self.target = target
    self.replacement = replacement
  }
}

/// One `access_log` line.
public struct AccessLogSettings: Sendable, Hashable {
  public var destination: AccessLogDestination
  /// The name of the file below the folder, where the destination is a folder; nil otherwise.
  public var name: Template?
  public var format: Template
  public var escape: LogEscaping
  /// Written only when this is neither empty nor "0" (`if=`).
  public var condition: Template?
  /// `buffer=` and `flush=`; nil: as another line for the same log says, or the standard.
  public var buffering: LogBuffering?
  public init(
    destination: AccessLogDestination, name: Template? = nil, format: Template, escape: LogEscaping,
    condition: Template?, buffering: LogBuffering? = nil
  ) {
    self.name = name
    self.buffering = buffering
    self.destination = destination
    self.format = format
    self.escape = escape
    self.condition = condition
  }
}

/// `log_format escape=`.
public enum LogEscaping: String, Sendable, Hashable { case `default`, json, none }

/// One `error_log` line.
public struct ErrorLogSettings: Sendable, Hashable {
  public var destination: LogDestination
  public var level: LogLevel
  public init(destination: LogDestination, level: LogLevel) {
    self.destination = destination
    self.level = level
  }
}

/// Everything that may differ from location to location; a server block has one for what stands outside locations.
///
/// Immutable once built; shared by all workers. A class, so that an exchange holds a pointer.
public final class LocationSettings: Sendable {
  public let match: LocationMatch
  public let rewrite: [RewriteStep]
  /// Nested locations.
  public let locations: [LocationSettings]
  public let addedFields: [AddedField]
  /// What features say here, in the order of `Features.all`.
  let features: [any LocationFeature]
  /// nil: as the upstream says.
  public let expires: ExpiresSettings?
  public let errorPages: [ErrorPage]
  /// `early_hints`: a 103 of the upstream is passed on if one of these is neither empty nor `0`.
  public let earlyHints: [Template]
  public let accessLogs: [AccessLogSettings]
  public let errorLogs: [ErrorLogSettings]
  public let limits: LocationLimits
  /// Where it stands, for messages.
  public let location: SourceLocation
  /// Only internal redirects may enter (`internal`).
  public let isInternal: Bool
  /// $server_name and redirects: `absolute_redirect`, `port_in_redirect`, `server_name_in_redirect`, `server_tokens`.
  public let redirects: RedirectSettings
  public let flow: FlowSettings
  /// nil: as without `client_body_in_file_only` and `client_body_temp_path`.
  public let bodyFiles: BodyFileSettings?
  /// nil: neither `root` nor `alias`.
  public let files: FileSettings?
  public let types: TypeSettings
  /// nil: `charset off`.
  public let charset: CharsetSettings?

  init(
    match: LocationMatch, rewrite: [RewriteStep], locations: [LocationSettings],
    addedFields: [AddedField], errorPages: [ErrorPage],
    earlyHints: [Template], accessLogs: [AccessLogSettings], errorLogs: [ErrorLogSettings], limits: LocationLimits,
    redirects: RedirectSettings, isInternal: Bool, location: SourceLocation,
    flow: FlowSettings = FlowSettings(),
    features: [any LocationFeature] = [], expires: ExpiresSettings? = nil,
    bodyFiles: BodyFileSettings? = nil,
    files: FileSettings? = nil, types: TypeSettings = TypeSettings(),
    charset: CharsetSettings? = nil
  ) {
    self.charset = charset
    self.bodyFiles = bodyFiles
    self.files = files
    self.types = types
    self.features = features
    self.expires = expires
    self.match = match
    self.rewrite = rewrite
    self.locations = locations
    self.addedFields = addedFields
    self.errorPages = errorPages
    self.earlyHints = earlyHints
    self.accessLogs = accessLogs
    self.errorLogs = errorLogs
    self.limits = limits
    self.redirects = redirects
    self.isInternal = isInternal
    self.location = location
    self.flow = flow
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
public struct RedirectSettings: Sendable, Hashable {
  public var absolute = true
  public var portIn = true
  public var serverNameIn = false
  /// `server_tokens`: whether the version shows in Server and in error pages.
  public var serverTokens = true
  public init() {}
}

/// Bounds of a location. Times in milliseconds, sizes in bytes.
public struct LocationLimits: Sendable, Hashable {
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
