import COpenSSL
import Glibc

/// An OCSP responder's verified answer about one certificate (RFC 6960 §2.2).
package struct StatusAnswer: Sendable, Hashable {
  package enum Status: Sendable, Hashable {
    case good
    case revoked
    /// The responder does not know the certificate, which counts like revoked.
    case unknown
  }

  package let status: Status
  /// Seconds since 1970 when the answer expires: an hour after it was made if the responder sets no expiry.
  package let validUntil: Int64
}

/// Why there is no valid answer.
package struct OCSPError: Error, Sendable, Hashable, CustomStringConvertible {
  package let description: String
  /// Whether the responder let the request time out. Every other fault comes at once: a closed connection, an HTTP
  /// error, a bad answer.
  package let isTimeout: Bool

  package init(_ description: String, isTimeout: Bool = false) {
    self.description = description
    self.isTimeout = isTimeout
  }
}

/// An OCSP request, which asks whether a certificate is revoked, and the check of its response.
///
/// A response is valid if it is current, is for exactly this certificate, and is signed by the issuer or by a key that
/// the issuer certified for it (OCSPSigning). The hash of the identifier is SHA-1, as in RFC 6960 and every responder;
/// its strength protects nothing.
package struct OCSPRequest: Sendable, Hashable {
  package let certificate: Certificate
  package let issuer: Certificate

  /// The seconds by which the responder's clock may be ahead.
  private static let tolerance = 300
  private static let boundWithoutEnd: Int64 = 3600
  /// The most responders that are asked about one certificate, one after the other.
  private static let mostResponders = 4

  package init(of certificate: Certificate, issuedBy issuer: Certificate) {
    self.certificate = certificate
    self.issuer = issuer
  }

  /// The responders that the certificate itself names (authority information access) and that can be asked, in its order.
  /// Other addresses than http ones, such as ldap, are left out.
  package var responders: [StatusResponder] {
    var found: [StatusResponder] = []
    for case let responder? in certificate.responderAddresses.lazy.map({ StatusResponder($0) })
    where found.count < Self.mostResponders && !found.contains(responder) {
      found.append(responder)
    }
    return found
  }

  private func identifier() throws(OCSPError) -> OpaquePointer {
    guard let id = OCSP_cert_to_id(EVP_sha1(), certificate.handle, issuer.handle) else {
      throw OCSPError("the OCSP request can't be made: \(OpenSSLError.drain())")
    }
    return id
  }

  /// Returns the DER of the request.
  package func request() throws(OCSPError) -> [UInt8] {
    guard let request = OCSP_REQUEST_new() else { throw OCSPError("\(OpenSSLError.drain())") }
    defer { OCSP_REQUEST_free(request) }
    let id = try identifier()
    guard OCSP_request_add0_id(request, id) != nil else {
      OCSP_CERTID_free(id)
      throw OCSPError("the OCSP request can't be made: \(OpenSSLError.drain())")
    }
    return encoded { i2d_OCSP_REQUEST(request, $0) } ?? []
  }

  /// Verifies and parses the DER of a response.
  package func judge(_ response: [UInt8], now: Int64) throws(OCSPError) -> StatusAnswer {
    let parsed = response.withUnsafeBytes { decoded($0, free: OCSP_RESPONSE_free, { d2i_OCSP_RESPONSE(nil, $0, $1) }) }
    guard let parsed else { throw OCSPError("the response is malformed: \(OpenSSLError.drain())") }
    defer { OCSP_RESPONSE_free(parsed) }
    let outcome = OCSP_response_status(parsed)
    guard outcome == OCSP_RESPONSE_STATUS_SUCCESSFUL else {
      let meaning = OpenSSLMeaning.of(responder: outcome).map { ": \($0)" } ?? ""
      throw OCSPError("the responder answers: \(String(cString: OCSP_response_status_str(Int(outcome))))\(meaning)")
    }
    guard let basic = OCSP_response_get1_basic(parsed) else {
      throw OCSPError("the response is malformed: \(OpenSSLError.drain())")
    }
    defer { OCSP_BASICRESP_free(basic) }
    try verify(basic)
    return try find(in: basic, now: now)
  }

  private func verify(_ basic: OpaquePointer) throws(OCSPError) {
    guard let store = X509_STORE_new(), let known = copenssl_sk_X509_new() else {
      throw OCSPError("\(OpenSSLError.drain())")
    }
    defer {
      copenssl_sk_X509_free(known)
      X509_STORE_free(store)
    }
    // Only the issuer is trusted here, whatever the anchors elsewhere are.
    X509_STORE_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN))
    guard X509_STORE_add_cert(store, issuer.handle) == 1, copenssl_sk_X509_push(known, issuer.handle) > 0 else {
      throw OCSPError("\(OpenSSLError.drain())")
    }
    guard OCSP_basic_verify(basic, known, store, 0) == 1 else {
      throw OCSPError(
        "the response is signed neither by the issuer nor by a responder that it certified: \(OpenSSLError.drain())")
    }
  }

  private func find(in basic: OpaquePointer, now: Int64) throws(OCSPError) -> StatusAnswer {
    let id = try identifier()
    defer { OCSP_CERTID_free(id) }
    var status: CInt = -1
    var thisUpdate: UnsafeRawPointer?
    var nextUpdate: UnsafeRawPointer?
    guard copenssl_ocsp_find(basic, id, &status, &thisUpdate, &nextUpdate) == 1 else {
      OpenSSLError.discard()
      throw OCSPError("the response is for another certificate")
    }
    // A response without an expiry must be recent; an old one may be a replay.
    let unbounded = -1
    guard
      copenssl_ocsp_is_current(
        thisUpdate, nextUpdate, Self.tolerance, nextUpdate == nil ? Int(Self.boundWithoutEnd) : unbounded) == 1
    else {
      OpenSSLError.discard()
      throw OCSPError("the response is not current")
    }
    // OCSP_check_validity(3) has accepted both times, but a response whose times can't be read is not valid.
    guard let begin = Certificate.seconds(thisUpdate) else {
      throw OCSPError("the response's thisUpdate can't be read")
    }
    let end: Int64
    if let nextUpdate {
      guard let named = Certificate.seconds(nextUpdate) else {
        throw OCSPError("the response's nextUpdate can't be read")
      }
      end = named
    } else {
      end = begin + Self.boundWithoutEnd
    }
    switch status {
    case V_OCSP_CERTSTATUS_GOOD: return StatusAnswer(status: .good, validUntil: end)
    case V_OCSP_CERTSTATUS_REVOKED: return StatusAnswer(status: .revoked, validUntil: end)
    default: return StatusAnswer(status: .unknown, validUntil: end)
    }
  }
}
