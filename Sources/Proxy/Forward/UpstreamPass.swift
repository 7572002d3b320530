import Language
import Bytes
public import Identity
public import Observability
public import TLS
public import Upstream
public import UpstreamAuth

/// One `proxy_set_header`; an empty value leaves the field out, whatever the client sent.
public struct SetField: Sendable, Hashable {
  public let name: [UInt8]
  /// What lines of the configuration say, without constants that are empty. Of several values, the first that isn't empty
  /// for a request goes out. Only a singleton field has several.
  public private(set) var values: [Template]
  /// What goes out if all values are empty; nil: no field does.
  public let fallback: Template?

  public init(name: [UInt8], value: Template? = nil, fallback: Template? = nil) {
    self.name = name
    values = value.map { $0.isEmpty ? [] : [$0] } ?? []
    self.fallback = fallback
  }

  /// All that can go out, in the order in which a request tries them.
  public var candidates: [Template] {
    guard let fallback, values.last?.hasLiteral != true else { return values }
    return values + [fallback]
  }

  /// A later line for the same singleton field: it goes before the earlier ones.
  mutating func override(with value: Template) {
    if value.isEmpty { return }
    values = value.hasLiteral ? [value] : [value] + values
  }

  /// `Connection: close`: its server ends the connection, whatever it answers.
  package var closesConnection: Bool {
    func lower(_ bytes: [UInt8]) -> [UInt8] { bytes.map(ASCII.lower) }
    return lower(name) == Array("connection".utf8) && values.first?.constant.map(lower) == Array("close".utf8)
  }
}

/// A `proxy_set_header` of an outer level that is not in effect, because the location has lines of its own.
public struct DroppedField: Sendable, Hashable {
  public let name: [UInt8]
  public let location: SourceLocation
}

/// `proxy_ssl_certificate` and `_key` with variables: what they name is loaded when a request needs it.
public struct PresentedIdentitySettings: Sendable, Hashable {
  public var certificate: Template
  public var key: Template?
  /// What relative names resolve against.
  public var folder: String
  public var location: SourceLocation
  /// `proxy_ssl_certificate_cache`
  public var cache: PresentedIdentityCache
  public init(
    certificate: Template, key: Template?, folder: String, location: SourceLocation,
    cache: PresentedIdentityCache = .standard
  ) {
    self.cache = cache
    self.certificate = certificate
    self.key = key
    self.folder = folder
    self.location = location
  }
}

public enum UpstreamScheme: String, Sendable, Hashable {
  case http, https
  public var defaultPort: UInt16 { self == .http ? 80 : 443 }

  /// How the URL of a `proxy_pass` or `grpc_pass` spells each scheme before its `://`, without regard to case.
  package static func spellings(isGRPC: Bool) -> [(spelling: String, scheme: UpstreamScheme)] {
    isGRPC ? [("grpcs", .https), ("grpc", .http)] : [("https", .https), ("http", .http)]
  }
}

/// What `proxy_pass` names.
public enum UpstreamTarget: Sendable, Hashable {
  /// Known at load: an index into HTTPSettings.groups.
  case group(Int, UpstreamScheme)
  /// `proxy_pass https://$name…`: everything after the scheme, authority first; resolved for each request.
  case template(Template, UpstreamScheme)
  /// `proxy_pass $target`: the whole URL. Each value says its own scheme, so a value can begin with `https://` where the
  /// configuration says nothing of trust.
  case url(Template)

  /// nil: each value says it.
  public var scheme: UpstreamScheme? {
    switch self {
    case .group(_, let scheme), .template(_, let scheme): scheme
    case .url: nil
    }
  }

  /// What each request computes; nil for a target that is known at load.
  package var template: Template? {
    switch self {
    case .group: nil
    case .template(let template, _), .url(let template): template
    }
  }
}

/// `proxy_pass` and everything that speaks of the upstream side of a location.
public final class UpstreamPass: Sendable {
  public let target: UpstreamTarget
  /// The path that takes the place of the matched prefix; nil: the request target goes on as the client sent it.
  /// With a regex location or variables nginx allows none.
  public let uri: [UInt8]?
  /// $proxy_host and $proxy_port as nginx makes them; empty when the target is a template.
  public let host: String
  public let port: String
  /// Bytes of the location's prefix that `uri` replaces.
  public let replacedPrefix: Int
  /// nil for http, and for a target whose values say their scheme if nothing is said of trust: requests to an https
  /// value are then refused.
  public let tls: UpstreamTLSSettings?
  /// `proxy_ssl_certificate` with variables; `tls` has none then.
  public let identity: PresentedIdentitySettings?
  /// `proxy_ssl_name`: for SNI and the name check.
  public let tlsName: Template
  public let version: UpstreamVersion
  /// `proxy_set_header` in order, nginx's defaults (Host $proxy_host, Connection close) where not redefined.
  public let setFields: [SetField]
  /// The fields that outer `proxy_set_header` lines set and that no line in effect says.
  public let droppedFields: [DroppedField]
  /// How the upstream is told who the client is (`client_identity`).
  public let clientIdentity: IdentityFieldForm
  public let method: Template?
  public let passesRequestFields: Bool
  public let passesRequestBody: Bool
  /// Response fields kept from the client: `proxy_hide_header` and nginx's own list, less `proxy_pass_header`. Lower-case.
  public let hiddenFields: [[UInt8]]
  public let redirects: [RedirectRewrite]
  public let cookies: CookieRewriteSettings
  /// `proxy_pass_trailers`: whether the client gets the trailers of responses.
  public let passesTrailers: Bool
  public let interceptsErrors: Bool
  /// The largest response head, in bytes (`proxy_buffer_size`, 4k on nginx; 16k with us where nothing is said).
  public let headBufferSize: Int
  /// Bytes of a response that may wait for a slow client: `proxy_buffers` N × size, or with `proxy_buffering off` one
  /// `proxy_buffer_size`.
  public let bufferTotal: Int
  public let requestBuffering: Bool
  public let timeouts: UpstreamTimeouts
  public let retry: RetrySettings
  public let ignoresClientAbort: Bool
  /// nil: bodies pass as they are.
  public let envelope: EnvelopeSettings?
  /// `grpc_pass`: a client's `grpc-timeout` limits the whole request.
  public let speaksGRPC: Bool
  /// nil: an upstream's 401 is the client's.
  public let authentication: UpstreamAuthSettings?
  /// `message_signature sign`; nil: requests are not signed.
  public let signing: SignatureSettings?
  /// nil: the servers aren't checked.
  public let healthCheck: HealthCheckSettings?
  /// `proxy_set_body`: the body that the upstream gets in place of the client's.
  public let body: Template?
  public let origin: OriginSettings
  /// `proxy_limit_rate`, with buffering: bytes per second of a response that are read from the upstream.
  public let readRate: Template?
  /// `proxy_ignore_headers`
  public let ignoredHeaders: IgnoredResponseFields
  /// How names in a target with variables are resolved; nil: by the system.
  public let nameResolution: NameResolutionSettings?
  /// What `stream` says; nil in `http`.
  public let tcp: TCPPassSettings?
  public let location: SourceLocation

  public init(
    target: UpstreamTarget, uri: [UInt8]?, host: String, port: String, replacedPrefix: Int,
    tls: UpstreamTLSSettings?, identity: PresentedIdentitySettings?, tlsName: Template, version: UpstreamVersion,
    setFields: [SetField], clientIdentity: IdentityFieldForm, method: Template?, passesRequestFields: Bool,
    passesRequestBody: Bool, hiddenFields: [[UInt8]], redirects: [RedirectRewrite],
    interceptsErrors: Bool, headBufferSize: Int, bufferTotal: Int, requestBuffering: Bool,
    timeouts: UpstreamTimeouts, retry: RetrySettings, ignoresClientAbort: Bool, authentication: UpstreamAuthSettings?,
    envelope: EnvelopeSettings?, speaksGRPC: Bool, healthCheck: HealthCheckSettings?,
    location: SourceLocation,
    cookies: CookieRewriteSettings = CookieRewriteSettings(domains: [], paths: [], flags: []),
    ignoredHeaders: IgnoredResponseFields = [], body: Template? = nil, origin: OriginSettings = OriginSettings(),
    readRate: Template? = nil, signing: SignatureSettings? = nil,
    nameResolution: NameResolutionSettings? = nil, passesTrailers: Bool = true, tcp: TCPPassSettings? = nil,
    droppedFields: [DroppedField] = []
  ) {
    self.droppedFields = droppedFields
    self.tcp = tcp
    self.passesTrailers = passesTrailers
    self.nameResolution = nameResolution
    self.signing = signing
    self.body = body
    self.origin = origin
    self.readRate = readRate
    self.ignoredHeaders = ignoredHeaders
    self.cookies = cookies
    self.target = target
    self.uri = uri
    self.host = host
    self.port = port
    self.replacedPrefix = replacedPrefix
    self.tls = tls
    self.identity = identity
    self.tlsName = tlsName
    self.version = version
    self.setFields = setFields
    self.clientIdentity = clientIdentity
    self.method = method
    self.passesRequestFields = passesRequestFields
    self.passesRequestBody = passesRequestBody
    self.hiddenFields = hiddenFields
    self.redirects = redirects
    self.interceptsErrors = interceptsErrors
    self.headBufferSize = headBufferSize
    self.bufferTotal = bufferTotal
    self.requestBuffering = requestBuffering
    self.timeouts = timeouts
    self.retry = retry
    self.ignoresClientAbort = ignoresClientAbort
    self.envelope = envelope
    self.speaksGRPC = speaksGRPC
    self.authentication = authentication
    self.healthCheck = healthCheck
    self.location = location
  }
}

extension UpstreamPass {
  /// nil: each value of the target says it.
  public var scheme: UpstreamScheme? { target.scheme }
  /// Whether the protocol has no default port.
  var needsPort: Bool { tcp != nil || speaksGRPC }

  /// `proxy_ssl_name` without the port that $proxy_host or $http_host may bring: nginx takes it off too.
  package static func nameForTLS(_ name: [UInt8]) -> String {
    guard let end = name.first == 0x5B ? name.firstIndex(of: 0x5D) : name.firstIndex(of: 0x3A) else {
      return String(decoding: name, as: UTF8.self)
    }
    if name[0] == 0x5B { return String(decoding: name[1..<end], as: UTF8.self) }
    // More than one colon and no bracket: an IPv6 address.
    let isAddress = name.count(where: { $0 == 0x3A }) > 1
    return String(decoding: isAddress ? name[...] : name[..<end], as: UTF8.self)
  }
}

extension UpstreamPass {
  func words(_ http: HTTPSettings) -> String { "forwards to \(destination(http))" }

  package func destination(_ http: HTTPSettings) -> String {
    switch target {
    case .group(let index, let scheme):
      "\(prefix(scheme))\(http.groups.indices.contains(index) ? http.groups[index].name : "?")"
    case .template(let template, let scheme): "\(prefix(scheme))\(template.asWritten)"
    case .url(let template): template.asWritten
    }
  }

  /// What stands before a target's authority: nothing in `stream`.
  package func prefix(_ scheme: UpstreamScheme) -> String { tcp == nil ? "\(scheme.rawValue)://" : "" }
}
