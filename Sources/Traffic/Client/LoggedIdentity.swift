package import Crypto
import TLS

extension Certificate {
  /// The certificate's names for a line of the error log: `, subject: "…", issuer: "…", serial: …`.
  ///
  /// The length is limited, because a client can present any certificate. RFC 2253 escapes quotation marks, and the log
  /// escapes bytes that would end its line.
  package var loggedIdentity: String {
    ", subject: \"\(subject.rfc2253.cut(to: 256))\", issuer: \"\(issuer.rfc2253.cut(to: 256))\", "
      + "serial: \(serial.cut(to: 64))"
  }
}

extension String {
  /// The text, cut to `limit` octets.
  package func cut(to limit: Int) -> String {
    utf8.count <= limit ? self : String(decoding: utf8.prefix(limit), as: UTF8.self) + "…"
  }
}
