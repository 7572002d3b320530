import Language
public import Observability
public import TLS
public import Traffic
public import Upstream

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

/// Where requests go.
public struct PassTarget: Sendable {
  public var upstream: UpstreamTarget
  /// The path that takes the place of the matched prefix; nil: the request target goes on as the client sent it.
  /// With a regex location or variables nginx allows none.
  public var uri: [UInt8]?
  /// Bytes of the location's prefix that `uri` replaces.
  public var replacedPrefix = 0
  /// $proxy_host and $proxy_port as nginx makes them; empty when the target is a template.
  public var host = ""
  public var port = ""
  /// How names in a target with variables are resolved; nil: by the system.
  public var nameResolution: NameResolutionSettings?

  package init(_ upstream: UpstreamTarget, uri: [UInt8]?) {
    self.upstream = upstream
    self.uri = uri
  }
}

/// Whom sallyport trusts as the upstream, and what it shows of itself.
public struct PassTrust: Sendable {
  /// nil for http, and for a target whose values say their scheme if nothing is said of trust: requests to an https
  /// value are then refused.
  public var tls: UpstreamTLSSettings?
  /// `proxy_ssl_certificate` with variables; `tls` has none then.
  public var identity: PresentedIdentitySettings?
  /// `proxy_ssl_name`: for SNI and the name check.
  public var name = Template([])
}

/// How much of a request and of its response waits in memory.
public struct PassBuffers: Sendable {
  /// `proxy_buffering`
  public var isOn = true
  /// The largest response head, in bytes (`proxy_buffer_size`, 4k on nginx; 16k with us where nothing is said).
  public var head = 16384
  /// Bytes of a response that may wait for a slow client: `proxy_buffers` N × size, or with `proxy_buffering off` one
  /// `proxy_buffer_size`.
  public var total = 65536
  /// `proxy_request_buffering`: a body is collected before it goes to the upstream.
  public var collectsRequests = true
}

/// What the upstream gets of a request.
public struct PassedRequest: Sendable {
  /// `proxy_set_header` in order, nginx's defaults (Host $proxy_host, Connection close) where not redefined.
  public var fields: [SetField] = []
  /// The fields that outer `proxy_set_header` lines set and that no line in effect says.
  public var droppedFields: [DroppedField] = []
  public var method: Template?
  public var passesFields = true
  public var passesBody = true
  /// `proxy_set_body`: the body that the upstream gets in place of the client's.
  public var body: Template?
  public var ignoresClientAbort = false

  /// Whether a line sets a field of this name, in lower case or not.
  package func sets(_ name: String) -> Bool {
    let name = name.lowercased()
    return fields.contains { String(decoding: $0.name, as: UTF8.self).lowercased() == name }
  }
}

/// What the client gets of a response.
public struct PassedResponse: Sendable {
  /// Response fields kept from the client: `proxy_hide_header` and nginx's own list, less `proxy_pass_header`. Lower-case.
  public var hiddenFields: [[UInt8]] = []
  /// `proxy_pass_trailers`: whether the client gets the trailers of responses.
  public var passesTrailers = true
  public var interceptsErrors = false
  /// `proxy_ignore_headers`
  public var ignoredFields: IgnoredResponseFields = []
}

/// What lines say of a pass, besides whom it trusts.
package struct PassSettings: RowSettings {
  package var version = UpstreamVersion.http11
  package var origin = OriginSettings()
  package var timeouts = UpstreamTimeouts()
  package var retry = RetrySettings()
  package var buffers = PassBuffers()
  package var request = PassedRequest()
  package var response = PassedResponse()
  /// What only `stream` has.
  package var tcp = TCPPassSettings()
  package init() {}
}

/// What a location says of its upstream, by `proxy_pass` or by the line of another protocol, and all that hangs on it.
public final class UpstreamPass: Sendable {
  public let target: PassTarget
  public let trust: PassTrust
  public let version: UpstreamVersion
  /// How connections begin.
  public let origin: OriginSettings
  public let timeouts: UpstreamTimeouts
  public let retry: RetrySettings
  public let buffers: PassBuffers
  public let request: PassedRequest
  public let response: PassedResponse
  /// What `stream` says; nil in `http`.
  public let tcp: TCPPassSettings?
  package let dialect: PassDialect
  /// What features have at the pass, in the order of `Features.all`.
  package let parts: [any PassPart]
  public let location: SourceLocation

  package init(_ draft: PassDraft, parts: [any PassPart]) {
    target = draft.target
    trust = draft.trust
    version = draft.settings.version
    origin = draft.settings.origin
    timeouts = draft.settings.timeouts
    retry = draft.settings.retry
    buffers = draft.settings.buffers
    request = draft.settings.request
    response = draft.settings.response
    tcp = draft.level.isOfStream ? draft.settings.tcp : nil
    dialect = draft.dialect
    self.parts = parts
    location = draft.line.location
  }

  /// What a feature has at the pass; nil: nothing. For what is loaded or reported; a request asks what was compiled.
  package subscript<Part>(_ kind: Part.Type) -> Part? {
    for part in parts where type(of: part) == kind { return part as? Part }
    return nil
  }
}

extension UpstreamPass {
  /// nil: each value of the target says it.
  public var scheme: UpstreamScheme? { target.upstream.scheme }

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
  /// The upstream without the path that requests get there.
  package func destination(_ http: HTTPSettings) -> String {
    let base = target.upstream.template.map { template in
      // A socket's path is its address.
      let written = WrittenTarget(template.parts)
      return (written.path == nil ? template : Template(written.base)).text(http.slotNames)
    }
    return switch target.upstream {
    case .group(let index, let scheme):
      "\(prefix(scheme))\(http.groups.indices.contains(index) ? http.groups[index].name : "?")"
    case .template(_, let scheme): "\(prefix(scheme))\(base ?? "")"
    case .url: base ?? ""
    }
  }

  /// What stands before a target's authority: nothing in `stream`.
  package func prefix(_ scheme: UpstreamScheme) -> String { tcp == nil ? dialect.prefix(scheme) : "" }
}
