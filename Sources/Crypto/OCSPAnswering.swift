import COpenSSL
import Glibc

extension OCSPRequest {
  /// Returns the DER of a response, as the issuer's own responder would send it: for `sallyport demo`, whose servers staple
  /// it. It is valid from now on for `seconds`.
  package func response(
    _ status: StatusAnswer.Status, signedBy key: PrivateKey, seconds: Int64
  ) throws(OpenSSLError) -> [UInt8] {
    guard let basic = OCSP_BASICRESP_new() else { throw OpenSSLError.drain() }
    defer { OCSP_BASICRESP_free(basic) }
    guard let id = OCSP_cert_to_id(EVP_sha1(), certificate.handle, issuer.handle) else { throw OpenSSLError.drain() }
    defer { OCSP_CERTID_free(id) }
    let code =
      switch status {
      case .good: V_OCSP_CERTSTATUS_GOOD
      case .revoked: V_OCSP_CERTSTATUS_REVOKED
      case .unknown: V_OCSP_CERTSTATUS_UNKNOWN
      }
    let now = time(nil)
    guard copenssl_ocsp_add(basic, id, code, now, now, now + time_t(seconds)) == 1,
      OCSP_basic_sign(basic, issuer.handle, key.handle, key.digest(EVP_sha256()), nil, 0) == 1,
      let response = OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, basic)
    else { throw OpenSSLError.drain() }
    defer { OCSP_RESPONSE_free(response) }
    return encoded { i2d_OCSP_RESPONSE(response, $0) } ?? []
  }
}
