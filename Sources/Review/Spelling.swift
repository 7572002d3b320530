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

extension Int {
  /// `1 client`, `2 clients`. `many`: nil for a word that gets an s.
  func of(_ one: String, _ many: String? = nil) -> String { "\(self) \(self == 1 ? one : many ?? one + "s")" }
}
