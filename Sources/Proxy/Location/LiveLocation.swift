import Bytes
import Enrolment
import Envelope
import HTTP
import Identity
import Observability
import Signature
import TLS
import Upstream

/// One location in one worker: its settings, compiled into the steps of the phases and the content that an exchange runs.
final class LiveLocation {
  let settings: LocationSettings
  /// The root of a server block has no rewrite steps: the server's own phase runs them.
  let steps: PhaseSteps
  let hasNoSteps: Bool
  let content: LiveContent
  let inner: LocationTree
  let hasInner: Bool
  /// The identity of the access rules in effect, without a reference. A session remembers the rules that admitted it.
  let rules: ObjectIdentifier?
  let addedFields: [LiveField]
  let expires: LiveExpires?
  /// nil: `charset off`.
  let charset: LiveCharset?
  /// Whether one of these three says anything.
  let changesFields: Bool
  let earlyHints: [LiveTemplate]
  let realIP: LiveRealIP?
  let errorLog: ErrorLog
  let accessLogs: [LiveAccessLog]
  let hasAccessLogs: Bool
  /// `limit_except`
  let methodLimit: LiveMethodLimit?
  /// `valid_referers`
  let referers: LiveReferers?
  /// Whether the content is the location's own, not that of the location around an `if`.
  let hasOwnContent: Bool
  /// What features' variables ask for.
  let objects: [AnyObject]
  /// nil: neither `root` nor `alias` says where files are.
  let files: LiveFiles?
  /// What happens to the responses that leave here: those of the content, then those of the location, in nginx's order.
  let filters: [ResponseFilter]
  let policy: ResponsePolicy
  var limits: LocationLimits { settings.limits }

  /// `outer`: for an `if` or a `limit_except`, the content of the location around it, and its rewrite steps, of which the
  /// exchange runs the rest in an `if`.
  init(
    settings: LocationSettings, makers: LiveMakers, isRoot: Bool = false,
    outer: (content: LiveContent, rewrite: [PhaseStep])? = nil
  ) {
    self.settings = settings
    self.policy = ResponsePolicy(settings.limits)
    let program = isRoot || outer != nil ? RewriteProgram([]) : RewriteProgram(settings.rewrite)
    let realIP = settings.realIP.map { LiveRealIP($0, resolved: makers.generation.realIPHosts) }
    self.realIP = realIP
    let rewrite =
      makers.trace?.tracing(program.steps, settings.rewrite.flatWords(makers.generation.http.slotNames))
      ?? program.steps
    var parts = LocationParts()
    for feature in settings.features { feature.compile(&parts, makers) }
    var steps = Self.steps(settings, makers, parts.steps, rewrite: outer?.rewrite ?? rewrite)
    if let realIP, !isRoot { steps.preaccess.insert(RealIPStep(realIP), at: 0) }
    if let trace = makers.trace { steps = trace.tracing(steps) }
    self.steps = steps
    self.hasNoSteps = steps.isEmpty
    let isEmpty = if case .none = settings.action { true } else { false }
    let own = isEmpty ? Self.files(settings, outer: outer?.content) : Self.content(settings, makers)
    let isInherited = isEmpty && !(own is FileContent)
    let content = isInherited ? own : makers.trace.map { ExplainedContent(own, $0) } ?? own
    self.content = content
    self.files = settings.files.map { LiveFiles($0, real: makers.generation.realFolders[$0.root.folder]) }
    self.hasOwnContent = !isEmpty
    for (condition, block) in program.blocks {
      let inside = LiveLocation(settings: block, makers: makers, outer: (content, rewrite))
      condition.lead(to: makers.conditionals.add(inside))
    }
    self.methodLimit = settings.flow.methodLimit.map { limit in
      LiveMethodLimit(
        methods: limit.methods,
        location: LiveLocation(settings: limit.location, makers: makers, outer: (content, [])))
    }
    self.referers = settings.flow.referers.map { LiveReferers($0) }
    let inner = settings.locations.map { LiveLocation(settings: $0, makers: makers) }
    self.inner = LocationTree(inner)
    self.hasInner = !inner.isEmpty
    self.rules = settings.clientRules.map { ObjectIdentifier($0) }
    let expires = LiveExpires(settings.expires)
    self.expires = expires
    self.addedFields = settings.addedFields.map { LiveField($0) }
    self.charset = settings.charset.map { LiveCharset($0) }
    self.changesFields =
      expires != nil || settings.charset != nil || !settings.addedFields.isEmpty
    self.earlyHints = settings.earlyHints.map { LiveTemplate($0) }
    self.errorLog = makers.errorLog(settings.errorLogs)
    let accessLogs = settings.accessLogs.compactMap(makers.accessLogs.log)
    self.accessLogs = accessLogs
    self.hasAccessLogs = !accessLogs.isEmpty
    self.filters = content.filters + parts.filters
    self.objects = parts.objects
  }

  /// What a feature's variables ask for; nil: the location has nothing of it.
  func object<Part: AnyObject>(_: Part.Type) -> Part? {
    for object in objects where type(of: object) == Part.self { return unsafeDowncast(object, to: Part.self) }
    return nil
  }

  /// The steps of each phase, in the order of nginx's modules: addresses before passwords.
  private static func steps(
    _ settings: LocationSettings, _ makers: LiveMakers, _ own: PhaseSteps, rewrite: [PhaseStep]
  ) -> PhaseSteps {
    var steps = own
    steps.rewrite = rewrite
    steps.satisfy = settings.flow.satisfy
    if !settings.accessRules.isEmpty { steps.access.append(AddressAccess(settings.accessRules)) }
    if let access = settings.basicAccess, !settings.action.checksCredentials {
      steps.access.append(PasswordAccess(access, limits: makers.generation.guessLimits))
    }
    if let authorization = settings.subrequests?.authorization {
      steps.access.append(AuthorizationStep(authorization))
    }
    // First: no mirror gets a request that is refused, and no file's absence shows in the response.
    if let signature = settings.signature {
      steps.precontent.append(SignatureCheck(signature, settings.action, makers))
    }
    if let tryFiles = settings.files?.tryFiles { steps.precontent.append(TryFilesStep(tryFiles)) }
    if let mirrors = settings.subrequests?.mirrors { steps.precontent.append(MirrorStep(mirrors)) }
    return steps
  }

  /// The content of a location that names none: that around an `if`, or files. As in nginx, an `if` with a `root` still
  /// leaves the request to the `proxy_pass` around it.
  private static func files(_ settings: LocationSettings, outer: LiveContent?) -> LiveContent {
    if let outer, type(of: outer) != LiveContent.self { return outer }
    return settings.files == nil ? LiveContent() : FileContent()
  }

  /// One row for each content that a location can have.
  private static func content(_ settings: LocationSettings, _ makers: LiveMakers) -> LiveContent {
    switch settings.action {
    case .none: LiveContent()
    case .proxy(let pass): LiveProxyPass(pass, tokens: settings.redirects.serverTokens, makers: makers)
    case .metrics: MetricsContent()
    case .status: StatusContent()
    case .statusPage: StatusPageContent()
    case .enrolment(let enrolment):
      // Without `auth_basic` there are no users, and such a configuration doesn't load. The 404 is only for
      // completeness.
      settings.basicAccess.map { EnrolmentContent(enrolment, realm: LiveTemplate($0.realm)) } ?? LiveContent()
    }
  }
}

extension LocationAction {
  /// Whether the content checks credentials itself.
  fileprivate var checksCredentials: Bool {
    if case .enrolment = self { true } else { false }
  }
}

/// `limit_except` in one worker.
struct LiveMethodLimit {
  /// Upper-case names.
  let methods: [[UInt8]]
  /// For requests with another method.
  let location: LiveLocation

  /// Whether the request's method is listed. An error page is fetched with GET, or with HEAD for a HEAD request.
  func allows(_ exchange: Exchange) -> Bool {
    let isOwn = exchange.redirection.keepsBody || exchange.head.method == .head
    let method = isOwn ? Array(exchange.head.bytes.readable[exchange.head.methodRange]) : Array("GET".utf8)
    return methods.contains(method)
  }
}

/// `proxy_pass` in one worker.
final class LiveProxyPass: LiveContent {
  let settings: ProxyPassSettings
  /// nil when the target has variables, or the group has `resolve`.
  let group: UpstreamGroup?
  /// The group with `resolve` that the target names.
  let followed: FollowedGroup?
  /// Of all groups, because a target with variables can name any of them.
  let balances: [ObjectIdentifier: LiveBalance]
  let context: UpstreamTLSContext?
  let targetTemplate: LiveTemplate?
  /// How names in the target are resolved; nil: by the system.
  let names: LiveNames?
  /// `$proxy_host` and `$proxy_port` of a target without variables.
  let host: [UInt8]
  let port: [UInt8]
  let tlsName: LiveTemplate
  /// nil if `context` has the certificate to present, or presents none.
  let identity: LiveIdentity?
  /// nil when the name has variables, or the connection's origin differs per request.
  let trust: UpstreamTrust?
  // Those of `group` and `trust`, where no request has a say in them: uncounted, for each request asks.
  private let settledGroup: Unmanaged<UpstreamGroup>?
  private let settledTrust: Unmanaged<UpstreamTrust>?
  let attempt: AttemptSettings
  /// Bytes of a response that may wait for the client.
  let bufferTotal: Int
  let setFields: LiveFieldBlock
  let serverTokens: Bool
  let method: LiveTemplate?
  /// Client fields that are not passed on, because they are set here.
  let replaced: NameSet
  /// Whether `proxy_set_header` sets Early-Data itself.
  let setsEarlyData: Bool
  /// Whether a set field can make the connection that of its client, or end it.
  private let setsOwnership: Bool
  /// Upstream fields that the client does not get.
  let hidden: NameSet
  let redirects: [(from: LivePattern, to: LiveTemplate)]
  /// nil without `proxy_cookie_…`.
  let cookies: CookieRewrite?
  /// The fields that `redirects` and `cookies` may change.
  let rewrittenFields: FieldNameSet
  /// `message_envelope on`.
  let envelope: MessageEnvelope?
  let authentication: LiveUpstreamAuth?
  /// `message_signature sign`
  let signer: MessageSigner?
  let origin: LiveOrigin
  /// `proxy_set_body`
  let body: LiveTemplate?
  override var filters: [ResponseFilter] { ownFilters }
  private let ownFilters: [ResponseFilter]

  /// `tokens`: `server_tokens` of the location.
  init(_ settings: ProxyPassSettings, tokens: Bool, makers: LiveMakers) {
    self.settings = settings
    self.serverTokens = tokens
    self.names = makers.resolvers.names(settings.nameResolution)
    self.balances = makers.balances
    self.host = Array(settings.host.utf8)
    self.port = Array(settings.port.utf8)
    self.context = settings.tls.flatMap { makers.generation.upstreamContexts[$0] }
    self.envelope = settings.envelope.flatMap { makers.generation.envelopes[$0] }
    let mayServe =
      (settings.scheme != .https || context != nil) && (settings.envelope == nil || envelope != nil)
    if mayServe, case .group(let index, _) = settings.target {
      self.followed = makers.followed[index]
    } else {
      self.followed = nil
    }
    self.signer = settings.signing.flatMap { makers.generation.signatures.signers[$0] }
    switch settings.target {
    // An exchange takes the list of servers that there is when it begins.
    case .group where followed != nil:
      self.group = nil
      self.targetTemplate = nil
    // Without the TLS context, the upstream can't be verified, so no request goes to it. `DynamicTarget` refuses a value
    // that says https itself.
    case _ where settings.scheme == .https && context == nil:
      self.group = nil
      self.targetTemplate = nil
    // Without the envelope's keys, bodies would go out in plain text, and without the signer's, requests unsigned.
    case _ where settings.envelope != nil && envelope == nil || settings.signing != nil && signer == nil:
      self.group = nil
      self.targetTemplate = nil
    case .group(let index, _):
      self.group = makers.groups.indices.contains(index) ? makers.groups[index] : nil
      self.targetTemplate = nil
    case .template(let template, _), .url(let template):
      self.group = nil
      self.targetTemplate = LiveTemplate(template)
    }
    self.tlsName = LiveTemplate(settings.tlsName)
    self.identity = settings.identity.map { LiveIdentity($0) }
    let origin = LiveOrigin(settings.origin)
    self.origin = origin
    self.body = settings.body.map { LiveTemplate($0) }
    self.ownFilters = settings.readRate.map { [UpstreamRate($0)] } ?? []
    self.trust = settings.tlsName.constant.flatMap { [context] name in
      origin.settled.map {
        UpstreamTrust(
          context: context, name: ProxyPassSettings.nameForTLS(name), speaksHTTP2: settings.version == .http2,
          origin: $0)
      }
    }
    let isSettled = group != nil && trust != nil && identity == nil
    self.settledGroup = isSettled ? group.map { Unmanaged.passUnretained($0) } : nil
    self.settledTrust = isSettled ? trust.map { Unmanaged.passUnretained($0) } : nil
    self.bufferTotal = settings.bufferTotal
    self.attempt = AttemptSettings(
      timeouts: settings.timeouts,
      headLimits: HeadLimits(
        lineBytes: settings.headBufferSize, headBytes: settings.headBufferSize, fields: 1000,
        ignoreInvalidNames: false, underscores: true), place: ObjectIdentifier(settings))
    // sallyport writes the framing itself. A second framing would allow request smuggling.
    var setFields = LiveFieldBlock()
    for field in settings.setFields {
      let id = Array(field.name).withUnsafeBytes { FieldName.known($0) }
      if id != .contentLength && id != .transferEncoding {
        setFields.add(name: field.name, value: settings.resolved(field.value))
      }
    }
    self.setFields = setFields
    self.method = settings.method.map { LiveTemplate($0) }
    var replaced = NameSet()
    for field in settings.setFields {
      // A field that is set must not come from the client under any spelling, because it can carry the client's
      // identity, also through a variable of `set`.
      replaced.insert(field.name, withAliases: true)
    }
    self.setsEarlyData = replaced.contains(name: "Early-Data")
    self.setsOwnership = settings.setFields.contains { ConnectionOwnership.mayBeOfOneClient($0) }
    for name in makers.identityNames { replaced.insert(name, withAliases: true) }
    self.authentication = settings.authentication.map { [group] in LiveUpstreamAuth($0, settings, group, makers) }
    if authentication != nil { for name in LiveUpstreamAuth.ours { replaced.insert(name, withAliases: true) } }
    if envelope != nil {
      for name in EnvelopeFilter.unsentFields { replaced.insert(Array(name.utf8), withAliases: true) }
    }
    if let signer {
      for name in SignatureSigning.signatureFields { replaced.insert(Array(name.utf8), withAliases: true) }
      if signer.coversDigest { replaced.insert(Array("Content-Digest".utf8), withAliases: true) }
    }
    self.replaced = replaced
    var hidden = NameSet()
    for name in settings.hiddenFields { hidden.insert(name, withAliases: false) }
    if authentication != nil { for name in LiveUpstreamAuth.hidden { hidden.insert(name, withAliases: false) } }
    if envelope != nil {
      for name in EnvelopeFilter.unsealedFields { hidden.insert(Array(name.utf8), withAliases: false) }
    }
    self.hidden = hidden
    self.redirects = settings.redirects.map { (LivePattern($0.from), LiveTemplate($0.to)) }
    self.cookies = CookieRewrite(settings.cookies)
    self.rewrittenFields = (redirects.isEmpty ? FieldNameSet() : FieldNameSet(.location, .refresh)).union(
      cookies == nil ? FieldNameSet() : FieldNameSet(.setCookie))
  }

  override func handler(for worker: Worker) -> ContentHandler? { worker.takeProxyHandler(self) }

  /// See `ContentHandler.isCompressible`.
  var isCompressible: Bool { settings.envelope == nil && !settings.speaksGRPC }

  /// Whether the request's credentials may make the whole connection that of its client (NTLM, Negotiate). Over HTTP/2
  /// the requests of other clients would share it.
  @inline(__always)
  func needsOwnSession(_ exchange: Exchange) -> Bool {
    settings.version == .http2 && hasCredentials(exchange) && ConnectionOwnership.isOfOneClient(exchange.head)
  }

  @inline(__always)
  private func hasCredentials(_ exchange: Exchange) -> Bool {
    let present = exchange.head.present
    return present.contains(.authorization) || present.contains(.proxyAuthorization)
  }

  /// Whether the outgoing request must be looked at (`ConnectionOwnership`).
  @inline(__always)
  func mayOwnConnection(_ exchange: Exchange) -> Bool { setsOwnership || hasCredentials(exchange) }

  /// Begins an attempt by what was settled at load; false when the request has a say in group, name or certificate.
  // Not inlined: what an object asks of its own parts is not counted.
  @inline(never)
  func begin(_ attempt: UpstreamAttempt, again: Int?) -> Bool {
    guard let settledGroup, let settledTrust else { return false }
    settledGroup._withUnsafeGuaranteedRef { group in
      settledTrust._withUnsafeGuaranteedRef { attempt.begin(group, $0, self.attempt, again: again) }
    }
    return true
  }

  /// A body opened from an envelope may only go to a location with the same keys. Another body may only go to a
  /// location without `message_envelope`.
  override func takes(_ body: RequestBody) -> Bool {
    guard let opened = body.openedBy else { return settings.envelope == nil }
    return settings.envelope?.hasKeys(of: opened) ?? false
  }
}

extension LiveProxyPass {
  /// `proxy_ssl_name` for an exchange, without the port that $proxy_host or $http_host may bring (nginx takes it off too).
  func nameForTLS(_ exchange: Exchange) -> String { ProxyPassSettings.nameForTLS(tlsName.bytes(exchange)) }
}

/// The user of a connection that no other request may share; compared by identity.
final class OwnSession: Sendable {}
