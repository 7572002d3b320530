import Crypto
import Observability
import SPIFFE
import TLS
import Upstream
import Language

extension UpstreamTLS {
  static func readPass(_ draft: inout PassDraft, _ builder: inout SettingsBuilder) {
    let facts = builder.upstreamTrustFacts(draft)
    builder.diagnostics += UpstreamTrustRule.allCases.compactMap { $0.diagnostic(facts) }
    builder.diagnostics += UpstreamWorkloadRule.allCases.compactMap { $0.diagnostic(facts) }
    builder.diagnostics += PinningRule.allCases.flatMap { $0.diagnostics(facts) }
    let host = draft.url.authority.map { Template(literal: $0.nameForTLS) }
    draft.trust.name =
      draft.scope.tlsNameLine.map { builder.template($0, 0) } ?? host
      ?? Template([.variable(.simple(.proxy_host))])
    guard facts.mayUseTLS else { return }
    draft.trust.identity = builder.presentedIdentity(draft.scope, facts)
    draft.trust.tls = builder.upstreamTLS(draft, facts)
  }
}

extension SettingsBuilder {
  /// Collects the directives in effect for a location's upstream, own and inherited, without checking them.
  fileprivate mutating func upstreamTrustFacts(_ draft: PassDraft) -> UpstreamTrustFacts {
    let scope = draft.scope, url = draft.url
    var facts = UpstreamTrustFacts(scheme: url.scheme, pass: draft.line, isOfStream: draft.level.isOfStream)
    facts.verify = Said(scope.value("proxy_ssl_verify"), scope.flag("proxy_ssl_verify"))
    facts.trustSystem = Said(scope.value("proxy_ssl_trust_system"), scope.flag("proxy_ssl_trust_system"))
    facts.verifyName = Said(scope.value("proxy_ssl_verify_name"), scope.flag("proxy_ssl_verify_name"))
    facts.allowInvalid = Said(scope.value("proxy_ssl_allow_invalid"), scope.flag("proxy_ssl_allow_invalid"))
    facts.reportOnly = Said(scope.value("proxy_ssl_pin_report_only"), scope.flag("proxy_ssl_pin_report_only"))
    facts.trustedCertificate = scope.value("proxy_ssl_trusted_certificate")
    facts.pinning = Said(scope.value("proxy_ssl_pinning"), scope.text("proxy_ssl_pinning")?.lowercased())
    facts.pins = scope.list("proxy_ssl_pin").flatMap { saidPins($0) }
    facts.pinLine = scope.list("proxy_ssl_pin").first
    facts.certificate = UpstreamTrustFacts.presented(scope.value("proxy_ssl_certificate"))
    facts.revocation = scope.list("proxy_ssl_crl").first
    // As in nginx, an empty certificate needs no key, also where an outer level names one.
    let isNone = scope.value("proxy_ssl_certificate") != nil && facts.certificate == nil
    facts.certificateKey = isNone ? nil : UpstreamTrustFacts.presented(scope.value("proxy_ssl_certificate_key"))
    readWorkload(scope, &facts)
    facts.ownTLSLine = scope.directives.first { $0.name.hasPrefix("\(draft.dialect.prefix)ssl_") }
    if scope.tlsNameLine == nil, case .group(let index, _) = url.target,
      case .host(let host, _)? = url.authority, namedGroups[host.lowercased()] == index
    {
      facts.namedGroup = groups[index]
    }
    if case .group(let index, _) = url.target { facts.group = groups[index] }
    return facts
  }

  /// Reads what the location takes of the Workload API to verify the upstream.
  private mutating func readWorkload(_ scope: Scope, _ facts: inout UpstreamTrustFacts) {
    facts.idLine = scope.list("proxy_ssl_spiffe_id").first
    for word in scope.list("proxy_ssl_spiffe_id").flatMap(\.arguments) {
      do throws(SPIFFEIDError) { facts.ids.append(try SPIFFEIDPattern(parsing: word.text)) } catch {
        self.error(
          word.location, "invalid SPIFFE ID \"\(word.text)\" in \"proxy_ssl_spiffe_id\" directive: \(error)",
          hint: "spiffe://example.org/ns/*/sa/app, with \"**\" at the end for any rest of the path")
      }
    }
    for line in [facts.trustedCertificate, facts.certificate] {
      guard let line, line.text(0).hasPrefix("spiffe:"), !line.text(0).contains("$"), let reference = material(line)
      else { continue }
      let isTrust = line.name == facts.trustedCertificate?.name
      let fault =
        isTrust ? WorkloadIdentityRule.fault(ofTrust: reference) : WorkloadIdentityRule.fault(of: reference)
      if let fault { diagnostics.append(fault) }
      if isTrust { facts.workloadTrust = (try? WorkloadTrust(reference)).flatMap { $0 } }
    }
  }

  fileprivate mutating func upstreamTLS(_ draft: PassDraft, _ facts: UpstreamTrustFacts) -> UpstreamTLSSettings {
    let scope = draft.scope
    var tls = UpstreamTLSSettings()
    tls.offersHTTP2 = draft.version == .http2
    tls.protocols = draft.offeredProtocols
    tls.trust = facts.settings(
      trusted: material(facts.trustedCertificate),
      pins: facts.pins.map {
        PinSource(spelling: $0.word.text, scope: $0.scope, folder: folder, location: $0.word.location)
      })
    tls.verifyDepth = scope.number("proxy_ssl_verify_depth") ?? 1
    tls.revocationLists = scope.list("proxy_ssl_crl").flatMap { materials($0) }
    tls.reloads = scope.reloadsFiles
    if facts.identityHasVariables {
      // The certificate differs per request: see `presentedIdentity`.
    } else if let certificate = material(facts.certificate) {
      tls.certificate = CertificateSource(certificate: certificate, key: material(facts.certificateKey))
    }
    tls.passwordFile = material(scope.value("proxy_ssl_password_file"))
    tls.sendsServerName = scope.flag("proxy_ssl_server_name") ?? false
    tls.reusesSessions = scope.flag("proxy_ssl_session_reuse") ?? true
    tls.revokedUpstream = revokedUpstream(scope.value("proxy_ssl_revoked_connections"))
    tls.versions = versions(scope.value("proxy_ssl_protocols"))
    tls.ciphers = scope.text("proxy_ssl_ciphers")
    tls.curves = scope.text("proxy_ssl_ecdh_curve").flatMap { $0 == "auto" ? nil : $0 }
    tls.curvesDirective = "\(draft.dialect.prefix)ssl_ecdh_curve"
    tls.confCommands = confCommands(scope.list("proxy_ssl_conf_command"))
    tls.location = facts.pass.location
    return tls
  }

  private mutating func revokedUpstream(_ line: Directive?) -> RevokedUpstream {
    guard let line else { return .keep }
    if let value = RevokedUpstream(rawValue: line.text(0)) { return value }
    error(
      line.place(0), "invalid value \"\(line.text(0))\" in \"\(line.name)\" directive",
      hint: "one of \(RevokedUpstream.allCases.map(\.rawValue).joined(separator: ", "))")
    return .keep
  }

  /// The certificate that sallyport presents, if it depends on the request; nil if it is the same for all requests.
  fileprivate mutating func presentedIdentity(_ scope: Scope, _ facts: UpstreamTrustFacts) -> PresentedIdentitySettings?
  {
    // Also where it has no effect, so that its faults are told.
    let cache = presentedCache(scope)
    guard facts.identityHasVariables, let certificate = facts.certificate else {
      if let line = scope.own("proxy_ssl_certificate_cache").first, line.text(0) != "off" {
        warning(
          line.location, "\"proxy_ssl_certificate_cache\" has no effect: no certificate here has variables",
          hint: "leave it out: other certificates are read at start and at reload")
      }
      return nil
    }
    return PresentedIdentitySettings(
      certificate: template(certificate, 0), key: facts.certificateKey.map { template($0, 0) }, folder: folder,
      location: certificate.location, cache: cache)
  }

  /// `proxy_ssl_certificate_cache`
  private mutating func presentedCache(_ scope: Scope) -> PresentedIdentityCache {
    guard let line = scope.value("proxy_ssl_certificate_cache") else { return .standard }
    return certificateCache(line).map { .kept($0) } ?? .off
  }
}

extension Scope {
  /// `proxy_ssl_name`
  var tlsNameLine: Directive? { value("proxy_ssl_name") }
}
