import Crypto
import Forward
import Language
import Observability
import SPIFFE
import TLS
import Traffic

/// Errors in what a location takes from the SPIFFE Workload API towards its upstream. Each case is one rule.
enum UpstreamWorkloadRule: CaseIterable {
  case bundlesWithoutID
  case idWithoutBundles
  case idOfOtherDomain
  case bundlesBesideOthers
  case keyBesideIdentity

  func diagnostic(_ facts: UpstreamTrustFacts) -> Diagnostic? {
    guard facts.mayUseTLS else { return nil }
    switch self {
    case .bundlesWithoutID:
      guard facts.isOfWorkload, facts.idLine == nil else { return nil }
      return Diagnostic(
        .error, at: facts.trustedCertificate?.location ?? facts.pass.location,
        "the upstream is verified by SPIFFE, and nothing says which ID it must have",
        hint: "proxy_ssl_spiffe_id spiffe://example.org/ns/prod/sa/app; names have no meaning for an SVID")
    case .idWithoutBundles:
      guard let line = facts.idLine, !facts.isOfWorkload else { return nil }
      return Diagnostic(
        .error, at: line.location, "\"proxy_ssl_spiffe_id\" without the bundles of SPIFFE",
        hint: "proxy_ssl_trusted_certificate spiffe:; an ID counts only where its own trust domain vouches for it")
    case .idOfOtherDomain:
      guard let line = facts.idLine, case .domain(let domain)? = facts.workloadTrust,
        let other = facts.ids.first(where: { $0.trustDomain != domain })
      else { return nil }
      return Diagnostic(
        .error, at: line.location, "no upstream can have the ID \(other): only bundles of \(domain) verify it",
        hint: "proxy_ssl_trusted_certificate spiffe:; takes every trust domain that the agent knows")
    case .bundlesBesideOthers:
      guard facts.isOfWorkload, let (line, reason) = facts.besideBundles else { return nil }
      return Diagnostic(.error, at: line.location, "\"\(line.name)\" beside the bundles of SPIFFE", hint: reason)
    case .keyBesideIdentity:
      guard facts.certificate?.text(0).hasPrefix("spiffe:") == true, let key = facts.certificateKey else { return nil }
      return Diagnostic(
        .error, at: key.location, "\"proxy_ssl_certificate_key\" beside a SPIFFE identity",
        hint: "the key comes with the certificate: remove this line")
    }
  }
}

extension UpstreamTrustFacts {
  /// Whether the bundles of the Workload API verify the upstream.
  var isOfWorkload: Bool { trustedCertificate?.text(0).hasPrefix("spiffe:") == true }

  /// A line that would let somebody else vouch for the upstream, or that has no meaning for an SVID; and what to do.
  fileprivate var besideBundles: (Directive, String)? {
    if let pin = pins.first {
      return pinLine.map { ($0, "the key of an SVID changes with each renewal: remove \(pin.word.text)") }
    }
    if let trustSystem, trustSystem.value {
      return (trustSystem.directive, "the system's CAs vouch for no SPIFFE ID: remove this line")
    }
    if let revocation { return (revocation, "the agent sends the revocation lists with the bundles: remove this line") }
    if let verifyName, verifyName.value {
      return (
        verifyName.directive, "the ID of proxy_ssl_spiffe_id is checked in place of a host name: remove this line"
      )
    }
    return nil
  }
}
