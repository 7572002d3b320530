import Bytes
import COpenSSL
public import Crypto
import Glibc
import Synchronization

/// What a location's upstream TLS needs from files, loaded and checked.
public struct UpstreamTLSMaterial: Sendable {
  /// nil: the chain is not verified.
  public var anchors: TrustAnchors?
  public var pins: PinSet?
  public var identity: CertifiedKey?

  public init(anchors: TrustAnchors?, pins: PinSet?, identity: CertifiedKey?) {
    self.anchors = anchors
    self.pins = pins
    self.identity = identity
  }
}

/// Why an upstream was refused; one of these for the log, a variable and a metric.
public enum UpstreamRefusal: Error, Sendable, CustomStringConvertible {
  case chain(String)
  case expired(String)
  case name(expected: String)
  case pin(found: String)

  public var reason: String {
    switch self {
    case .chain: "chain"
    case .expired: "expired"
    case .name: "name"
    case .pin: "pin"
    }
  }

  public var description: String {
    switch self {
    case .chain(let text): "chain: upstream SSL certificate verify error: (\(text))"
    case .expired(let text): "expired: upstream SSL certificate verify error: (\(text))"
    case .name(let expected): "name: upstream SSL certificate does not match \"\(expected)\""
    case .pin(let found): "pin: the key of the upstream's certificate is none of the pinned ones, it is \(found)"
    }
  }
}

/// The inner door: how a location's upstreams are judged, inside the handshake that carries the data. Immutable.
///
/// Equal settings have one context, so a kept connection or session is never used under another policy.
// @unchecked: an SSL_CTX may be used by several threads once it is set up; the sessions stand under a Mutex.
public final class UpstreamTLSContext: @unchecked Sendable {
  let handle: OpaquePointer
  public let settings: UpstreamTLSSettings
  private let pins: PinSet?
  private let anchors: TrustAnchors?
  /// What a chain's keys and signatures must be worth; see ContextBasics.chainLevel.
  private let chainLevel: Int32
  private let sessions = Mutex<[SessionKey: KeptSession]>([:])
  private static let sessionLimit = 256

  struct SessionKey: Hashable {
    var address: String
    var name: String
  }

  public init(settings: UpstreamTLSSettings, material: UpstreamTLSMaterial) throws(TLSSettingsError) {
    // Parsed settings can't say this; it guards against a loader that forgets a file.
    if settings.verifiesChain && material.anchors == nil {
      throw TLSSettingsError("proxy_ssl_verify is on, but there are no trust anchors", at: settings.location)
    }
    if settings.pinning == .publicKey && (material.pins?.isEmpty ?? true) {
      throw TLSSettingsError("proxy_ssl_pinning is on, but there is no pin", at: settings.location)
    }
    let handle = try ContextBasics.make(server: false)
    self.handle = handle
    self.settings = settings
    self.pins = settings.pinning == .publicKey ? material.pins : nil
    self.anchors = material.anchors
    let standard = SSL_CTX_get_security_level(handle)
    do throws(TLSSettingsError) {
      try Self.configureHandshake(handle, settings, material)
    } catch {
      SSL_CTX_free(handle)
      throw error
    }
    self.chainLevel = ContextBasics.chainLevel(of: handle, standard: standard)
    configureJudgement()
  }

  deinit { SSL_CTX_free(handle) }

  private static func configureHandshake(
    _ handle: OpaquePointer, _ settings: UpstreamTLSSettings, _ material: UpstreamTLSMaterial
  ) throws(TLSSettingsError) {
    try ContextBasics.setVersions(settings.versions, on: handle)
    if let ciphers = settings.ciphers { try ContextBasics.setCiphers(ciphers, on: handle) }
    if let identity = material.identity { try ContextBasics.use(identity, on: handle) }
    try ContextBasics.apply(settings.confCommands, server: false, on: handle)
  }

  /// After `proxy_ssl_conf_command`, so that none of them takes a judgement away.
  private func configureJudgement() {
    if let anchors { _ = copenssl_ctx_set1_verify_store(handle, anchors.handle) }
    SSL_CTX_set_cert_verify_callback(handle, TLSStream.judgeUpstream, nil)
    SSL_CTX_set_verify(handle, judges ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nil)
    SSL_CTX_set_verify_depth(handle, Int32(truncatingIfNeeded: settings.verifyDepth))
    if settings.reusesSessions {
      _ = copenssl_ctx_set_session_cache_mode(
        handle, Int(SSL_SESS_CACHE_CLIENT) | Int(SSL_SESS_CACHE_NO_INTERNAL) | Int(SSL_SESS_CACHE_NO_AUTO_CLEAR))
      SSL_CTX_sess_set_new_cb(handle, TLSStream.keepUpstreamSession)
    } else {
      _ = copenssl_ctx_set_session_cache_mode(handle, Int(SSL_SESS_CACHE_OFF))
    }
  }

  var judges: Bool { settings.verifiesChain || settings.verifiesName || pins != nil }

  /// trust-and-identity.md §2, in its order: chain, name, pin of the leaf. `leaf` is what the handshake is made with;
  /// certificates that were merely sent never count (CVE-2016-2402).
  func judge(store: OpaquePointer, leaf: OpaquePointer?, name: String) -> UpstreamRefusal? {
    guard let leaf else { return .chain("no certificate") }
    X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(store), chainLevel)
    if settings.verifiesChain && X509_verify_cert(store) != 1 {
      let code = X509_STORE_CTX_get_error(store)
      let text = "\(code):\(String(cString: X509_verify_cert_error_string(Int(code))))"
      switch code {
      case X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID: return .expired(text)
      default: return .chain(text)
      }
    }
    if settings.verifiesName && !Self.matches(leaf, name: name) { return .name(expected: name) }
    if let pins, !pins.matches(leaf: Certificate(retaining: leaf)) {
      return .pin(found: Pin.spelling(publicKeyDigest: Certificate(retaining: leaf).spkiSHA256))
    }
    return nil
  }

  /// SAN only when there is one, else CN (X509_check_host(3)); an address matches only an IP SAN.
  private static func matches(_ leaf: OpaquePointer, name: String) -> Bool {
    // X509_check_host takes `.test` for every name below test, and a name may be a client's ($host).
    guard let first = name.utf8.first, first != 0x2E else { return false }
    if X509_check_ip_asc(leaf, name, 0) == 1 { return true }
    var four = in_addr()
    var six = in6_addr()
    if inet_pton(AF_INET, name, &four) == 1 || inet_pton(AF_INET6, name, &six) == 1 { return false }
    var flags = UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS)
    // OpenSSL looks for DNS names only; an address or a URI there rules the CN out just as well.
    if X509_get_ext_by_NID(leaf, NID_subject_alt_name, -1) >= 0 { flags |= UInt32(X509_CHECK_FLAG_NEVER_CHECK_SUBJECT) }
    return X509_check_host(leaf, name, name.utf8.count, flags, nil) == 1
  }

  /// The judgement where OpenSSL asked for none, as for a resumed session: it does not look at the certificate again.
  func judgeAgain(_ ssl: OpaquePointer, name: String) -> UpstreamRefusal? {
    guard judges else { return nil }
    guard let leaf = copenssl_get0_peer_certificate(ssl), let store = X509_STORE_CTX_new() else {
      return .chain("no certificate")
    }
    defer { X509_STORE_CTX_free(store) }
    guard X509_STORE_CTX_init(store, anchors?.handle, leaf, SSL_get_peer_cert_chain(ssl)) == 1 else {
      return .chain(OpenSSLReasons.take())
    }
    X509_STORE_CTX_set_default(store, "ssl_server")
    X509_STORE_CTX_set_depth(store, Int32(truncatingIfNeeded: settings.verifyDepth))
    return judge(store: store, leaf: leaf, name: name)
  }

  // MARK: Sessions

  /// Takes the session over.
  func keep(_ session: OpaquePointer, for key: SessionKey) {
    let kept = KeptSession(owning: session)
    sessions.withLock { sessions in
      if sessions.count >= Self.sessionLimit && sessions[key] == nil, let other = sessions.keys.first {
        sessions.removeValue(forKey: other)
      }
      sessions[key] = kept
    }
  }

  /// Gives the session to an SSL, which takes its own reference.
  func resume(_ ssl: OpaquePointer, for key: SessionKey) {
    if let session = sessions.withLock({ $0[key] }) { SSL_set_session(ssl, session.handle) }
  }

  /// After a failed handshake: the next one starts anew.
  func forget(_ key: SessionKey) { sessions.withLock { _ = $0.removeValue(forKey: key) } }
}
