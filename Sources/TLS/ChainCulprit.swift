import COpenSSL
public import Crypto
import Observability

/// The certificate for which a client's chain was refused, where that isn't the client's own: a CA of the chain has ended or
/// is revoked, say. Without it, somebody would renew the client's certificate, which mends nothing.
public struct ChainCulprit: Sendable {
  /// 1: the CA that issued the client's certificate.
  public let depth: Int
  public let certificate: Certificate
  /// OpenSSL's result, X509_V_ERR_….
  let code: Int32

  /// The certificate at which OpenSSL's verify callback is called with a fault; nil for the client's own.
  init?(in store: OpaquePointer) {
    let depth = X509_STORE_CTX_get_error_depth(store)
    guard depth > 0, let handle = X509_STORE_CTX_get_current_cert(store) else { return nil }
    self.depth = Int(depth)
    certificate = Certificate(retaining: handle)
    code = X509_STORE_CTX_get_error(store)
  }

  /// `; at fault is not the client's certificate but the CA at depth 1: "CN=…", not after 2026-11-30 02:10:03 UTC`. The
  /// client may have sent the certificate, so the length is limited.
  public var words: String {
    let subject = certificate.subject.rfc2253
    let name = subject.utf8.count <= 256 ? subject : String(decoding: subject.utf8.prefix(256), as: UTF8.self) + "…"
    let end =
      certificate.notAfter.seconds.map { "not after \(Moment($0, utc: true).words) UTC" } ?? "its end can't be read"
    return "; at fault is not the client's certificate but the CA at depth \(depth): \"\(name)\", \(end)"
  }
}
