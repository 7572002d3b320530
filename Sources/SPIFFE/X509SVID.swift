public import Crypto

/// The rules of a certificate that shows who a workload is (X509-SVID §3.1, §4 and §5.2), beside those of its chain.
public enum SVIDRule {
  /// Returns the SPIFFE ID of a leaf; throws if the certificate must not show an identity.
  ///
  /// A signing certificate never does, whatever its ID: who has its key could be anybody. Two URIs would let each reader
  /// choose one.
  package static func id(of leaf: Certificate) throws(WorkloadFault) -> SPIFFEID {
    let names = leaf.subjectAltNames
    guard !names.isMalformed else { throw WorkloadFault("its subjectAltName can't be read") }
    guard let uri = names.uris.first else {
      throw WorkloadFault("it has no SPIFFE ID: no URI is in its subjectAltName")
    }
    guard names.uris.count == 1 else {
      throw WorkloadFault("it has \(names.uris.count) URIs in its subjectAltName, and an SVID has exactly one")
    }
    let id: SPIFFEID
    do throws(SPIFFEIDError) { id = try SPIFFEID(uri.bytes) } catch {
      throw WorkloadFault("its URI is no SPIFFE ID: \(error)")
    }
    guard !id.path.isEmpty else { throw WorkloadFault("its SPIFFE ID is that of a trust domain, not of a workload") }
    let usage = leaf.usage
    guard usage.isAuthority != true, !usage.isMalformed else {
      throw WorkloadFault("it is a CA's certificate, which shows no identity")
    }
    guard let usages = usage.keyUsages else { throw WorkloadFault("it has no keyUsage, which an SVID needs") }
    guard usages.contains("digitalSignature") else { throw WorkloadFault("its keyUsage lacks digitalSignature") }
    guard !usages.contains("keyCertSign"), !usages.contains("cRLSign") else {
      throw WorkloadFault("its keyUsage lets it sign certificates or revocation lists")
    }
    return id
  }
}

/// An identity of this process: an SVID with its key.
public struct X509SVID: Sendable {
  public let id: SPIFFEID
  public let pair: CertifiedKey
  /// How the operator of the agent means it to be used; empty without a hint.
  public let hint: String
}

/// The authorities of a trust domain, and their revocation lists.
public struct TrustBundle: Sendable {
  public let trustDomain: TrustDomain
  /// Each is a CA. Empty: nobody of the trust domain is let in.
  public let authorities: [Certificate]
  public let revocations: [RevocationList]
}
