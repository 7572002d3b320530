import Bytes
package import HTTP
package import Negotiation
import Observability
package import TLS
public import Traffic
import Transport
package import Upstream

/// An `UpstreamPass` in one worker.
public final class CompiledPass: LiveContent {
  package let settings: UpstreamPass
  /// nil when the target has variables, or the group has `resolve`.
  package let group: UpstreamGroup?
  /// The group with `resolve` that the target names.
  package let followed: FollowedGroup?
  /// Of all groups, because a target with variables can name any of them.
  package let balances: [ObjectIdentifier: GroupBalance]
  package let context: UpstreamTLSContext?
  let targetTemplate: CompiledTemplate?
  /// Where a target with variables finds its group.
  package let dynamicGroups: DynamicGroups
  /// How names in the target are resolved; nil: by the system.
  package let names: LiveNames?
  /// `$proxy_host` and `$proxy_port` of a target without variables.
  package let host: [UInt8]
  package let port: [UInt8]
  package let tlsName: CompiledTemplate
  /// nil if `context` has the certificate to present, or presents none.
  package let identity: LiveIdentity?
  /// nil when the name has variables, or the connection's origin differs per request.
  package let trust: UpstreamTrust?
  // Those of `group` and `trust`, where no request has a say in them: uncounted, for each request asks.
  private let settledGroup: Unmanaged<UpstreamGroup>?
  private let settledTrust: Unmanaged<UpstreamTrust>?
  package let attempt: AttemptSettings
  /// What is said to the upstream before TLS, or before the client's bytes; nil: nothing.
  package let negotiation: UpstreamNegotiation?
  /// `proxy_ssl_alpn` with variables; empty: `context` has the names.
  private let offeredProtocols: [CompiledTemplate]
  /// `proxy_upload_rate` and `proxy_download_rate` of `stream`; nil: no limit.
  let uploadRate: CompiledTemplate?
  let downloadRate: CompiledTemplate?
  // Settled at load, because each request asks.
  private let isHTTP2: Bool
  /// Bytes of a response that may wait for the client.
  let bufferTotal: Int
  package let setFields: LiveFieldBlock
  package let serverTokens: Bool
  package let method: CompiledTemplate?
  /// Client fields that are not passed on, because they are set here.
  package let replaced: NameSet
  /// Whether `proxy_set_header` sets Early-Data itself.
  let setsEarlyData: Bool
  /// Whether a set field can make the connection that of its client, or end it.
  private let setsOwnership: Bool
  /// Upstream fields that the client does not get.
  package let hidden: NameSet
  /// What each request runs; empty for most passes.
  package let requestHooks: [RequestHook]
  private let responseHooks: [ResponseHook]
  /// The fields that `responseHooks` may change.
  let rewrittenFields: FieldNameSet
  /// nil: bodies of responses are the upstream's own.
  package let ownBodies: OwnResponseBodies?
  /// What fields of responses can tell features, and those fields.
  private let instructions: [UpstreamInstruction]
  let instructingFields: FieldNameSet
  package let origin: LiveOrigin
  /// `proxy_set_body`
  package let body: CompiledTemplate?
  public override var digestsBodies: Bool { needsDigests }
  private let needsDigests: Bool
  public override var filters: [ResponseFilter] { ownFilters }
  private let ownFilters: [ResponseFilter]
  // Not retained: the worker holds it, and outlives its generations.
  package unowned(unsafe) let spares: SpareHandlers

  /// `tokens`: `server_tokens` of the location.
  package init(_ settings: UpstreamPass, tokens: Bool, makers: LiveMakers) {
    self.settings = settings
    self.isHTTP2 = settings.version == .http2
    self.serverTokens = tokens
    self.spares = makers.worker[SpareHandlers.self]
    let groups = makers[LiveGroups.self]
    self.dynamicGroups = settings.tcp == nil ? groups.http : groups.stream
    self.names = groups.resolvers.names(settings.target.nameResolution)
    self.balances = makers[GroupBalances.self].all
    self.host = Array(settings.target.host.utf8)
    self.port = Array(settings.target.port.utf8)
    self.context = settings.trust.tls.flatMap { makers.generation.upstreamContexts[$0] }
    var settled: UpstreamGroup?, followed: FollowedGroup?
    if case .group(let index, _) = settings.target.upstream {
      followed = groups.followed[index]
      // Of a group with `resolve`, an exchange takes the list of servers that there is when it begins.
      settled = followed == nil && groups.all.indices.contains(index) ? groups.all[index] : nil
    }
    var parts = PassParts(settings, settled)
    for part in settings.parts { part.compile(&parts, makers) }
    // Without the TLS context, the upstream can't be verified, so no request goes to it (`DynamicTarget` refuses a value
    // that says https itself). Without what a feature needs, bodies would go out in plain text, or requests unsigned.
    let mayServe = !parts.isBroken && (settings.scheme != .https || context != nil)
    self.group = mayServe ? settled : nil
    self.followed = mayServe ? followed : nil
    self.targetTemplate = mayServe ? settings.target.upstream.template?.compiled : nil
    self.tlsName = settings.trust.name.compiled
    self.identity = settings.trust.identity.map { LiveIdentity($0, makers) }
    let origin = LiveOrigin(settings.origin, makers.generation)
    self.origin = origin
    self.body = settings.request.body.map(\.compiled)
    self.ownFilters = parts.filters
    self.needsDigests = parts.digestsBodies
    self.requestHooks = parts.requestHooks
    self.ownBodies = parts.ownBodies
    self.responseHooks = parts.responseHooks
    self.rewrittenFields = parts.responseHooks.reduce(FieldNameSet()) { $0.union($1.fields) }
    let ignored = settings.response.ignoredFields
    self.instructions = makers.shared.features.directives[PassFeatureList.self].instructions.filter {
      ignored.isDisjoint(with: $0.ignored)
    }
    self.instructingFields = instructions.reduce(into: FieldNameSet()) { $0.insert($1.field) }
    let negotiation = settings.tcp?.opening.map {
      UpstreamNegotiation($0.kind, goal: $0.goal, name: Sockets.hostName)
    }
    self.negotiation = negotiation
    let offered = settings.tcp?.offeredProtocols.map(\.compiled) ?? []
    self.offeredProtocols = offered
    self.uploadRate = settings.tcp?.uploadRate?.compiled
    self.downloadRate = settings.tcp?.downloadRate?.compiled
    self.trust = settings.trust.name.constant.flatMap { [context] name in
      (offered.isEmpty ? origin.settled : nil).map {
        UpstreamTrust(
          context: context, name: UpstreamPass.nameForTLS(name), connection: settings.version.connection,
          origin: $0, negotiation: negotiation)
      }
    }
    let isSettled = group != nil && trust != nil && identity == nil
    self.settledGroup = isSettled ? group.map { Unmanaged.passUnretained($0) } : nil
    self.settledTrust = isSettled ? trust.map { Unmanaged.passUnretained($0) } : nil
    self.bufferTotal = settings.buffers.total
    self.attempt = AttemptSettings(
      timeouts: settings.timeouts,
      headLimits: HeadLimits(
        lineBytes: settings.buffers.head, headBytes: settings.buffers.head, fields: 1000,
        ignoreInvalidNames: false, underscores: true), place: ObjectIdentifier(settings))
    // sallyport writes the framing itself. A second framing would allow request smuggling.
    var setFields = LiveFieldBlock()
    for field in settings.request.fields {
      let id = Array(field.name).withUnsafeBytes { FieldName.known($0) }
      if id != .contentLength && id != .transferEncoding {
        setFields.add(field.name, field.candidates.map(settings.resolved))
      }
    }
    self.setFields = setFields
    self.method = settings.request.method.map(\.compiled)
    var replaced = NameSet()
    for field in settings.request.fields {
      // A field that is set must not come from the client under any spelling, because it can carry the client's
      // identity, also through a variable of `set`.
      replaced.insert(field.name, withAliases: true)
    }
    self.setsEarlyData = replaced.contains(name: "Early-Data")
    self.setsOwnership = settings.request.fields.contains { ConnectionOwnership.mayBeOfOneClient($0) }
    for name in makers.removedNames { replaced.insert(name, withAliases: true) }
    replaced.formUnion(parts.replaced)
    self.replaced = replaced
    var hidden = parts.hidden
    for name in settings.response.hiddenFields { hidden.insert(name, withAliases: false) }
    self.hidden = hidden
  }

  public override func handler(for worker: Worker) -> ContentHandler? {
    let isOfRequests = settings.tcp == nil
    return borrowing(spares) { isOfRequests ? $0.takeProxyHandler(self) : $0.takeTCPHandler(self) }
  }

  public override func rehearsal(_ trace: ExplainTrace) -> ContentHandler? { RehearsedPass(self, trace) }

  public override var isUpstream: Bool { true }

  /// See `ContentHandler.isCompressible`.
  package var isCompressible: Bool { ownBodies == nil && !settings.dialect.callsMethods }

  /// Whether the request's credentials may make the whole connection that of its client (NTLM, Negotiate). Over HTTP/2
  /// the requests of other clients would share it.
  @inline(__always)
  func needsOwnSession(_ exchange: Exchange) -> Bool {
    isHTTP2 && hasCredentials(exchange) && ConnectionOwnership.isOfOneClient(exchange.head)
  }

  @inline(__always)
  private func hasCredentials(_ exchange: Exchange) -> Bool {
    let present = exchange.head.present
    return present.contains(.authorization) || present.contains(.proxyAuthorization)
  }

  /// Whether the outgoing request must be looked at (`ConnectionOwnership`).
  @inline(__always)
  func mayOwnConnection(_ exchange: Exchange) -> Bool { setsOwnership || hasCredentials(exchange) }

  /// Calls with the group that was settled at load; nil: a request has a say in it.
  @inline(__always)
  func withSettledGroup<Value>(_ body: (UpstreamGroup) -> Value) -> Value? {
    settledGroup?._withUnsafeGuaranteedRef { body($0) }
  }

  /// Begins an attempt by what was settled at load; false when the request has a say in group, name or certificate.
  // Not inlined: what an object asks of its own parts is not counted.
  @inline(never)
  package func begin(_ attempt: UpstreamAttempt, again: Int?) -> Bool {
    guard let settledGroup, let settledTrust else { return false }
    settledGroup._withUnsafeGuaranteedRef { group in
      settledTrust._withUnsafeGuaranteedRef { attempt.begin(group, $0, self.attempt, again: again) }
    }
    return true
  }

  public override func storage(for exchange: Exchange) -> RequestBody? {
    requestHooks.lazy.compactMap { $0.storage(for: exchange) }.first
  }

  public override func admits(_ count: Int, in kept: RequestBody, _ exchange: Exchange) -> Bool {
    requestHooks.allSatisfy { $0.admits(count, in: kept, exchange) }
  }

  /// A body that a feature has opened may only go to a location that would have opened it, and a body in clear only to one
  /// that opens none.
  public override func takes(_ body: RequestBody) -> Bool {
    body.isOpened
      ? requestHooks.contains { $0.takes(opened: body) } : !requestHooks.contains { $0.opensBodies }
  }

  // MARK: Responses

  /// The value that a feature gives a field of a response; nil: the value stays.
  package func rewritten(_ field: Field, in bytes: UnsafeRawBufferPointer, _ exchange: Exchange) -> [UInt8]? {
    for hook in responseHooks where hook.fields.contains(field.id) {
      if let value = hook.value(of: field, in: bytes, exchange) { return value }
    }
    return nil
  }

  /// Does what the fields of a response tell features.
  @inline(__always)
  package func obey(_ response: ResponseHead, _ exchange: Exchange) {
    if !response.present.intersection(instructingFields).isEmpty { obeyEach(response, exchange) }
  }

  @inline(never)
  private func obeyEach(_ response: ResponseHead, _ exchange: Exchange) {
    for one in instructions where response.present.contains(one.field) { one.obey(response, exchange) }
  }
}

extension CompiledPass {
  /// `proxy_ssl_name`, without the port that $proxy_host or $http_host may bring (nginx takes it off too).
  package func nameForTLS(_ transaction: Transaction) -> String { UpstreamPass.nameForTLS(tlsName.bytes(transaction)) }
}

extension CompiledPass {
  /// What ALPN offers; empty: what the TLS context offers. As in nginx, a value that is no name of ALPN is
  /// left out.
  package func protocols(_ transaction: Transaction) -> OfferedProtocols {
    let names = offeredProtocols.map { $0.bytes(transaction) }
    for name in names where name.count > 255 {
      transaction.log(.info, "a protocol of \(name.count) bytes in \"proxy_ssl_alpn\" isn't offered: 255 are the most")
    }
    return OfferedProtocols(names)
  }
}

/// The user of a connection that no other request may share; compared by identity.
final class OwnSession: Sendable {}
