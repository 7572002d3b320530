package import Crypto
import Observability

// Describes certificates in one line, for `check` and `pin`.

extension Certificate {
  /// The certificate's subject, names and expiry date. A server may have sent it, so control characters are escaped.
  package var summary: String {
    let names = subjectAltNames.all.map(\.description)
    return LogEscape.visible(
      "\(subject)" + (names.isEmpty ? "" : " (\(names.joined(separator: ", ")))") + ", until \(notAfterWords)")
  }
}
