import Crypto
import Forward
import Language
import Observability
import SPIFFE
import TLS
import Traffic

/// Errors in what a server takes from the SPIFFE Workload API. Each case is one rule.
enum ServerWorkloadRule: CaseIterable {
  case invalidIdentity
  case invalidTrustDomain
  case identityBesideOthers
  case keyBesideIdentity
  case filesBesideBundles
  case listsBesideBundles
  case fetchedListsBesideBundles
  case frontsBesideBundles
  case bundlesUnjudged

  func diagnostic(_ block: ServerBlock) -> Diagnostic? {
    guard let tls = block.tls, !tls.workloadReferences.isEmpty else { return nil }
    switch self {
    case .invalidIdentity:
      guard let reference = tls.workloadIdentity else { return nil }
      return WorkloadIdentityRule.fault(of: reference)
    case .invalidTrustDomain:
      guard let reference = tls.clientCertificate else { return nil }
      return WorkloadIdentityRule.fault(ofTrust: reference)
    case .identityBesideOthers:
      guard let reference = tls.workloadIdentity, tls.presented.count > 1 else { return nil }
      return Diagnostic(
        .error, at: reference.location, "\"ssl_certificate \(reference)\" beside other certificates",
        hint: "a SPIFFE identity stands alone: use a separate server for the others, with a name of its own")
    case .keyBesideIdentity:
      guard tls.workloadIdentity != nil, let key = block.line(ServerTLS.certificateKey) else { return nil }
      return Diagnostic(
        .error, at: key.location, "\"ssl_certificate_key\" beside a SPIFFE identity",
        hint: "the key comes with the certificate: remove this line, or move it into the servers that need it")
    case .filesBesideBundles:
      guard tls.workloadTrust != nil, let line = block.line(ServerTLS.trustedCertificate) else { return nil }
      return Diagnostic(
        .error, at: line.location, "\"ssl_trusted_certificate\" beside the bundles of SPIFFE",
        hint: "a CA of a file would vouch for every trust domain: use a separate server for its clients")
    case .listsBesideBundles:
      guard tls.workloadTrust != nil, let line = block.line(ServerTLS.revocationList) else { return nil }
      return Diagnostic(
        .error, at: line.location, "\"ssl_crl\" beside the bundles of SPIFFE",
        hint: "the agent sends the revocation lists with the bundles: remove this line")
    case .fetchedListsBesideBundles:
      guard tls.workloadTrust != nil, tls.revocationFetch.isOn else { return nil }
      return Diagnostic(
        .error, at: block.line(ServerTLS.revocationFetch)?.location ?? block.place,
        "\"ssl_crl_fetch\" beside the bundles of SPIFFE",
        hint: "the agent sends the revocation lists with the bundles: ssl_crl_fetch off; here")
    case .frontsBesideBundles:
      guard tls.workloadTrust != nil, block.takesRelayedClients else { return nil }
      return Diagnostic(
        .error, at: tls.clientCertificate?.location ?? block.place,
        "\"real_client_cert_from\" beside the bundles of SPIFFE",
        hint: "certificates in a field are verified by the CAs of a file: ssl_client_certificate FILE;")
    case .bundlesUnjudged:
      guard tls.workloadTrust != nil, tls.verification == .optionalNoCA else { return nil }
      return Diagnostic(
        .error, at: block.line(ServerTLS.verification)?.location ?? block.place,
        "\"ssl_verify_client optional_no_ca\" beside the bundles of SPIFFE",
        hint: "an ID that no bundle verifies says nothing: ssl_verify_client on, or optional")
    }
  }
}
