import COpenSSL

/// Why a client's certificate was refused, in few words. OpenSSL has about a hundred codes; the metrics tell the ones
/// apart whose remedies differ.
public enum CertificateFault: String, Sendable, CaseIterable {
  case expired
  case notYetValid = "not-yet-valid"
  case revoked
  /// The revocation list of its CA is missing, ended or unreadable.
  case revocationUnknown = "revocation-unknown"
  /// No chain leads to a CA that the configuration names.
  case untrusted
  /// It may not be used for clients, or a CA of the chain may not issue it.
  case purpose
  /// A signature is wrong.
  case signature
  /// A key or a hash is weaker than the security level allows.
  case weak
  /// The chain is longer than `ssl_verify_depth`.
  case depth
  /// No pin matches (`ssl_client_pin`).
  case pin
  case other

  /// `code`: OpenSSL's result, X509_V_ERR_….
  public init(code: Int) {
    switch Int32(truncatingIfNeeded: code) {
    case X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_ERROR_IN_CERT_NOT_AFTER_FIELD: self = .expired
    case X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_ERROR_IN_CERT_NOT_BEFORE_FIELD: self = .notYetValid
    case X509_V_ERR_CERT_REVOKED: self = .revoked
    case X509_V_ERR_UNABLE_TO_GET_CRL, X509_V_ERR_CRL_HAS_EXPIRED, X509_V_ERR_CRL_NOT_YET_VALID,
      X509_V_ERR_CRL_SIGNATURE_FAILURE, X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER, X509_V_ERR_UNABLE_TO_DECRYPT_CRL_SIGNATURE,
      X509_V_ERR_ERROR_IN_CRL_LAST_UPDATE_FIELD, X509_V_ERR_ERROR_IN_CRL_NEXT_UPDATE_FIELD,
      X509_V_ERR_CRL_PATH_VALIDATION_ERROR,
      X509_V_ERR_DIFFERENT_CRL_SCOPE, X509_V_ERR_OCSP_VERIFY_NEEDED, X509_V_ERR_OCSP_VERIFY_FAILED,
      X509_V_ERR_OCSP_CERT_UNKNOWN:
      self = .revocationUnknown
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
      X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE,
      X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_CERT_UNTRUSTED, X509_V_ERR_CERT_REJECTED:
      self = .untrusted
    case X509_V_ERR_INVALID_PURPOSE, X509_V_ERR_INVALID_CA, X509_V_ERR_KEYUSAGE_NO_CERTSIGN, X509_V_ERR_INVALID_NON_CA,
      X509_V_ERR_KEYUSAGE_NO_DIGITAL_SIGNATURE, X509_V_ERR_PERMITTED_VIOLATION, X509_V_ERR_EXCLUDED_VIOLATION:
      self = .purpose
    case X509_V_ERR_CERT_SIGNATURE_FAILURE, X509_V_ERR_UNABLE_TO_DECRYPT_CERT_SIGNATURE: self = .signature
    case X509_V_ERR_EE_KEY_TOO_SMALL, X509_V_ERR_CA_KEY_TOO_SMALL, X509_V_ERR_CA_MD_TOO_WEAK: self = .weak
    case X509_V_ERR_CERT_CHAIN_TOO_LONG, X509_V_ERR_PATH_LENGTH_EXCEEDED: self = .depth
    case ClientPins.mismatch: self = .pin
    default: self = .other
    }
  }
}

extension TLSStream {
  /// The fault of the certificate of a client that was refused in the handshake or after it; nil for another client.
  public var refusedCertificate: CertificateFault? {
    if case .refused(_, let code, _, _) = clientVerdict { return CertificateFault(code: code) }
    return certificateFault
  }
}
