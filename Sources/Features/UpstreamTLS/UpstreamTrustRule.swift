import Forward
import Language
import Observability
import Traffic
import Transport
import Upstream

/// Errors in a location's trust in its upstream, except pins. Each case is one rule, in the order of the messages.
enum UpstreamTrustRule: CaseIterable {
  case upstreamOfWhichNothingIsSaid
  case verifyOffBesideTrust
  case noAnchors
  case nameCheckOfUnverified
  case revocationOfUnverified
  case keyWithoutCertificate
  case groupNameAsServerName
  case plainPortForTLS
  case tlsForPlainUpstream

  func diagnostic(_ facts: UpstreamTrustFacts) -> Diagnostic? {
    if self == .tlsForPlainUpstream { return tlsForPlainUpstream(facts) }
    let place = facts.pass.location
    guard facts.mayUseTLS else { return nil }
    switch self {
    case .upstreamOfWhichNothingIsSaid:
      // Where variables say the scheme, `TargetSchemeRule` judges.
      guard facts.saysNothing else { return nil }
      return Self.nothingSaid(of: facts.isOfStream ? "TLS" : "https", at: place, target: facts.pass.text(0))
    case .verifyOffBesideTrust:
      guard let verify = facts.verify, !verify.value else { return nil }
      let other = facts.trustedCertificate ?? (facts.trustSystem?.value == true ? facts.trustSystem?.directive : nil)
      guard let other else { return nil }
      return Diagnostic(
        .error, at: verify.directive.location, "\"proxy_ssl_verify off\" beside \"\(other.name)\"",
        hint: "nothing is verified against these CAs: remove one of the two; the other is at \(other.location)")
    case .noAnchors:
      guard facts.verifiesChain, !facts.trustsSystem, facts.trustedCertificate == nil, !facts.excusesChain,
        !facts.pinsAreAnchors
      else { return nil }
      return Diagnostic(
        .error, at: facts.trustSystem?.directive.location ?? place,
        "there are no CAs to verify the upstream's chain",
        hint: "add proxy_ssl_trusted_certificate, or remove proxy_ssl_trust_system off")
    case .nameCheckOfUnverified:
      guard let name = facts.verifyName, name.value, let verify = facts.verify, !verify.value, !facts.isPinned else {
        return nil
      }
      return Diagnostic(
        .warning, at: name.directive.location, "\"proxy_ssl_verify_name on\" has no effect beside proxy_ssl_verify off",
        hint: "without verification, a certificate can contain any name")
    case .revocationOfUnverified:
      guard let line = facts.revocation, !facts.verifiesChain else { return nil }
      return Diagnostic(
        .error, at: line.location, "\"proxy_ssl_crl\" without verification of the chain",
        hint: "a revocation list needs a verified chain: use proxy_ssl_verify on, or remove the list")
    case .keyWithoutCertificate:
      guard let key = facts.certificateKey, facts.certificate == nil else { return nil }
      return Diagnostic(
        .error, at: key.location, "\"proxy_ssl_certificate_key\" without \"proxy_ssl_certificate\"",
        hint: "name the certificate that the key belongs to")
    case .groupNameAsServerName:
      guard facts.verifiesName, let group = facts.namedGroup, !group.serverNames.contains(group.name.lowercased())
      else { return nil }
      return Diagnostic(
        .warning, at: place, "the upstream's certificate must be for \"\(group.name)\", the name of the group",
        hint: "set the name in the certificate: proxy_ssl_name \(group.serverNames.first ?? "NAME");")
    case .plainPortForTLS:
      guard let server = facts.group?.servers.first(where: { $0.address.port == 80 }) else { return nil }
      return Diagnostic(
        .warning, at: server.location, "\(server.address) would get TLS on port 80",
        hint: "in an upstream block the default port is 80: write \(server.address.host):443")
    case .tlsForPlainUpstream:
      return nil
    }
  }

  /// `target`: the URL of the upstream, for the message about many.
  static func nothingSaid(of kind: String, at place: SourceLocation, target: String = "") -> Diagnostic {
    let level = kind == "https" ? "http" : "stream"
    return Diagnostic(.error, at: place, "this \(kind) upstream has no trust settings", hint: trustHint).sharing(
      .init(
        "trust of \(kind) upstreams", subject: target, title: "\(kind) upstreams without trust",
        remedy: "one line at the level of \(level) covers them: proxy_ssl_verify on; (the system's CAs), or "
          + "proxy_ssl_trusted_certificate FILE; a pin is of one upstream"))
  }

  static let trustHint: Wording =
    "pin its key (`sallyport pin HOST:PORT` prints the line), or write proxy_ssl_verify on, or proxy_ssl_verify off to accept any upstream"

  private func tlsForPlainUpstream(_ facts: UpstreamTrustFacts) -> Diagnostic? {
    guard facts.scheme == .http, let line = facts.ownTLSLine else { return nil }
    return Diagnostic(
      .warning, at: line.location, "\"\(line.name)\" has no effect: the connection to the upstream has no TLS",
      hint: facts.isOfStream
        ? "proxy_ssl on;, for the proxy_pass at \(facts.pass.location)"
        : "proxy_pass https://…, at \(facts.pass.location)")
  }
}

extension UpstreamGroupSettings {
  fileprivate var serverNames: [String] { servers.map { $0.address.host.lowercased() } }
}

extension UpstreamAddress {
  var port: UInt16? {
    switch self {
    case .address(let address): address.port
    case .name(_, let port): port
    }
  }

  var host: String {
    switch self {
    case .address(let address): address.host
    case .name(let name, _): name
    }
  }
}
