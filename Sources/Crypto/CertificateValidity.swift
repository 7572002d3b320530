import COpenSSL
import Glibc

extension Certificate {
  /// The start of the certificate's validity.
  package var notBefore: CertificateTime { Self.time(UnsafeRawPointer(X509_get0_notBefore(handle))) }
  /// The end of the certificate's validity.
  package var notAfter: CertificateTime { Self.time(UnsafeRawPointer(X509_get0_notAfter(handle))) }
  /// nginx's $ssl_client_v_start: `Jan  1 00:00:00 2026 GMT`; empty for an unreadable time.
  package var notBeforeText: String { Self.text(UnsafeRawPointer(X509_get0_notBefore(handle))) }
  /// nginx's $ssl_client_v_end, in the form of `notBeforeText`.
  package var notAfterText: String { Self.text(UnsafeRawPointer(X509_get0_notAfter(handle))) }

  /// `notAfter` for a message: the date, or that it can't be read.
  package var notAfterWords: String { notAfter == .unreadable ? "a time that can't be read" : notAfterText }
  package var notBeforeWords: String { notBefore == .unreadable ? "a time that can't be read" : notBeforeText }

  private static func time(_ time: UnsafeRawPointer?) -> CertificateTime {
    seconds(time).map { .at($0) } ?? .unreadable
  }

  /// ASN1_TIME_print writes "Bad time value" and returns 0 when it can't read the time.
  private static func text(_ time: UnsafeRawPointer?) -> String {
    MemoryBIO.text { copenssl_time_print($0, time) - 1 }
  }

  /// Seconds since 1970; nil for an unreadable time. `time`: ASN1_TIME*, borrowed.
  static func seconds(_ time: UnsafeRawPointer?) -> Int64? {
    var parts = tm()
    // ASN1_TIME_to_tm would read a null time as the current time.
    guard let time, copenssl_time_to_tm(time, &parts) == 1 else {
      OpenSSLError.discard()
      return nil
    }
    return Int64(timegm(&parts))
  }
}
