import Bytes
import COpenSSL

extension RevocationList {
  /// One certificate that a CRL lists.
  package struct Entry: Sendable, Hashable {
    /// In the form of `Certificate.serial`.
    package let serial: String
    /// Seconds since 1970.
    package let date: Int64
    package let reason: Reason?

    package init(serial: String, date: Int64, reason: Reason? = nil) {
      self.serial = serial
      self.date = date
      self.reason = reason
    }
  }

  /// RFC 5280 §5.3.1. removeFromCRL is missing: in a complete CRL it would undo the revocation.
  package enum Reason: Int, Sendable, Hashable {
    case unspecified = 0
    case keyCompromise = 1
    case authorityCompromise = 2
    case affiliationChanged = 3
    case superseded = 4
    case cessationOfOperation = 5
    case certificateHold = 6
  }

  /// The listed certificates in order, without their reasons.
  package var entries: [Entry] {
    (0..<copenssl_sk_X509_REVOKED_num(handle)).compactMap { index in
      guard let entry = copenssl_sk_X509_REVOKED_value(handle, index),
        let serial = Certificate.hexadecimal(UnsafeRawPointer(X509_REVOKED_get0_serialNumber(entry)))
      else { return nil }
      return Entry(
        serial: serial,
        date: Certificate.seconds(UnsafeRawPointer(X509_REVOKED_get0_revocationDate(entry))) ?? thisUpdate)
    }
  }
}
