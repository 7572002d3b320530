import COpenSSL
import Glibc

extension Certificate {
  /// Seconds since 1970. A time that can't be read is never reached: fail closed.
  package var notBefore: Int64 { Self.seconds(X509_get0_notBefore(handle)) ?? .max }
  /// Seconds since 1970. A time that can't be read is always past: fail closed.
  package var notAfter: Int64 { Self.seconds(X509_get0_notAfter(handle)) ?? .min }
  /// nginx's $ssl_client_v_start: `Jan  1 00:00:00 2026 GMT`.
  package var notBeforeText: String { MemoryBIO.text { ASN1_TIME_print($0, X509_get0_notBefore(handle)) - 1 } }
  /// nginx's $ssl_client_v_end.
  package var notAfterText: String { MemoryBIO.text { ASN1_TIME_print($0, X509_get0_notAfter(handle)) - 1 } }

  static func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64? {
    var parts = tm()
    // A null time would be read as now.
    guard let time, ASN1_TIME_to_tm(time, &parts) == 1 else {
      OpenSSLError.discard()
      return nil
    }
    return Int64(timegm(&parts))
  }
}
