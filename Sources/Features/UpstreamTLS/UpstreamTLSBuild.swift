import Crypto
import Forward
import Language
import Observability
import SPIFFE
import TLS
import Traffic
import Upstream

extension UpstreamTLS {
  static func readPass(_ draft: inout PassDraft, _ builder: inout SettingsBuilder) {
    let facts = trustFacts(draft, &builder)
    builder.diagnostics += UpstreamTrustRule.allCases.compactMap { $0.diagnostic(facts) }
    builder.diagnostics += UpstreamWorkloadRule.allCases.compactMap { $0.diagnostic(facts) }
    builder.diagnostics += PinningRule.allCases.flatMap { $0.diagnostics(facts) }
    let host = draft.url.authority.map { Template(literal: $0.nameForTLS) }
    draft.trust.name =
      draft.scope.tlsNameLine.map { builder.template($0, 0) } ?? host
      ?? Template([.variable(.simple(.proxy_host))])
    guard facts.mayUseTLS else { return }
    draft.trust.identity = presentedIdentity(draft.scope, facts, &builder)
    draft.trust.tls = settings(draft, facts, &builder)
  }

  /// Collects the directives in effect for a location's upstream, own and inherited, without checking them.
  private static func trustFacts(_ draft: PassDraft, _ builder: inout SettingsBuilder) -> UpstreamTrustFacts {
    let scope = draft.scope, url = draft.url
    var facts = UpstreamTrustFacts(scheme: url.scheme, pass: draft.line, isOfStream: draft.level.isOfStream)
    facts.verify = Said(verify, in: scope)
    facts.trustSystem = Said(trustSystem, in: scope)
    facts.verifyName = Said(verifyName, in: scope)
    facts.allowInvalid = Said(allowInvalid, in: scope)
    facts.reportOnly = Said(reportOnly, in: scope)
    facts.trustedCertificate = trustedCertificate.line(in: scope)
    facts.pinning = Said(pinning.line(in: scope), pinning.text(in: scope)?.lowercased())
    facts.pins = pin.lines(in: scope).flatMap { SaidPin.all(of: $0, &builder) }
    facts.pinLine = pin.line(in: scope)
    facts.certificate = UpstreamTrustFacts.presented(certificate.line(in: scope))
    facts.revocation = revocationList.line(in: scope)
    // As in nginx, an empty certificate needs no key, also where an outer level names one.
    let isNone = certificate.line(in: scope) != nil && facts.certificate == nil
    facts.certificateKey = isNone ? nil : UpstreamTrustFacts.presented(certificateKey.line(in: scope))
    readWorkload(scope, &facts, &builder)
    facts.ownTLSLine = scope.directives.first { $0.name.hasPrefix("\(draft.dialect.prefix)ssl_") }
    if scope.tlsNameLine == nil, case .group(let index, _) = url.target,
      case .host(let host, _)? = url.authority, builder.namedGroups[host.lowercased()] == index
    {
      facts.namedGroup = builder.groups[index]
    }
    if case .group(let index, _) = url.target { facts.group = builder.groups[index] }
    return facts
  }

  /// Reads what the location takes of the Workload API to verify the upstream.
  private static func readWorkload(_ scope: Scope, _ facts: inout UpstreamTrustFacts, _ builder: inout SettingsBuilder)
  {
    facts.idLine = workloadID.line(in: scope)
    for word in workloadID.lines(in: scope).flatMap(\.arguments) {
      do throws(SPIFFEIDError) { facts.ids.append(try SPIFFEIDPattern(parsing: word.text)) } catch {
        builder.error(
          word.location, "invalid SPIFFE ID \"\(word.text)\" in \"proxy_ssl_spiffe_id\" directive: \(error)",
          hint: "spiffe://example.org/ns/*/sa/app, with \"**\" at the end for any rest of the path")
      }
    }
    for line in [facts.trustedCertificate, facts.certificate] {
      guard let line, line.text(0).hasPrefix("spiffe:"), !line.text(0).contains("$"),
        let reference = builder.material(line)
      else { continue }
      let isTrust = line.name == facts.trustedCertificate?.name
      let fault =
        isTrust ? WorkloadIdentityRule.fault(ofTrust: reference) : WorkloadIdentityRule.fault(of: reference)
      if let fault { builder.diagnostics.append(fault) }
      if isTrust { facts.workloadTrust = (try? WorkloadTrust(reference)).flatMap { $0 } }
    }
  }

  private static func settings(_ draft: PassDraft, _ facts: UpstreamTrustFacts, _ builder: inout SettingsBuilder)
    -> UpstreamTLSSettings
  {
    let scope = draft.scope
    var tls = UpstreamTLSSettings()
    rows.read(scope, into: &tls, &builder)
    tls.offersHTTP2 = draft.settings.version == .http2
    tls.protocols = draft.offeredProtocols
    tls.trust = facts.settings(
      trusted: builder.material(facts.trustedCertificate),
      pins: facts.pins.map {
        PinSource(spelling: $0.word.text, scope: $0.scope, folder: builder.folder, location: $0.word.location)
      })
    tls.reloads = scope.reloadsFiles
    if facts.identityHasVariables {
      // The certificate differs per request: see `presentedIdentity`.
    } else if let certificate = builder.material(facts.certificate) {
      tls.certificate = CertificateSource(certificate: certificate, key: builder.material(facts.certificateKey))
    }
    tls.curvesDirective = "\(draft.dialect.prefix)ssl_ecdh_curve"
    tls.location = facts.pass.location
    return tls
  }

  static func revokedUpstream(_ line: Directive, _ builder: inout SettingsBuilder) -> RevokedUpstream {
    if let value = RevokedUpstream(rawValue: line.text(0)) { return value }
    builder.refuse(line, 0, hint: "one of \(RevokedUpstream.allCases.map(\.rawValue).joined(separator: ", "))")
    return .keep
  }

  /// The certificate that sallyport presents, if it depends on the request; nil if it is the same for all requests.
  private static func presentedIdentity(_ scope: Scope, _ facts: UpstreamTrustFacts, _ builder: inout SettingsBuilder)
    -> PresentedIdentitySettings?
  {
    // Also where it has no effect, so that its faults are told.
    let cache = presentedCache(scope, &builder)
    guard facts.identityHasVariables, let certificate = facts.certificate else {
      if let line = certificateCache.ownLine(in: scope), line.text(0) != "off" {
        builder.warning(
          line.location, "\"proxy_ssl_certificate_cache\" has no effect: no certificate here has variables",
          hint: "leave it out: other certificates are read at start and at reload")
      }
      return nil
    }
    return PresentedIdentitySettings(
      certificate: builder.template(certificate, 0), key: facts.certificateKey.map { builder.template($0, 0) },
      folder: builder.folder,
      location: certificate.location, cache: cache)
  }

  /// `proxy_ssl_certificate_cache`
  private static func presentedCache(_ scope: Scope, _ builder: inout SettingsBuilder) -> PresentedIdentityCache {
    guard let line = certificateCache.line(in: scope) else { return .standard }
    return CertificateCacheSettings.read(line, &builder).map { .kept($0) } ?? .off
  }
}

extension Scope {
  /// `proxy_ssl_name`
  var tlsNameLine: Directive? { UpstreamTLS.serverName.line(in: self) }
}
