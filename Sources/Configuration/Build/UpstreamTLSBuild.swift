import Crypto
import Observability
import Proxy
import TLS
import Upstream

extension SettingsBuilder {
  /// What is in effect for a location's upstream: said here or inherited, not yet judged.
  mutating func upstreamTrustFacts(_ scope: Scope, _ url: PassedURL, _ pass: Directive) -> UpstreamTrustFacts {
    var facts = UpstreamTrustFacts(scheme: url.scheme, pass: pass)
    facts.verify = Said(scope.value("proxy_ssl_verify"), scope.flag("proxy_ssl_verify"))
    facts.trustSystem = Said(scope.value("proxy_ssl_trust_system"), scope.flag("proxy_ssl_trust_system"))
    facts.verifyName = Said(scope.value("proxy_ssl_verify_name"), scope.flag("proxy_ssl_verify_name"))
    facts.trustedCertificate = scope.value("proxy_ssl_trusted_certificate")
    facts.pinning = Said(scope.value("proxy_ssl_pinning"), scope.text("proxy_ssl_pinning")?.lowercased())
    facts.pins = scope.list("proxy_ssl_pin")
    facts.certificate = scope.value("proxy_ssl_certificate")
    facts.revocation = scope.list("proxy_ssl_crl").first
    facts.certificateKey = scope.value("proxy_ssl_certificate_key")
    facts.ownTLSLine = scope.directives.first { $0.name.hasPrefix("proxy_ssl_") }
    if scope.value("proxy_ssl_name") == nil, case .group(let index) = url.target,
      case .host(let host, _)? = url.authority, namedGroups[host.lowercased()] == index
    {
      facts.namedGroup = groups[index]
    }
    if case .group(let index) = url.target { facts.group = groups[index] }
    return facts
  }

  mutating func upstreamTLS(_ scope: Scope, _ facts: UpstreamTrustFacts) -> UpstreamTLSSettings {
    var tls = UpstreamTLSSettings()
    tls.verifiesChain = facts.verifiesChain
    tls.verifiesName = facts.verifiesName
    tls.verifyDepth = scope.number("proxy_ssl_verify_depth") ?? 1
    tls.trustedCertificate = material(facts.trustedCertificate)
    tls.trustsSystem = facts.trustsSystem
    tls.revocationLists = scope.list("proxy_ssl_crl").flatMap { materials($0) }
    tls.reloads = scope.flag("ssl_reload") ?? true
    tls.pinning = facts.isPinned ? .publicKey : .none
    tls.pins = facts.pins.flatMap { pins($0) }
    if let certificate = material(facts.certificate) {
      tls.certificate = CertificateSource(certificate: certificate, key: material(facts.certificateKey))
    }
    tls.passwordFile = material(scope.value("proxy_ssl_password_file"))
    tls.sendsServerName = scope.flag("proxy_ssl_server_name") ?? false
    tls.reusesSessions = scope.flag("proxy_ssl_session_reuse") ?? true
    tls.versions = versions(scope.value("proxy_ssl_protocols"))
    tls.ciphers = scope.text("proxy_ssl_ciphers")
    tls.confCommands = confCommands(scope.list("proxy_ssl_conf_command"))
    tls.location = facts.pass.location
    return tls
  }

  /// The arguments of one `proxy_ssl_pin`: hashes are judged here, files when they are loaded.
  private mutating func pins(_ line: Directive) -> [PinSource] {
    line.arguments.compactMap { word in
      if let diagnostic = PinSpellingRule.diagnostic(word, folder: folder) {
        diagnostics.append(diagnostic)
        return nil
      }
      return PinSource(spelling: word.text, folder: folder, location: word.location)
    }
  }
}
