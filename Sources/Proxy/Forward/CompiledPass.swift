import Negotiation
import Bytes
import Enrolment
import Envelope
import HTTP
import Identity
import Observability
import Signature
import TLS
import Transport
import Upstream

/// `proxy_pass` in one worker.
final class CompiledPass: LiveContent {
  let settings: UpstreamPass
  /// nil when the target has variables, or the group has `resolve`.
  let group: UpstreamGroup?
  /// The group with `resolve` that the target names.
  let followed: FollowedGroup?
  /// Of all groups, because a target with variables can name any of them.
  let balances: [ObjectIdentifier: LiveBalance]
  let context: UpstreamTLSContext?
  let targetTemplate: CompiledTemplate?
  /// How names in the target are resolved; nil: by the system.
  let names: LiveNames?
  /// `$proxy_host` and `$proxy_port` of a target without variables.
  let host: [UInt8]
  let port: [UInt8]
  let tlsName: CompiledTemplate
  /// nil if `context` has the certificate to present, or presents none.
  let identity: LiveIdentity?
  /// nil when the name has variables, or the connection's origin differs per request.
  let trust: UpstreamTrust?
  // Those of `group` and `trust`, where no request has a say in them: uncounted, for each request asks.
  private let settledGroup: Unmanaged<UpstreamGroup>?
  private let settledTrust: Unmanaged<UpstreamTrust>?
  let attempt: AttemptSettings
  /// What is said to the upstream before TLS, or before the client's bytes; nil: nothing.
  let negotiation: UpstreamNegotiation?
  /// `proxy_ssl_alpn` with variables; empty: `context` has the names.
  private let offeredProtocols: [CompiledTemplate]
  /// Bytes of a response that may wait for the client.
  let bufferTotal: Int
  let setFields: LiveFieldBlock
  let serverTokens: Bool
  let method: CompiledTemplate?
  /// Client fields that are not passed on, because they are set here.
  let replaced: NameSet
  /// Whether `proxy_set_header` sets Early-Data itself.
  let setsEarlyData: Bool
  /// Whether a set field can make the connection that of its client, or end it.
  private let setsOwnership: Bool
  /// Upstream fields that the client does not get.
  let hidden: NameSet
  let redirects: [(from: LivePattern, to: CompiledTemplate)]
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
  let body: CompiledTemplate?
  override var signsRequests: Bool { settings.signing != nil }
  override var filters: [ResponseFilter] { ownFilters }
  private let ownFilters: [ResponseFilter]

  /// `tokens`: `server_tokens` of the location.
  init(_ settings: UpstreamPass, tokens: Bool, makers: LiveMakers) {
    self.settings = settings
    self.serverTokens = tokens
    self.names = makers.resolvers.names(settings.nameResolution)
    self.balances = makers.balances
    self.host = Array(settings.host.utf8)
    self.port = Array(settings.port.utf8)
    self.context = settings.tls.flatMap { makers.generation.upstreamContexts[$0] }
    self.envelope = settings.envelope.flatMap { makers.generation[EnvelopeMaterial.self].envelopes[$0] }
    let mayServe =
      (settings.scheme != .https || context != nil) && (settings.envelope == nil || envelope != nil)
    if mayServe, case .group(let index, _) = settings.target {
      self.followed = makers.followed[index]
    } else {
      self.followed = nil
    }
    self.signer = settings.signing.flatMap { makers.generation[SignatureMaterial.self].signers[$0] }
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
      self.targetTemplate = template.compiled
    }
    self.tlsName = settings.tlsName.compiled
    self.identity = settings.identity.map { LiveIdentity($0) }
    let origin = LiveOrigin(settings.origin)
    self.origin = origin
    self.body = settings.body.map(\.compiled)
    self.ownFilters = settings.readRate.map { [UpstreamRate($0)] } ?? []
    let negotiation = settings.tcp?.opening.map {
      UpstreamNegotiation($0.kind, goal: $0.goal, name: Sockets.hostName)
    }
    self.negotiation = negotiation
    let offered = settings.tcp?.offeredProtocols.map(\.compiled) ?? []
    self.offeredProtocols = offered
    self.trust = settings.tlsName.constant.flatMap { [context] name in
      (offered.isEmpty ? origin.settled : nil).map {
        UpstreamTrust(
          context: context, name: UpstreamPass.nameForTLS(name), connection: settings.version.connection,
          origin: $0, negotiation: negotiation)
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
        setFields.add(field.name, field.candidates.map(settings.resolved))
      }
    }
    self.setFields = setFields
    self.method = settings.method.map(\.compiled)
    var replaced = NameSet()
    for field in settings.setFields {
      // A field that is set must not come from the client under any spelling, because it can carry the client's
      // identity, also through a variable of `set`.
      replaced.insert(field.name, withAliases: true)
    }
    self.setsEarlyData = replaced.contains(name: "Early-Data")
    self.setsOwnership = settings.setFields.contains { ConnectionOwnership.mayBeOfOneClient($0) }
    let removed = makers.removedNames + makers.identityNames.names(inServer: makers.server, to: settings)
    for name in removed { replaced.insert(name, withAliases: true) }
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
    self.redirects = settings.redirects.map { (LivePattern($0.from), $0.to.compiled) }
    self.cookies = CookieRewrite(settings.cookies)
    self.rewrittenFields = (redirects.isEmpty ? FieldNameSet() : FieldNameSet(.location, .refresh)).union(
      cookies == nil ? FieldNameSet() : FieldNameSet(.setCookie))
  }

  override func handler(for worker: Worker) -> ContentHandler? {
    settings.tcp == nil ? worker.takeProxyHandler(self) : worker.takeTCPHandler(self)
  }

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

  override func storage(for exchange: Exchange) -> RequestBody? {
    envelope == nil ? nil : RequestBody(envelopeIn: exchange.worker.bodies)
  }

  override func admits(_ count: Int, in kept: RequestBody, _ exchange: Exchange) -> Bool {
    envelope.map { EnvelopeFilter.admits(count, in: kept, of: $0, exchange) } ?? true
  }

  /// A body opened from an envelope may only go to a location with the same keys. Another body may only go to a
  /// location without `message_envelope`.
  override func takes(_ body: RequestBody) -> Bool {
    guard let opened = body.openedBy else { return settings.envelope == nil }
    return settings.envelope?.hasKeys(of: opened) ?? false
  }
}

extension CompiledPass {
  /// `proxy_ssl_name` for an exchange, without the port that $proxy_host or $http_host may bring (nginx takes it off too).
  func nameForTLS(_ exchange: Exchange) -> String { UpstreamPass.nameForTLS(tlsName.bytes(exchange)) }
}

extension CompiledPass {
  /// What ALPN offers for an exchange; empty: what the TLS context offers. As in nginx, a value that is no name of ALPN is
  /// left out.
  func protocols(_ exchange: Exchange) -> OfferedProtocols {
    let names = offeredProtocols.map { $0.bytes(exchange) }
    for name in names where name.count > 255 {
      exchange.log(.info, "a protocol of \(name.count) bytes in \"proxy_ssl_alpn\" isn't offered: 255 are the most")
    }
    return OfferedProtocols(names)
  }
}

/// The user of a connection that no other request may share; compared by identity.
final class OwnSession: Sendable {}
