import Crypto
import TLS

extension Certificate {
  /// Whose certificate it is, for a line of the error log: `, subject: "…", issuer: "…", serial: …`.
  ///
  /// Bounded, for it may be a stranger's. RFC 2253 escapes quotation marks, and the log what would end its line.
  var loggedIdentity: String {
    ", subject: \"\(Self.bounded(subject.rfc2253, 256))\", issuer: \"\(Self.bounded(issuer.rfc2253, 256))\", "
      + "serial: \(Self.bounded(serial, 64))"
  }

  /// At most so many octets.
  private static func bounded(_ text: String, _ limit: Int) -> String {
    text.utf8.count <= limit ? text : String(decoding: text.utf8.prefix(limit), as: UTF8.self) + "…"
  }
}
