import Forward
import HTTP
import Language
import Observability
import Traffic
import Upstream

extension ProxyPass {
  static func readPass(_ draft: inout PassDraft, _ builder: inout SettingsBuilder) {
    let scope = draft.scope
    let defaultPort = draft.url.scheme?.defaultPort ?? 80
    // Without a default port of the protocol, there is none that the name could leave out.
    draft.target.host = draft.url.authority?.proxyHost(defaultPort: draft.dialect.needsPort ? 0 : defaultPort) ?? ""
    draft.target.port = draft.url.authority?.proxyPort(defaultPort: defaultPort) ?? ""
    draft.target.replacedPrefix = draft.level.match.prefixLength
    draft.settings.buffers.collectsRequests = !draft.dialect.callsMethods
    rows.read(scope, into: &draft.settings, &builder)
    draft.settings.origin.header = headerForm(scope, &builder)
    if !draft.settings.buffers.isOn { draft.settings.buffers.total = draft.settings.buffers.head }
    draft.settings.request.fields = setFields(draft, &builder)
    draft.settings.request.droppedFields = scope.droppedFields
    draft.settings.response.hiddenFields = hiddenFields(
      draft, passesTrailers: draft.settings.response.passesTrailers, &builder)
  }

  static func part(of draft: PassDraft, _ builder: inout SettingsBuilder) -> (any PassPart)? {
    let rate = draft.settings.buffers.isOn ? builder.rateSize(limitRate.line(in: draft.scope)) : nil
    return ResponseRewriteSettings(
      redirects: redirectRewrites(draft, &builder), cookies: cookieRewrites(draft.scope, &builder), readRate: rate)
  }

  /// Builds the `proxy_set_header` lines, then nginx's default fields for names that no line sets.
  private static func setFields(_ draft: PassDraft, _ builder: inout SettingsBuilder) -> [SetField] {
    var fields: [SetField] = []
    let scope = draft.scope
    // RFC 9112 §3.2: a request has a Host. As in nginx, it is also what `set $proxy_host` says.
    let host = builder.template(Word("$proxy_host", at: .nowhere))
    for line in scope.setFieldLines {
      guard let name = builder.fieldName(line) else { continue }
      let value = builder.fieldValue(line), lower = name.lowercasedText
      if SingletonFields.contains(name), let index = fields.firstIndex(where: { $0.name.lowercasedText == lower }) {
        fields[index].override(with: value)
        if value.hasLiteral { tellOfOverriddenLine(before: line, scope, &builder) }
      } else {
        fields.append(SetField(name: name, value: value, fallback: lower == "host" ? host : nil))
      }
    }
    if !(fields.map(\.name.lowercasedText) + draft.dialect.standardFields.map { $0.name.lowercased() }).contains("host")
    {
      fields.append(SetField(name: Array("Host".utf8), fallback: host))
    }
    return fields
  }

  /// Tells that the line before this one, for the same singleton field, has no effect.
  private static func tellOfOverriddenLine(before line: Directive, _ scope: Scope, _ builder: inout SettingsBuilder) {
    let name = line.text(0).lowercased()
    let earlier = scope.setFieldLines.prefix { $0.location != line.location }
    guard let other = earlier.last(where: { $0.text(0).lowercased() == name }), !other.text(1).isEmpty else { return }
    builder.diagnostics.append(
      Diagnostic(
        .notice, at: other.location,
        "\"\(other.text(0))\" is set here and by a later line: a request has this field once, so the last line counts",
        hint: "remove this line; the other is at \(line.location)"))
  }

  /// Builds the hidden fields: nginx's own list and `proxy_hide_header`, without `proxy_pass_header`.
  private static func hiddenFields(
    _ draft: PassDraft, passesTrailers: Bool, _ builder: inout SettingsBuilder
  ) -> [[UInt8]] {
    let scope = draft.scope
    let own =
      [
        "date", "server", "x-pad", "x-accel-expires", "x-accel-redirect", "x-accel-limit-rate", "x-accel-buffering",
        "x-accel-charset",
      ] + draft.dialect.hiddenFields
    let passed = Set(passedField.lines(in: scope).compactMap { builder.fieldName($0)?.lowercasedText })
    var hidden = own.filter { !passed.contains($0) }
    // It would announce fields that the client doesn't get.
    if !passesTrailers, !passed.contains("trailer") { hidden.append("trailer") }
    for line in hiddenField.lines(in: scope) {
      if let name = builder.fieldName(line)?.lowercasedText, !hidden.contains(name) { hidden.append(name) }
    }
    return hidden.map { Array($0.utf8) }
  }
}

extension RetryConditions {
  static let named: [String: RetryConditions] = [
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
  /// `proxy_http_version`
  var versionLine: Directive? { ProxyPass.httpVersion.line(in: self) }

  /// The `proxy_set_header` lines in effect.
  var setFieldLines: [Directive] { ProxyPass.setHeader.lines(in: self) }
  /// Whether requests have the client's own fields (`proxy_pass_request_headers`).
  var passesRequestFields: Bool { ProxyPass.passesFields.flag(in: self) ?? true }
  /// Those of the level itself.
  var ownSetFieldLines: [Directive] { own(ProxyPass.setHeader.name) }

  /// The outer `proxy_set_header` lines that the level's own replace, of fields that these do not name. Each field once: the
  /// nearest line.
  var droppedFields: [DroppedField] {
    guard let outer else { return [] }
    let own = own(ProxyPass.setHeader.name)
    if own.isEmpty { return outer.droppedFields }
    var seen = Set(own.map { $0.text(0).lowercased() })
    return
      (outer.setFieldLines.compactMap { line in
        seen.insert(line.text(0).lowercased()).inserted
          ? DroppedField(name: Array(line.text(0).utf8), location: line.location) : nil
      })
  }

  /// `proxy_request_buffering off`: a body goes to the upstream before it is whole.
  var streamingLine: Directive? { ProxyPass.requestBuffering.lineOff(in: self) }

  /// `proxy_pass_request_body off`
  var unpassedBodyLine: Directive? { ProxyPass.passesBody.lineOff(in: self) }

  /// `proxy_set_body`, the body in place of the client's.
  var ownBodyLine: Directive? { ProxyPass.ownBody.line(in: self) }
}
