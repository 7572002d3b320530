import HTTP
import Language
import Observability
import Upstream

extension ProxyPass {
  static func readPass(_ draft: inout PassDraft, _ builder: inout SettingsBuilder) {
    let scope = draft.scope
    let defaultPort = draft.url.scheme?.defaultPort ?? 80
    // Without a default port of the protocol, there is none that the name could leave out.
    draft.target.host = draft.url.authority?.proxyHost(defaultPort: draft.dialect.needsPort ? 0 : defaultPort) ?? ""
    draft.target.port = draft.url.authority?.proxyPort(defaultPort: defaultPort) ?? ""
    draft.target.replacedPrefix = draft.level.match.prefixLength
    draft.version = draft.dialect.version ?? scope.upstreamVersion
    draft.origin = builder.origin(scope)
    draft.timeouts = builder.timeouts(scope)
    draft.retry = builder.retry(scope)
    builder.readBuffers(scope, &draft)
    builder.readRequest(scope, &draft)
    draft.response.hiddenFields = builder.hiddenFields(scope)
    draft.response.passesTrailers = scope.passesTrailers
    draft.response.interceptsErrors = scope.flag("proxy_intercept_errors") ?? false
    draft.response.ignoredFields = builder.ignoredHeaders(scope)
  }

  static func part(of draft: PassDraft, _ builder: inout SettingsBuilder) -> (any PassPart)? {
    let rate =
      (draft.scope.flag("proxy_buffering") ?? true) ? builder.rateSize(draft.scope.value("proxy_limit_rate")) : nil
    return ResponseRewriteSettings(
      redirects: builder.redirectRewrites(draft), cookies: builder.cookieRewrites(draft.scope), readRate: rate)
  }
}

extension SettingsBuilder {
  fileprivate mutating func readBuffers(_ scope: Scope, _ draft: inout PassDraft) {
    let (count, size) = buffers(scope.value("proxy_buffers")) ?? (8, 8192)
    draft.buffers.head = headBufferSize(scope)
    draft.buffers.total = scope.flag("proxy_buffering") ?? true ? count * size : draft.buffers.head
    draft.buffers.collectsRequests = scope.flag("proxy_request_buffering") ?? !draft.dialect.callsMethods
  }

  fileprivate mutating func readRequest(_ scope: Scope, _ draft: inout PassDraft) {
    draft.request.fields = setFields(scope)
    draft.request.droppedFields = scope.droppedFields
    draft.request.method = scope.value("proxy_method").map { template($0, 0) }
    draft.request.passesFields = scope.passesRequestFields
    draft.request.passesBody = scope.flag("proxy_pass_request_body") ?? true
    draft.request.body = scope.value("proxy_set_body").map { template($0, 0) }
    draft.request.ignoresClientAbort = scope.flag("proxy_ignore_client_abort") ?? false
  }

  /// Builds the `proxy_set_header` lines, then nginx's default fields for names that no line sets.
  private mutating func setFields(_ scope: Scope) -> [SetField] {
    var fields: [SetField] = []
    // RFC 9112 §3.2: a request has a Host. As in nginx, it is also what `set $proxy_host` says.
    let host = template(Word("$proxy_host", at: .nowhere))
    for line in scope.setFieldLines {
      guard let name = fieldName(line) else { continue }
      let value = fieldValue(line), lower = name.lowercasedText
      if SingletonFields.contains(name), let index = fields.firstIndex(where: { $0.name.lowercasedText == lower }) {
        fields[index].override(with: value)
        if value.hasLiteral { tellOfOverriddenLine(before: line, scope) }
      } else {
        fields.append(SetField(name: name, value: value, fallback: lower == "host" ? host : nil))
      }
    }
    if !fields.contains(where: { $0.name.lowercasedText == "host" }) {
      fields.append(SetField(name: Array("Host".utf8), fallback: host))
    }
    return fields
  }

  /// Tells that the line before this one, for the same singleton field, has no effect.
  private mutating func tellOfOverriddenLine(before line: Directive, _ scope: Scope) {
    let name = line.text(0).lowercased()
    let earlier = scope.setFieldLines.prefix { $0.location != line.location }
    guard let other = earlier.last(where: { $0.text(0).lowercased() == name }), !other.text(1).isEmpty else { return }
    diagnostics.append(
      Diagnostic(
        .notice, at: other.location,
        "\"\(other.text(0))\" is set here and by a later line: a request has this field once, so the last line counts",
        hint: "remove this line; the other is at \(line.location)"))
  }

  /// Builds the hidden fields: nginx's own list and `proxy_hide_header`, without `proxy_pass_header`.
  fileprivate mutating func hiddenFields(_ scope: Scope) -> [[UInt8]] {
    let own = [
      "date", "server", "x-pad", "x-accel-expires", "x-accel-redirect", "x-accel-limit-rate", "x-accel-buffering",
      "x-accel-charset",
    ]
    let passed = Set(scope.list("proxy_pass_header").compactMap { fieldName($0)?.lowercasedText })
    var hidden = own.filter { !passed.contains($0) }
    // It would announce fields that the client doesn't get.
    if !scope.passesTrailers, !passed.contains("trailer") { hidden.append("trailer") }
    for line in scope.list("proxy_hide_header") {
      if let name = fieldName(line)?.lowercasedText, !hidden.contains(name) { hidden.append(name) }
    }
    return hidden.map { Array($0.utf8) }
  }

  /// The size of the buffer for a response head. The default is 16k; nginx's users often raise nginx's 4k to fit heads.
  mutating func headBufferSize(_ scope: Scope) -> Int {
    guard let line = scope.value("proxy_buffer_size"), let size = Quantity.size(line.text(0)) else { return 16384 }
    guard (1...(16 << 20)).contains(size) else {
      error(
        line.place(0), "invalid value \"\(line.text(0))\" in \"proxy_buffer_size\" directive", hint: "from 1 to 16m")
      return 16384
    }
    return size
  }

  fileprivate func timeouts(_ scope: Scope) -> UpstreamTimeouts {
    var timeouts = UpstreamTimeouts()
    timeouts.connect = scope.milliseconds("proxy_connect_timeout") ?? timeouts.connect
    timeouts.send = scope.milliseconds("proxy_send_timeout") ?? timeouts.send
    timeouts.read = scope.milliseconds("proxy_read_timeout") ?? timeouts.read
    return timeouts
  }

  fileprivate func retry(_ scope: Scope) -> RetrySettings {
    var retry = RetrySettings()
    if let line = scope.value("proxy_next_upstream") {
      let words = line.arguments.map { $0.text.lowercased() }
      retry.conditions = words.contains("off") ? [] : RetryConditions(words.compactMap { RetryConditions.named[$0] })
    }
    retry.tries = scope.number("proxy_next_upstream_tries") ?? 0
    retry.timeout = scope.milliseconds("proxy_next_upstream_timeout") ?? 0
    return retry
  }
}

extension RetryConditions {
  fileprivate static let named: [String: RetryConditions] = [
    "error": .error, "timeout": .timeout, "invalid_header": .invalidHeader, "http_500": .http500, "http_502": .http502,
    "http_503": .http503, "http_504": .http504, "http_403": .http403, "http_404": .http404, "http_429": .http429,
    "non_idempotent": .nonIdempotent,
  ]
}

extension [UInt8] {
  fileprivate var lowercasedText: String { String(decoding: self, as: UTF8.self).lowercased() }
}

extension LocationMatch {
  /// The number of path bytes that the URI of `proxy_pass` replaces.
  fileprivate var prefixLength: Int {
    switch self {
    case .prefix(let path), .prefixNoRegex(let path), .exact(let path): path.count
    case .regex, .named: 0
    }
  }
}

extension Scope {
  /// `proxy_pass_trailers`
  fileprivate var passesTrailers: Bool { flag("proxy_pass_trailers") ?? true }
}

extension Scope {
  /// What `proxy_http_version` says; the default is that of nginx 1.30.
  var upstreamVersion: UpstreamVersion {
    switch versionLine?.text(0) {
    case "2": .http2
    case "1.1", nil: .http11
    case .some: .http10
    }
  }

  /// `proxy_http_version`
  var versionLine: Directive? { value("proxy_http_version") }

  /// The `proxy_set_header` lines in effect.
  var setFieldLines: [Directive] { list("proxy_set_header") }
  /// Whether requests have the client's own fields (`proxy_pass_request_headers`).
  var passesRequestFields: Bool { flag("proxy_pass_request_headers") ?? true }
  /// Those of the level itself.
  var ownSetFieldLines: [Directive] { own("proxy_set_header") }

  /// The outer `proxy_set_header` lines that the level's own replace, of fields that these do not name. Each field once: the
  /// nearest line.
  var droppedFields: [DroppedField] {
    guard let outer else { return [] }
    let own = own("proxy_set_header")
    if own.isEmpty { return outer.droppedFields }
    var seen = Set(own.map { $0.text(0).lowercased() })
    return
      (outer.setFieldLines.compactMap { line in
        seen.insert(line.text(0).lowercased()).inserted
          ? DroppedField(name: Array(line.text(0).utf8), location: line.location) : nil
      })
  }

  /// `proxy_request_buffering off`: a body goes to the upstream before it is whole.
  var streamingLine: Directive? { flag("proxy_request_buffering") == false ? value("proxy_request_buffering") : nil }

  /// `proxy_pass_request_body off`
  var unpassedBodyLine: Directive? { flag("proxy_pass_request_body") == false ? value("proxy_pass_request_body") : nil }

  /// `proxy_set_body`, the body in place of the client's.
  var ownBodyLine: Directive? { value("proxy_set_body") }
}
