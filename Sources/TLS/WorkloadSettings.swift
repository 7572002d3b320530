public import Crypto
public import SPIFFE

extension MaterialReference {
  /// The SPIFFE ID that follows `spiffe:`; nil for `spiffe:` alone, and for what is no reference to the Workload API.
  public func workloadID() throws(SPIFFEIDError) -> SPIFFEID? {
    guard case .workload(let text) = spelling, text != "spiffe:" else { return nil }
    return try SPIFFEID(parsing: text)
  }
}

extension WorkloadTrust {
  /// What a reference to the Workload API means where CAs are named: `spiffe:`, or the ID of a trust domain. nil for a file.
  public init?(_ reference: MaterialReference?) throws(SPIFFEIDError) {
    guard let reference, reference.isOfWorkload else { return nil }
    guard let id = try reference.workloadID() else {
      self = .everyDomain
      return
    }
    guard id.path.isEmpty else { throw SPIFFEIDError("it names a workload, not a trust domain") }
    self = .domain(id.trustDomain)
  }
}

extension ServerTLSSettings {
  /// `ssl_client_certificate spiffe:`; nil if a file has the CAs. What can't be parsed is told when it is read.
  public var workloadTrust: WorkloadTrust? { (try? WorkloadTrust(clientCertificate)).flatMap { $0 } }
  /// `ssl_certificate spiffe:`
  public var workloadIdentity: MaterialReference? { certificates.map(\.certificate).first { $0.isOfWorkload } }
  /// All of them.
  public var workloadReferences: [MaterialReference] {
    (certificates.map(\.certificate) + [clientCertificate].compactMap { $0 }).filter(\.isOfWorkload)
  }
}

extension UpstreamTLSSettings {
  /// `proxy_ssl_certificate spiffe:`
  public var workloadIdentity: MaterialReference? {
    certificate.flatMap { $0.certificate.isOfWorkload ? $0.certificate : nil }
  }
  /// Whether identity or bundles come from the Workload API.
  public var usesWorkload: Bool { workloadIdentity != nil || trust.bundles != nil }
}
