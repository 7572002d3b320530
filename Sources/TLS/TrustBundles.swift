import COpenSSL
package import Crypto
public import SPIFFE

/// What settings take of the Workload API's bundles (`ssl_client_certificate spiffe:`).
public enum WorkloadTrust: Sendable, Hashable {
  /// Every trust domain of which the agent gives a bundle: the process's own, and the federated ones.
  case everyDomain
  /// One trust domain alone (`spiffe://example.org`).
  case domain(TrustDomain)

  func takes(_ domain: TrustDomain) -> Bool {
    switch self {
    case .everyDomain: true
    case .domain(let only): only == domain
    }
  }
}

/// Whether what a context has of the Workload API may be used. It may until the identity ends that came with it.
public enum WorkloadTerm: Sendable, Hashable {
  /// The context takes nothing from the Workload API.
  case unneeded
  case missing(reason: String)
  /// Seconds since 1970.
  case until(Int64)

  /// Why the context can't be used now; nil if it can. A context without its identity or its bundles never does less: it
  /// refuses the handshake.
  package func fault(at now: Int64) -> String? {
    switch self {
    case .unneeded: nil
    case .missing(let reason): "there is no SPIFFE identity: \(reason)"
    case .until(let end): now < end ? nil : "the SPIFFE identity has ended, and the agent has sent no other"
    }
  }

  /// When it ends, in seconds since 1970; nil if it has no end, or none after `moment`.
  func end(after moment: Int64) -> Int64? {
    if case .until(let end) = self, end > moment { end } else { nil }
  }
}

/// The authorities that verify SVIDs, each for its own trust domain: a peer is verified by the authorities of the trust
/// domain of its own SPIFFE ID and by nobody else's (SPIFFE_Workload_API §4.6). Immutable.
public final class TrustBundles: Sendable {
  package let anchors: [TrustDomain: TrustAnchors]
  /// 32 octets: part of the policy by which sessions are told apart.
  package let digest: [UInt8]

  package init(_ material: WorkloadMaterial?, _ trust: WorkloadTrust) throws(OpenSSLError) {
    var anchors: [TrustDomain: TrustAnchors] = [:]
    var bytes: [UInt8] = []
    let bundles = (material?.bundles ?? [:]).filter { trust.takes($0.key) }
    for domain in bundles.keys.sorted() {
      guard let bundle = bundles[domain] else { continue }
      anchors[domain] = try TrustAnchors(.certificates(bundle.authorities), revocations: bundle.revocations)
      bytes += Array(domain.name.utf8) + [0] + bundle.digest
    }
    self.anchors = anchors
    digest = Digest.of([5] + bytes)
  }

  /// Every authority, for listings.
  package var certificates: [Certificate] { domains.flatMap { anchors[$0]?.certificates ?? [] } }
  package var revocations: [RevocationList] { domains.flatMap { anchors[$0]?.revocations ?? [] } }
  package var domains: [TrustDomain] { anchors.keys.sorted() }

  /// As `TrustAnchors.judgementEnd`, of all trust domains.
  package func judgementEnd(of moment: Int64) -> Int64? {
    anchors.values.compactMap { $0.judgementEnd(of: moment) }.min()
  }

  /// As `TrustAnchors.nextChange`, of all trust domains.
  package func nextChange(after moment: Int64) -> Int64? {
    anchors.values.compactMap { $0.nextChange(after: moment) }.min()
  }

  /// Verifies a peer's SVID. `leaf` and `sent`: X509* and STACK_OF(X509)*, as the handshake has them.
  ///
  /// A bundle's authority is an anchor whether or not it is self-signed: X509-SVID §6.1 only recommends that.
  func find(leaf: OpaquePointer, sent: OpaquePointer?, by verification: ChainVerification) -> ChainFinding {
    let id: SPIFFEID
    do throws(WorkloadFault) { id = try SVIDRule.id(of: Certificate(retaining: leaf)) } catch {
      return .faulty(
        ChainError(kind: .other, text: "no SVID: \(error)", code: X509_V_ERR_APPLICATION_VERIFICATION))
    }
    guard let anchors = anchors[id.trustDomain] else {
      return .faulty(
        ChainError(
          kind: .other, text: "no bundle of the trust domain \(id.trustDomain.name)",
          code: X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY))
    }
    return verification.find(leaf: leaf, sent: sent, anchors: anchors, partial: true)
  }

  /// Why an SVID of a message is none of the bundle of its trust domain, whatever the clock says: the agent's certificates
  /// may begin a moment later here. nil: it is one.
  package static func fault(of svid: X509SVID, by bundle: TrustBundle) -> WorkloadFault? {
    let anchors: TrustAnchors
    do throws(OpenSSLError) {
      anchors = try TrustAnchors(.certificates(bundle.authorities), revocations: bundle.revocations)
    } catch {
      return WorkloadFault("OpenSSL refuses the bundle of \(svid.id.trustDomain): \(error)")
    }
    guard let sent = copenssl_sk_X509_new() else { return WorkloadFault("out of memory") }
    defer { copenssl_sk_X509_free(sent) }
    for certificate in svid.pair.chain where copenssl_sk_X509_push(sent, certificate.handle) <= 0 {
      return WorkloadFault("out of memory")
    }
    let verification = ChainVerification(
      depth: X509SVIDResponse.Limits.certificatesOfChain, level: 1, use: .any, ignoresTime: true)
    let finding = verification.find(
      leaf: svid.pair.certificate.handle, sent: sent, anchors: anchors, partial: true)
    guard case .faulty(let fault) = finding else { return nil }
    return WorkloadFault("the chain of \(svid.id) does not verify by its own bundle: \(fault.text)")
  }
}
