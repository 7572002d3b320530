import Crypto
import TLS

/// `proxy_ssl_certificate` with variables in one worker.
struct LiveIdentity {
  private let certificate: LiveTemplate
  private let key: LiveTemplate?
  private let folder: String

  init(_ settings: PresentedIdentitySettings) {
    certificate = LiveTemplate(settings.certificate)
    key = settings.key.map { LiveTemplate($0) }
    folder = settings.folder
  }

  /// What they name for this exchange.
  func source(_ exchange: Exchange) throws(MaterialError) -> CertificateSource {
    CertificateSource(
      certificate: try reference(certificate, exchange, isKey: false),
      key: try key.map { (key) throws(MaterialError) in try reference(key, exchange, isKey: true) })
  }

  /// A value that a client has a say in must not climb out of the folder that was meant.
  private func reference(
    _ template: LiveTemplate, _ exchange: Exchange, isKey: Bool
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
