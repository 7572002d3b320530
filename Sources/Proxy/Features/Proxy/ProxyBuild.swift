import HTTP
import Observability
import TLS
import Upstream
import UpstreamAuth
import Language

/// The parts of a `proxy_pass` argument.
struct PassedURL {
  /// The address; nil when it contains variables.
  var authority: Authority?
  var target: UpstreamTarget
  var uri: [UInt8]?
  /// The URL as written, with its scheme and without its URI part.
  var base: String

  /// nil: each value of the target says it.
  var scheme: UpstreamScheme? { target.scheme }
}

extension SettingsBuilder {
  /// Builds a `grpc_pass` like a `proxy_pass` of HTTP/2. Messages about its directives have their names.
  mutating func grpcPass(_ directive: Directive, _ level: Level) -> UpstreamPass? {
    if let other = level.scope.own("proxy_pass").first {
      error(directive.location, "\"grpc_pass\" beside \"proxy_pass\"", hint: "the other is at \(other.location)")
    }
    if MessageEnvelopes.isOn(level.scope), let line = MessageEnvelopes.line(level.scope) {
      error(
        directive.location, "\"message_envelope\" seals whole bodies, and gRPC sends streams",
        hint: "write \"message_envelope off;\" here; it is on at \(line.location)")
    }
    if let line = level.scope.directives.first(where: { $0.name.hasPrefix("proxy_") && $0.name != "proxy_pass" }) {
      let own = GRPC.directive(for: line.name)
      let isRow = DirectiveTable.entries(named: own).contains { $0.status == .supported }
      warning(
        line.location, "\"\(line.name)\" has no effect on grpc_pass",
        hint: isRow ? "write \(own)" : "leave it out: it is not for gRPC")
    }
    let before = diagnostics.count
    let settings = proxyPass(directive, level.inProxyNames)
    for index in before..<diagnostics.count { diagnostics[index].replace("proxy_", with: "grpc_") }
    return settings
  }

  mutating func proxyPass(_ directive: Directive, _ level: Level) -> UpstreamPass? {
    guard let url = passedURL(directive, level) else { return nil }
    let scope = level.scope
    let facts = upstreamTrustFacts(scope, url, directive)
    diagnostics += UpstreamTrustRule.allCases.compactMap { $0.diagnostic(facts) }
    diagnostics += UpstreamWorkloadRule.allCases.compactMap { $0.diagnostic(facts) }
    diagnostics += PinningRule.allCases.flatMap { $0.diagnostics(facts) }
    let name = url.authority.map { Template(literal: $0.nameForTLS) } ?? Template([.variable(.simple(.proxy_host))])
    let fields = setFields(scope)
    let version = scope.upstreamVersion
    diagnostics += KeptConnectionRule.check(
      groups, kept: keptGroups, url.target, version: version, fields: fields, at: directive.location)
    let (count, size) = buffers(scope.value("proxy_buffers")) ?? (8, 8192)
    let headBufferSize = headBufferSize(scope)
    let isBuffered = scope.flag("proxy_buffering") ?? true
    let defaultPort = url.scheme?.defaultPort ?? 80
    let tlsName = scope.tlsNameLine.map { template($0, 0) } ?? name
    let identity = facts.mayUseTLS ? presentedIdentity(scope, facts) : nil
    return UpstreamPass(
      target: url.target, uri: url.uri,
      // gRPC has no default port that the name could leave out.
      host: url.authority?.proxyHost(defaultPort: scope.isGRPC ? 0 : defaultPort) ?? "",
      port: url.authority?.proxyPort(defaultPort: defaultPort) ?? "",
      replacedPrefix: level.match.prefixLength,
      tls: facts.mayUseTLS ? upstreamTLS(scope, facts, version) : nil,
      identity: identity, tlsName: tlsName, version: version,
      setFields: fields, clientIdentity: ClientIdentity.form(scope),
      method: scope.value("proxy_method").map { template($0, 0) },
      passesRequestFields: scope.passesRequestFields,
      passesRequestBody: scope.flag("proxy_pass_request_body") ?? true, hiddenFields: hiddenFields(scope),
      redirects: redirectRewrites(scope, url, level), interceptsErrors: scope.flag("proxy_intercept_errors") ?? false,
      headBufferSize: headBufferSize, bufferTotal: isBuffered ? count * size : headBufferSize,
      requestBuffering: scope.flag("proxy_request_buffering") ?? !scope.isGRPC,
      timeouts: timeouts(scope), retry: retry(scope),
      ignoresClientAbort: scope.flag("proxy_ignore_client_abort") ?? false,
      authentication: upstreamAuth(scope, url, fields),
      envelope: scope.isGRPC ? nil : MessageEnvelopes.read(scope, directive, &self), speaksGRPC: scope.isGRPC,
      healthCheck: healthCheck(scope, url, tlsName: tlsName, identity: identity), location: directive.location,
      cookies: cookieRewrites(scope), ignoredHeaders: ignoredHeaders(scope),
      body: outgoingBody(scope), origin: origin(scope),
      readRate: isBuffered ? rateSize(scope.value("proxy_limit_rate")) : nil, signing: Signatures.signing(scope, &self),
      nameResolution: nameResolution(scope), passesTrailers: scope.passesTrailers, droppedFields: scope.droppedFields)
  }

  private mutating func passedURL(_ directive: Directive, _ level: Level) -> PassedURL? {
    directive.arguments.first.flatMap { passedURL($0, directive, level) }
  }

  private mutating func passedURL(_ word: Word, _ directive: Directive, _ level: Level) -> PassedURL? {
    let text = word.text
    let schemes = UpstreamScheme.spellings(isGRPC: level.scope.isGRPC)
    let lower = text.lowercased()
    // With a variable in the scheme or in place of it, each value says its scheme.
    let fixed = lower.prefix { $0 != "$" }
    if fixed != lower[...],
      schemes.contains(where: { $0.spelling.count + 3 > fixed.count && "\($0.spelling)://".hasPrefix(fixed) })
    {
      return PassedURL(authority: nil, target: .url(template(word)), uri: nil, base: text)
    }
    if level.scope.isGRPC, !lower.contains("://") {
      // nginx: without a scheme, it is grpc.
      return passedURL(Word("grpc://" + text, at: word.location, quoted: word.quoted), directive, level)
    }
    guard let (spelling, scheme) = schemes.first(where: { lower.hasPrefix("\($0.spelling)://") }) else {
      error(
        word.location, "invalid URL prefix in \"\(text)\"",
        hint: "it must begin with \(schemes[1].spelling):// or \(schemes[0].spelling)://")
      return nil
    }
    let rest = String(text.dropFirst(spelling.count + 3))
    if rest.contains("$") {
      let template = template(Word(rest, at: word.location, quoted: word.quoted))
      return PassedURL(authority: nil, target: .template(template, scheme), uri: nil, base: text)
    }
    let (authorityText, uri) = Self.splitURI(rest)
    if level.scope.isGRPC, let uri {
      error(
        word.location, "\"proxy_pass\" cannot have a URI part",
        hint: "leave out \"\(uri)\": the path is the method's name")
      return nil
    }
    if uri != nil, let kind = level.kindWithoutURI {
      error(
        word.location, "\"proxy_pass\" cannot have URI part \(kind)",
        hint: "leave out \"\(uri ?? "")\": what would it replace?")
      return nil
    }
    do {
      let authority = try Authority(parsing: authorityText)
      if level.scope.isGRPC { try requirePort(of: authority, "grpc_pass [grpc[s]://]ADDRESS:PORT") }
      return try target(authority, scheme, directive).map {
        PassedURL(
          authority: authority, target: .group($0, scheme), uri: uri.map { Array($0.utf8) },
          base: "\(scheme.rawValue)://\(authorityText)")
      }
    } catch {
      self.error(word.location, "\(error.reason) in \"proxy_pass\" directive: \"\(text)\"", hint: error.hint)
      return nil
    }
  }

  /// Refuses a host without a port in a protocol that has no default port.
  func requirePort(of authority: Authority, _ form: String) throws(Authority.ParseError) {
    guard case .host(let host, port: nil) = authority, namedGroups[host.lowercased()] == nil else { return }
    throw Authority.ParseError(reason: "no port in upstream", hint: "\(form); or an upstream's name")
  }

  /// Finds the `upstream` block of this name, or makes a group of the one address.
  mutating func target(
    _ authority: Authority, _ scheme: UpstreamScheme, _ directive: Directive
  ) throws(Authority.ParseError) -> Int? {
    if case .host(let host, let port) = authority, let index = namedGroups[host.lowercased()] {
      if let port {
        throw .init(
          reason: "upstream \"\(host)\" may not have port \(port)",
          hint: "the servers of the group have their own ports")
      }
      return index
    }
    if case .host(let host, _) = authority, !host.contains("."),
      let nearest = Spelling.nearest(to: host.lowercased(), among: namedGroups.keys.sorted())
    {
      warning(
        directive.place(0), "\"\(host)\" is not an upstream block; sallyport resolves it as a host name",
        hint: "did you mean \"\(nearest)\"?")
    }
    return group(for: authority, defaultPort: scheme.defaultPort, at: directive.location)
  }

  /// Splits the URI part off, in `host:80/path` and in `unix:/socket:/path`.
  private static func splitURI(_ text: String) -> (authority: String, uri: String?) {
    if text.lowercased().hasPrefix("unix:") {
      let path = text.dropFirst("unix:".count)
      guard let colon = path.firstIndex(of: ":") else { return (text, nil) }
      let uri = path[path.index(after: colon)...]
      return (String(text[..<colon]), uri.isEmpty ? nil : String(uri))
    }
    guard let start = text.firstIndex(where: { $0 == "/" || $0 == "?" }) else { return (text, nil) }
    let uri = String(text[start...])
    return (String(text[..<start]), uri.hasPrefix("?") ? "/\(uri)" : uri)
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
    func says(_ name: String) -> Bool { fields.contains { $0.name.lowercasedText == name } }
    if !says("host") { fields.append(SetField(name: Array("Host".utf8), fallback: host)) }
    for feature in Features.ofHTTPLocation {
      for (name, value) in feature.upstreamFields(scope) where !says(name) {
        fields.append(SetField(name: Array(name.utf8), value: value))
      }
    }
    if scope.isGRPC, !says("te") {
      fields.append(SetField(name: Array("TE".utf8), value: Template([.variable(.feature(GRPC.takenTrailers))])))
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
  private mutating func hiddenFields(_ scope: Scope) -> [[UInt8]] {
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

  private func timeouts(_ scope: Scope) -> UpstreamTimeouts {
    var timeouts = UpstreamTimeouts()
    timeouts.connect = scope.milliseconds("proxy_connect_timeout") ?? timeouts.connect
    timeouts.send = scope.milliseconds("proxy_send_timeout") ?? timeouts.send
    timeouts.read = scope.milliseconds("proxy_read_timeout") ?? timeouts.read
    return timeouts
  }

  private func retry(_ scope: Scope) -> RetrySettings {
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

  /// The name of the location's kind if nginx allows no URI part in it, for the message; otherwise nil.
  fileprivate var kindWithoutURI: String? {
    switch self {
    case .prefix, .prefixNoRegex, .exact: nil
    case .regex: "in a regular expression location"
    case .named: "in a named location"
    }
  }
}

extension Level {
  fileprivate var kindWithoutURI: String? {
    if case .conditional(_, let block, _) = self { block.rawValue } else { match.kindWithoutURI }
  }
}

extension Scope {
  /// `proxy_pass_trailers`. gRPC has its status in the trailers, so they always pass there.
  fileprivate var passesTrailers: Bool { isGRPC || flag("proxy_pass_trailers") ?? true }
}

extension Scope {
  /// What `proxy_http_version` says; the default is that of nginx 1.30.
  var upstreamVersion: UpstreamVersion {
    switch versionLine?.text(0) {
    case _ where isGRPC: .http2
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

extension UpstreamPass {
  func fileUses(_ location: LocationSettings) -> [FileUse] {
    var uses = (tls?.fileUses ?? []) + (signing?.fileUses ?? []) + [.bodyFolder(of: location)]
    if let envelope { uses += FileUse.material(envelope.keyFiles, reloads: envelope.reloads) }
    if let authentication {
      uses += FileUse.material([authentication.users], reloads: authentication.reloads)
      if case .permanent(folder: let folder) = authentication.persistence { uses.append(.path(.change, folder)) }
    }
    if let identity {
      uses += [identity.certificate, identity.key].compactMap { path in
        path.flatMap { FileUse.folder(before: $0, in: identity.folder, at: identity.location) }
      }
    }
    return uses
  }
}
