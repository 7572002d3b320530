import Bytes
public import Crypto
import COpenSSL

/// What an open session reports about itself, for variables, logs and pages. A value is empty where nginx's is.
extension TLSStream {
  /// `TLSv1.3`
  public var protocolName: String { ssl.map { String(cString: SSL_get_version($0)) } ?? "" }

  /// `TLS_AES_256_GCM_SHA384`, or OpenSSL's name of an older suite.
  public var cipherName: String {
    guard let ssl, let cipher = SSL_get_current_cipher(ssl), let name = SSL_CIPHER_get_name(cipher) else { return "" }
    return String(cString: name)
  }

  /// The group of the key exchange (KeyExchangeGroup).
  public var groupName: String { ssl.map { KeyExchangeGroup.negotiated($0) } ?? "" }

  public var keyExchange: KeyExchange { KeyExchange(groupName) }

  /// The groups that the client offered, as nginx's $ssl_curves; empty for a client that names none.
  public var clientGroupNames: String {
    guard let ssl, case .server = side else { return "" }
    return KeyExchangeGroup.offered(ssl).joined(separator: ":")
  }

  /// The scheme of this side's signature in the handshake, by its name in TLS (RFC 8446 §4.2.3): `ecdsa_secp256r1_sha256`.
  /// Empty where nothing was signed: after a resumption, and with a key exchange by RSA.
  public var signatureScheme: String { ssl.map { SignatureScheme.own($0) } ?? "" }

  /// The scheme of the peer's signature; empty without a certificate of the peer, and after a resumption.
  public var peerSignatureScheme: String { ssl.map { SignatureScheme.peer($0) } ?? "" }

  /// The schemes that the client offered, in its order, as nginx's $ssl_sigalgs.
  public var clientSignatureSchemes: String {
    guard let ssl, case .server = side else { return "" }
    return SignatureScheme.offered(ssl).joined(separator: ":")
  }

  /// Lower-case hexadecimal.
  public var sessionID: String {
    guard let ssl, let session = SSL_get_session(ssl) else { return "" }
    var count: UInt32 = 0
    guard let id = SSL_SESSION_get_id(session, &count) else { return "" }
    return Hex.encode(Array(UnsafeBufferPointer(start: id, count: Int(count))))
  }

  /// Whether the handshake resumed a session.
  public var isResumed: Bool { ssl.map { copenssl_session_reused($0) == 1 } ?? false }

  /// Whether ALPN chose HTTP/2 (RFC 9113 §3.2).
  public var speaksHTTP2: Bool {
    guard let ssl else { return false }
    var bytes: UnsafePointer<UInt8>?
    var count: UInt32 = 0
    SSL_get0_alpn_selected(ssl, &bytes, &count)
    return UnsafeRawBufferPointer(start: bytes, count: Int(count)).equals("h2")
  }

  public var applicationProtocol: String {
    guard let ssl else { return "" }
    var bytes: UnsafePointer<UInt8>?
    var count: UInt32 = 0
    SSL_get0_alpn_selected(ssl, &bytes, &count)
    return String(decoding: UnsafeBufferPointer(start: bytes, count: Int(count)), as: UTF8.self)
  }

  /// The cipher suites that the client offered and this server knows too, as nginx's $ssl_ciphers on TLS 1.2 and
  /// earlier.
  public var clientCiphers: String {
    guard let ssl else { return "" }
    let list = SSL_get_client_ciphers(ssl)
    let names = (0..<copenssl_sk_SSL_CIPHER_num(list)).compactMap { index -> String? in
      guard let cipher = copenssl_sk_SSL_CIPHER_value(list, index), let name = SSL_CIPHER_get_name(cipher) else {
        return nil
      }
      return String(cString: name)
    }
    return names.joined(separator: ":")
  }

  /// The certificate of a client that the server refused in the handshake.
  public var refusedClient: Certificate? {
    guard case .server = side, let lastPeer else { return nil }
    return Certificate(retaining: lastPeer)
  }

  /// What is to be counted of the client's certificate, of a handshake that failed, too; access rules deny clients whose
  /// certificates have no fault.
  package var countedVerdict: ClientVerdict {
    guard let judgement else { return clientVerdict }
    return judgement.denial == nil ? judgement.verdict : .absent
  }

  /// What was wrong with that certificate. OpenSSL's own error text does not say.
  var clientFault: String? {
    guard case .server = side, let lastPeer, let ssl else { return nil }
    let code = SSL_get_verify_result(ssl)
    let pin = serverContext?.pinWords(on: Certificate(retaining: lastPeer), code: code) ?? ""
    let reason = judgement?.reason ?? OpenSSLMeaning.text(verification: code)
    let culprit = judgement?.culprit.flatMap { Int($0.code) == code ? $0.words : nil } ?? ""
    return ", client SSL certificate verify error: (\(reason)\(pin))\(culprit)"
  }

  /// The SHA-256 of an upstream's public key, in the spelling of a pin.
  public var upstreamKeyHash: String {
    guard let peer = ssl.flatMap({ copenssl_get0_peer_certificate($0) }) ?? lastPeer else { return "" }
    return Base64.encode(Certificate(retaining: peer).spkiSHA256)
  }
}

extension TLSStream {
  /// The hash of an upstream's certificate for channel binding, tls-server-end-point (RFC 5929 §4.1). The hash function
  /// is that of the certificate's signature; SHA-256 replaces MD5 and SHA-1, and applies when the signature names no
  /// hash function.
  package var upstreamEndPoint: [UInt8]? {
    guard let peer = ssl.flatMap({ copenssl_get0_peer_certificate($0) }) else { return nil }
    var hash = NID_undef
    _ = X509_get_signature_info(peer, &hash, nil, nil, nil)
    let isWeak = [NID_undef, NID_md5, NID_sha1].contains(hash)
    let algorithm = isWeak ? EVP_sha256() : EVP_get_digestbyname(OBJ_nid2sn(hash)) ?? EVP_sha256()
    var octets = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
    var count: CUnsignedInt = 0
    guard X509_digest(peer, algorithm, &octets, &count) == 1 else { return nil }
    return Array(octets.prefix(Int(count)))
  }
}
