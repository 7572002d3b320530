import Crypto
import TLS

extension Certificate {
  /// The certificate's names for a line of the error log: `, subject: "…", issuer: "…", serial: …`.
  ///
  /// The length is limited, because a client can present any certificate. RFC 2253 escapes quotation marks, and the log
  /// escapes bytes that would end its line.
  var loggedIdentity: String {
    ", subject: \"\(Self.bounded(subject.rfc2253, 256))\", issuer: \"\(Self.bounded(issuer.rfc2253, 256))\", "
      + "serial: \(Self.bounded(serial, 64))"
  }

  /// Cuts a text to `limit` octets.
  private static func bounded(_ text: String, _ limit: Int) -> String {
    text.utf8.count <= limit ? text : String(decoding: text.utf8.prefix(limit), as: UTF8.self) + "…"
  }
}
