import COpenSSL

/// What OpenSSL's reasons mean, in plain sentences for people who run the proxy.
///
/// OpenSSL names its own functions, states and structures. Every text of OpenSSL's that a person reads gets its meaning
/// from here, beside OpenSSL's words, by which people search. "The peer" is the other side of the connection, client or
/// server. A reason without an entry keeps OpenSSL's words alone.
package enum OpenSSLMeaning {
  /// What an error of the queue means. `code`: OpenSSL's packed code.
  package static func of(_ code: UInt) -> String? {
    let library = copenssl_err_lib(code), reason = copenssl_err_reason(code, library)
    switch library {
    case ERR_LIB_SSL: return of(handshake: reason)
    case ERR_LIB_OSSL_DECODER: return damaged
    case ERR_LIB_ASN1:
      return switch reason {
      case ASN1_R_STRING_TOO_LONG, ASN1_R_STRING_TOO_SHORT: "a part of the name is too long or too short for X.509"
      case ASN1_R_ILLEGAL_CHARACTERS: "a part of the name has characters that X.509 does not allow there"
      default: damaged
      }
    case ERR_LIB_PEM:
      return switch reason {
      case PEM_R_BAD_END_LINE: "a block's END line is missing or damaged"
      case PEM_R_BAD_BASE64_DECODE: "a block has characters that are not base64"
      default: nil
      }
    case ERR_LIB_EVP:
      return switch reason {
      case EVP_R_BAD_DECRYPT: "the pass phrase is wrong, or the bytes are damaged"
      case EVP_R_UNSUPPORTED_ALGORITHM: "this OpenSSL lacks the algorithm"
      default: nil
      }
    case ERR_LIB_RSA:
      return reason == RSA_R_DIGEST_TOO_BIG_FOR_RSA_KEY ? "the RSA key is too short for this signature" : nil
    case ERR_LIB_X509:
      return reason == X509_R_KEY_VALUES_MISMATCH ? "the private key does not belong to the certificate" : nil
    default: return nil
    }
  }

  private static let damaged = "its bytes are damaged, or hold something else"

  /// Whether OpenSSL says by this error only that an outer structure did not parse, or which decoders it tried.
  static func isEcho(_ code: UInt) -> Bool {
    copenssl_err_lib(code) == ERR_LIB_OSSL_DECODER
      || copenssl_err_common_reason(code) == Int32(truncatingIfNeeded: ERR_R_NESTED_ASN1_ERROR)
  }

  private static func of(handshake reason: Int32) -> String? {
    switch reason {
    case SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_VERSION_TOO_LOW, SSL_R_VERSION_TOO_HIGH, SSL_R_NO_PROTOCOLS_AVAILABLE,
      SSL_R_UNSUPPORTED_SSL_VERSION:
      "no TLS version is allowed by both sides"
    case SSL_R_INAPPROPRIATE_FALLBACK: "the peer retries with an older TLS version than both sides know"
    case SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST: "the peer speaks plain HTTP, not TLS"
    case SSL_R_WRONG_VERSION_NUMBER, SSL_R_PACKET_LENGTH_TOO_LONG, SSL_R_RECORD_LENGTH_MISMATCH:
      "what the peer sends is not TLS"
    case SSL_R_NO_SHARED_CIPHER: "no cipher suite is allowed by both sides, or none fits the certificate's key"
    case SSL_R_NO_SHARED_GROUPS, SSL_R_NO_SUITABLE_GROUPS, SSL_R_NO_SUITABLE_KEY_SHARE,
      SSL_R_UNSUPPORTED_ELLIPTIC_CURVE:
      "no group for the key exchange is allowed by both sides"
    case SSL_R_WRONG_CURVE:
      "the certificate's key is on a curve that is none of the groups, which TLS 1.2 does not allow"
    case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS, SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM,
      SSL_R_NO_SUITABLE_DIGEST_ALGORITHM:
      "no signature algorithm of the certificate's key is allowed by both sides"
    case SSL_R_NO_APPLICATION_PROTOCOL: "no application protocol (ALPN) is allowed by both sides"
    case SSL_R_UNEXPECTED_EOF_WHILE_READING: "the peer closed the connection without saying so in TLS"
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC, SSL_R_BAD_RECORD_TYPE, SSL_R_DIGEST_CHECK_FAILED,
      SSL_R_BAD_SIGNATURE:
      "what arrived was changed on the way, or the peer's TLS is faulty"
    case SSL_R_EE_KEY_TOO_SMALL: "the certificate's key is too short for OpenSSL's security level"
    case SSL_R_CA_KEY_TOO_SMALL: "the key of a CA in the chain is too short for OpenSSL's security level"
    case SSL_R_CA_MD_TOO_WEAK: "the hash of a signature in the chain is too weak for OpenSSL's security level"
    case SSL_R_DH_KEY_TOO_SMALL: "the DH parameters are too short for OpenSSL's security level"
    case SSL_R_NO_CIPHER_MATCH: "this OpenSSL has no cipher suite of such a name"
    case SSL_R_BAD_VALUE: "OpenSSL does not know the value"
    case SSL_R_UNKNOWN_CERTIFICATE_TYPE: "this OpenSSL can't use the certificate's kind of key in TLS"
    case SSL_AD_REASON_OFFSET..<SSL_AD_REASON_OFFSET + 256: of(alert: reason - SSL_AD_REASON_OFFSET)
    default: nil
    }
  }

  /// What the peer says by an alert (RFC 8446 §6.2). `number`: its description on the wire.
  package static func of(alert number: Int32) -> String? {
    switch number {
    case 10, 22, 47, 50, 51, 109, 110: "the peer finds a fault in our handshake"
    case 20, 21: "the peer received bytes that were changed on the way"
    case 40: "the peer refuses the handshake: no common cipher suite or group, or it wants a certificate"
    case 42, 43, 46: "the peer refuses our certificate"
    case 44: "the peer says that our certificate is revoked"
    case 45: "the peer says that our certificate has expired"
    case 48: "the peer does not trust the CA of our certificate"
    case 49: "the peer's access rules refuse our certificate"
    case 70: "the peer allows none of our TLS versions"
    case 71: "the peer demands stronger cipher suites or keys"
    case 80: "the peer failed by itself"
    case 86: "the peer refuses the older TLS version"
    case 90: "the peer's user ended the handshake"
    case 112: "the peer has no host of the name that we sent, or wants a name"
    case 113: "the peer refuses our stapled OCSP response"
    case 116: "the peer requires a certificate, and we presented none"
    case 120: "the peer speaks none of our application protocols (ALPN)"
    default: nil
    }
  }

  /// An alert's name as RFC 8446 §6 spells it, with spaces. OpenSSL's list lacks those of TLS 1.3.
  package static func name(ofAlert number: Int32) -> String {
    switch number {
    case 109: return "missing extension"
    case 116: return "certificate required"
    default:
      let name = SSL_alert_desc_string_long(number).map { String(cString: $0) } ?? "unknown"
      return name == "unknown" ? "\(number)" : name
    }
  }

  /// What a responder means that gives no status of a certificate (RFC 6960 §2.3).
  static func of(responder status: Int32) -> String? {
    switch status {
    case OCSP_RESPONSE_STATUS_MALFORMEDREQUEST: "it can't read the request"
    case OCSP_RESPONSE_STATUS_INTERNALERROR: "it failed by itself"
    case OCSP_RESPONSE_STATUS_TRYLATER: "it can't answer now"
    case OCSP_RESPONSE_STATUS_SIGREQUIRED: "it takes only signed requests"
    case OCSP_RESPONSE_STATUS_UNAUTHORIZED: "it does not answer for certificates of this CA, or not to us"
    default: nil
    }
  }

  /// What a fault of a certificate means, where OpenSSL's words don't tell. `code`: X509_V_ERR_….
  package static func of(verification code: Int) -> String? {
    switch Int32(truncatingIfNeeded: code) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT,
      X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      "no trusted CA issued it, or an intermediate certificate was not sent"
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT: "it signed itself, and is not itself trusted"
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN: "its root CA is not trusted"
    case X509_V_ERR_UNABLE_TO_GET_CRL: "no revocation list of its CA, or of a CA above, is configured"
    case X509_V_ERR_CRL_HAS_EXPIRED: "the revocation list of its CA has ended: nobody knows who is revoked"
    case X509_V_ERR_CRL_NOT_YET_VALID: "the revocation list of its CA is of the future: compare the clocks"
    case X509_V_ERR_CRL_SIGNATURE_FAILURE, X509_V_ERR_UNABLE_TO_DECRYPT_CRL_SIGNATURE,
      X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER:
      "the revocation list is not of its CA"
    case X509_V_ERR_INVALID_PURPOSE: "its extended key usage does not allow this use"
    case X509_V_ERR_INVALID_CA, X509_V_ERR_INVALID_NON_CA, X509_V_ERR_KEYUSAGE_NO_CERTSIGN:
      "a certificate of the chain may not issue certificates"
    case X509_V_ERR_CERT_CHAIN_TOO_LONG: "the chain has more intermediate certificates than the depth allows"
    case X509_V_ERR_PATH_LENGTH_EXCEEDED: "a CA of the chain may not have so many CAs below it"
    case X509_V_ERR_PERMITTED_VIOLATION, X509_V_ERR_EXCLUDED_VIOLATION: "a CA of the chain may not certify this name"
    case X509_V_ERR_CERT_SIGNATURE_FAILURE, X509_V_ERR_UNABLE_TO_DECRYPT_CERT_SIGNATURE:
      "a signature in the chain is wrong: another CA has the same name, or the file is damaged"
    case X509_V_ERR_EE_KEY_TOO_SMALL: "its key is too short for OpenSSL's security level"
    case X509_V_ERR_CA_KEY_TOO_SMALL: "the key of a CA in the chain is too short for OpenSSL's security level"
    case X509_V_ERR_CA_MD_TOO_WEAK: "the hash of a signature in the chain is too weak for OpenSSL's security level"
    // Of a client only, whose server block has pins.
    case X509_V_ERR_APPLICATION_VERIFICATION: "no ssl_client_pin matches it"
    case X509_V_ERR_UNHANDLED_CRITICAL_EXTENSION: "it demands an extension that OpenSSL does not know"
    default: nil
    }
  }

  /// OpenSSL's words for a fault of a certificate, as nginx writes them, and behind them what they mean:
  /// `20:unable to get local issuer certificate: no trusted CA …`.
  package static func text(verification code: Int) -> String {
    let words = "\(code):\(String(cString: X509_verify_cert_error_string(code)))"
    return of(verification: code).map { "\(words): \($0)" } ?? words
  }
}
