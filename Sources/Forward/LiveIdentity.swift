package import Crypto
import Observability
package import TLS
package import Traffic
import Upstream

/// `proxy_ssl_certificate` with variables in one worker.
package struct LiveIdentity {
  private let certificate: CompiledTemplate
  private let key: CompiledTemplate?
  private let folder: String
  private let presented: PresentedIdentities

  package init(_ settings: PresentedIdentitySettings, _ makers: LiveMakers) {
    certificate = settings.certificate.compiled
    key = settings.key.map(\.compiled)
    folder = settings.folder
    presented = makers[LiveGroups.self].identities(settings.cache, makers)
  }

  /// The certificate and key that the templates name for this request or session.
  package func source(_ transaction: Transaction) throws(MaterialError) -> CertificateSource {
    CertificateSource(
      certificate: try reference(certificate, transaction, isKey: false),
      key: try key.map { (key) throws(MaterialError) in try reference(key, transaction, isKey: true) })
  }

  /// Calls back with the context that presents that certificate beside what `base` says, perhaps at once; or
  /// refuses the client.
  package func find(
    for transaction: Transaction, _ base: UpstreamTLSContext, _ found: @escaping (UpstreamTLSContext) -> Void
  ) {
    // As in nginx, an empty name means that no certificate is presented.
    if certificate.bytes(transaction).isEmpty { return found(base) }
    let source: CertificateSource
    do throws(MaterialError) { source = try self.source(transaction) } catch {
      return Self.refuse(error.message, transaction)
    }
    let serial = transaction.serial
    presented.find(base, source) { outcome in
      // The client may have left, and the object may serve another request.
      guard serial == transaction.serial else { return }
      switch outcome {
      case .success(let context):
        if context.certificate?.allowsClients == false {
          transaction.tellOfRepeated(
            .warn,
            "the certificate presented to the upstream is not one for clients: its extended key usage lacks clientAuth")
        }
        found(context)
      case .failure(let refusal): Self.refuse(refusal.reason, transaction)
      }
    }
  }

  private static func refuse(_ reason: String, _ transaction: Transaction) {
    transaction.tellOfRepeated(.error, "no certificate to present to the upstream: \(reason)")
    transaction.refuse(.upstream)
  }

  /// A value that a client influences must not lead out of the configured folder.
  private func reference(
    _ template: CompiledTemplate, _ transaction: Transaction, isKey: Bool
  ) throws(MaterialError) -> MaterialReference {
    let text = String(decoding: template.bytes(transaction), as: UTF8.self)
    guard !text.split(separator: "/").contains("..") else {
      throw MaterialError(
        culprit: text, location: nil, message: "\"\(text)\": a variable may not bring \"..\" into a path")
    }
    let reference = try MaterialReference(parsing: text, relativeTo: folder, isKey: isKey)
    if case .key = reference.spelling, template.constant == nil {
      throw MaterialError(
        culprit: text, location: nil, message: "\"\(reference)\": a variable may not name a key of a token or store")
    }
    return reference
  }
}
