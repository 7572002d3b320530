import COpenSSL
import Crypto
import Synchronization

/// What server and client SSL_CTX have in common.
enum ContextBasics {
  /// `commands`, which may name any algorithm, and keys of a token need OpenSSL's whole default context.
  /// `keys`: nil if handshakes load them.
  static func make(
    server: Bool, commands: [ConfCommand], keys: [PrivateKey]?
  ) throws(TLSSettingsError) -> OpaquePointer {
    let isUsual = commands.isEmpty && keys.map { $0.allSatisfy(\.isOfProvider) } == true
    let library = isUsual ? HandshakeAlgorithms.context : nil
    guard let context = SSL_CTX_new_ex(library, nil, server ? TLS_server_method() : TLS_client_method()) else {
      throw TLSSettingsError("OpenSSL gives no context: \(OpenSSLReasons.words())")
    }
    // NO_AUTO_CHAIN: sallyport sends the chain that the file holds. Building a chain would cost 8 % of a handshake.
    _ = copenssl_ctx_set_mode(
      context,
      Int(SSL_MODE_RELEASE_BUFFERS) | Int(SSL_MODE_NO_AUTO_CHAIN) | Int(SSL_MODE_ENABLE_PARTIAL_WRITE)
        | Int(SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER))
    copenssl_ctx_set_read_ahead(context, 1)
    SSL_CTX_set_options(
      context, COPENSSL_OP_NO_COMPRESSION | COPENSSL_OP_NO_RENEGOTIATION)
    CertificateCompression.turnOff(context)
    return context
  }

  static func setVersions(_ versions: TLSVersions, on context: OpaquePointer) throws(TLSSettingsError) {
    guard let range = VersionRange(versions) else { throw TLSSettingsError("no protocol version is allowed") }
    // TLS 1.0 and 1.1 sign with SHA-1, which OpenSSL's default security level refuses. The lower level applies to the
    // handshake only; see `chainLevel` for certificates.
    if range.lowest < TLS1_2_VERSION { SSL_CTX_set_security_level(context, handshakeLevelOfOldVersions) }
    guard copenssl_ctx_set_min_proto(context, range.lowest) == 1,
      copenssl_ctx_set_max_proto(context, range.highest) == 1
    else { throw TLSSettingsError("the protocol versions are not available: \(OpenSSLReasons.words())") }
    SSL_CTX_set_options(context, range.holes)
  }

  private static let handshakeLevelOfOldVersions: Int32 = 0

  /// Returns the security level that a peer's chain must have (X509_VERIFY_PARAM_set_auth_level(3)): key sizes and
  /// signature digests.
  ///
  /// It is the one that a cipher string sets with @SECLEVEL, 0 too, and else the library's own level, but at least 1. An old
  /// protocol version never lowers it. `standard`: the level of the new context.
  static func chainLevel(ciphers: String, _ commands: [ConfCommand], standard: Int32) -> Int32 {
    wishedLevel(ciphers, commands) ?? max(1, standard)
  }

  /// The level that the cipher strings ask for; nil: they ask for none. OpenSSL reads them, because it has the grammar. That
  /// takes a context of its own, and thousands of server blocks ask with the same strings, so answers are kept.
  private static func wishedLevel(_ ciphers: String, _ commands: [ConfCommand]) -> Int32? {
    let texts = [ciphers] + commands.filter { $0.name.lowercased() == "cipherstring" }.map(\.value)
    return wishedLevels.withLock { known in
      if let level = known[texts] { return level }
      guard let trial = SSL_CTX_new(TLS_method()) else { return nil }
      defer {
        SSL_CTX_free(trial)
        OpenSSLError.discard()
      }
      // @SECLEVEL takes 0 to 5. The last string that names a level decides.
      let untouched: Int32 = 6
      SSL_CTX_set_security_level(trial, untouched)
      for text in texts { _ = SSL_CTX_set_cipher_list(trial, text) }
      let level = SSL_CTX_get_security_level(trial)
      if known.count >= mostWishedLevels { known.removeAll() }
      known[texts] = .some(level == untouched ? nil : level)
      return level == untouched ? nil : level
    }
  }

  private static let wishedLevels = Mutex<[[String]: Int32?]>([:])
  private static let mostWishedLevels = 64

  static func setCiphers(_ ciphers: String, on context: OpaquePointer) throws(TLSSettingsError) {
    guard SSL_CTX_set_cipher_list(context, ciphers) == 1 else {
      OpenSSLError.discard()
      throw TLSSettingsError(
        "no cipher of \"\(ciphers)\" is known to this OpenSSL", hint: "see `openssl ciphers -v LIST`")
    }
  }

  /// `groups`: names between colons; nil: those of `KeyExchange.standard`. `directive`: for messages.
  static func setGroups(
    _ groups: String?, of directive: String, on context: OpaquePointer
  ) throws(TLSSettingsError) {
    guard let groups else { return KeyExchange.setStandard(on: context) }
    guard copenssl_ctx_set1_groups_list(context, groups) != 1 else { return }
    OpenSSLError.discard()
    defer { OpenSSLError.discard() }
    // OpenSSL doesn't say which name it doesn't know.
    let unknown = groups.split(separator: ":", omittingEmptySubsequences: false).map(String.init).first {
      copenssl_ctx_set1_groups_list(context, $0) != 1
    }
    throw TLSSettingsError(
      "\(directive) \"\(groups)\": "
        + (unknown.map { "this OpenSSL has no group \"\($0)\"" } ?? "this OpenSSL does not take the list"),
      hint: "names such as X25519, P-256, P-384; from OpenSSL 3.5 on also X25519MLKEM768")
  }

  static func apply(_ commands: [ConfCommand], server: Bool, on context: OpaquePointer) throws(TLSSettingsError) {
    guard !commands.isEmpty else { return }
    guard let conf = SSL_CONF_CTX_new() else { throw TLSSettingsError("out of memory") }
    defer { SSL_CONF_CTX_free(conf) }
    SSL_CONF_CTX_set_flags(
      conf,
      UInt32(SSL_CONF_FLAG_FILE) | UInt32(SSL_CONF_FLAG_SHOW_ERRORS) | UInt32(SSL_CONF_FLAG_CERTIFICATE)
        | UInt32(server ? SSL_CONF_FLAG_SERVER : SSL_CONF_FLAG_CLIENT))
    SSL_CONF_CTX_set_ssl_ctx(conf, context)
    for command in commands {
      let result = SSL_CONF_cmd(conf, command.name, command.value)
      if result <= 0 {
        let reason = result == -2 ? "unknown name" : OpenSSLReasons.words()
        throw TLSSettingsError(
          "SSL_CONF_cmd(\"\(command.name)\", \"\(command.value)\") failed: \(reason)", at: command.location,
          hint: "names are those of SSL_CONF_cmd(3), configuration file form")
      }
    }
    guard SSL_CONF_CTX_finish(conf) == 1 else {
      throw TLSSettingsError("SSL_CONF_CTX_finish failed: \(OpenSSLReasons.words())", at: commands.first?.location)
    }
  }

  static func use(_ pair: CertifiedKey, on context: OpaquePointer) throws(TLSSettingsError) {
    if case .postQuantum(let algorithm) = pair.certificate.keyKind, !algorithm.isOfTLS {
      throw TLSSettingsError(
        "the certificate's key is \(algorithm.rawValue), and TLS has no signatures of SLH-DSA",
        hint: "a CA may have such a key; a server or client needs ML-DSA, ECDSA, RSA or Ed25519")
    }
    guard SSL_CTX_use_certificate(context, pair.certificate.handle) == 1,
      SSL_CTX_use_PrivateKey(context, pair.key.handle) == 1
    else { throw TLSSettingsError("OpenSSL refuses the certificate: \(OpenSSLReasons.words())") }
    copenssl_ctx_set0_chain(context)
    for certificate in pair.chain where copenssl_ctx_add1_chain_cert(context, certificate.handle) != 1 {
      throw TLSSettingsError("OpenSSL refuses a chain certificate: \(OpenSSLReasons.words())")
    }
  }
}

/// The lowest and highest version, and the options that disable the unlisted versions between them.
struct VersionRange {
  var lowest: Int32
  var highest: Int32
  var holes: UInt64

  private static var all: [(TLSVersions, Int32, UInt64)] {
    [
      (.tls10, TLS1_VERSION, COPENSSL_OP_NO_TLSv1), (.tls11, TLS1_1_VERSION, COPENSSL_OP_NO_TLSv1_1),
      (.tls12, TLS1_2_VERSION, COPENSSL_OP_NO_TLSv1_2), (.tls13, TLS1_3_VERSION, COPENSSL_OP_NO_TLSv1_3),
    ]
  }

  init?(_ versions: TLSVersions) {
    let named = Self.all.filter { versions.contains($0.0) }
    guard let lowest = named.first, let highest = named.last else { return nil }
    self.lowest = lowest.1
    self.highest = highest.1
    self.holes = Self.all.filter { !versions.contains($0.0) }.reduce(0) { $0 | $1.2 }
  }
}
