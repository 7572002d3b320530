package import Crypto
import Observability
package import TLS
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

  /// The certificate and key that the templates name for this exchange.
  package func source(_ exchange: Exchange) throws(MaterialError) -> CertificateSource {
    CertificateSource(
      certificate: try reference(certificate, exchange, isKey: false),
      key: try key.map { (key) throws(MaterialError) in try reference(key, exchange, isKey: true) })
  }

  /// Calls back with the context that presents that certificate beside what `base` says, perhaps at once; or fails the
  /// exchange with 502.
  package func find(for exchange: Exchange, _ base: UpstreamTLSContext, _ found: @escaping (UpstreamTLSContext) -> Void)
  {
    // As in nginx, an empty name means that no certificate is presented.
    if certificate.bytes(exchange).isEmpty { return found(base) }
    let source: CertificateSource
    do throws(MaterialError) { source = try self.source(exchange) } catch {
      return Self.refuse(error.message, exchange)
    }
    let serial = exchange.serial
    presented.find(base, source) { outcome in
      // The client may have left, and the object may serve another request.
      guard serial == exchange.serial else { return }
      switch outcome {
      case .success(let context):
        if context.certificate?.allowsClients == false {
          exchange.tellOfRepeated(
            .warn,
            "the certificate presented to the upstream is not one for clients: its extended key usage lacks clientAuth")
        }
        found(context)
      case .failure(let refusal): Self.refuse(refusal.reason, exchange)
      }
    }
  }

  private static func refuse(_ reason: String, _ exchange: Exchange) {
    exchange.tellOfRepeated(.error, "no certificate to present to the upstream: \(reason)")
    exchange.fail(ErrorResponse(502))
  }

  /// A value that a client influences must not lead out of the configured folder.
  private func reference(
    _ template: CompiledTemplate, _ exchange: Exchange, isKey: Bool
  ) throws(MaterialError) -> MaterialReference {
    let text = String(decoding: template.bytes(exchange), as: UTF8.self)
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
