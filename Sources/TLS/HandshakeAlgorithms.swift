import COpenSSL
import Glibc

/// The library context (OSSL_LIB_CTX) of the TLS contexts: OpenSSL's default provider, without the algorithms that no
/// handshake uses.
///
/// OpenSSL 3.0 copies the list of a context's methods, and compares all its decoders, each time it decodes a certificate's
/// public key. With the whole default provider that is a third of a handshake: docs/decisions/0029. The code that runs is
/// the default provider's in both, but for the key schedule (`KeySchedule`). What is missing fails, so nobody is trusted
/// because of it.
enum HandshakeAlgorithms {
  /// OSSL_LIB_CTX* of TLS contexts; nil if they have to use OpenSSL's default context: openssl.cnf names another provider or
  /// asks for FIPS, or this OpenSSL's TLS can do more with its whole default provider. It decodes no public keys: see
  /// `PeerCertificates`. It exists for the life of the process.
  // Nothing is set in it after `make`, and many threads may use an OpenSSL library context.
  nonisolated(unsafe) static let context: OpaquePointer? = {
    guard certificates != nil,
      let context = make({ _, _, functions, context in
        HandshakeAlgorithms.begin(HandshakeAlgorithms.functions, functions, context)
      })
    else { return nil }
    defer { ERR_clear_error() }
    guard let abilities = TLSAbilities(context), abilities == TLSAbilities(nil) else {
      OSSL_LIB_CTX_free(context)
      return nil
    }
    return context
  }()

  /// OSSL_LIB_CTX* of peers' certificates: their digests, keys and signatures, and the decoders of public keys; nil if
  /// openssl.cnf names another provider or asks for FIPS.
  // Nothing is set in it after `make`, as in `context`.
  nonisolated(unsafe) static let certificates = make { _, _, functions, context in
    HandshakeAlgorithms.begin(HandshakeAlgorithms.functionsOfCertificates, functions, context)
  }

  // OpenSSL locks what it changes in a provider.
  nonisolated(unsafe) private static let defaultProvider = OSSL_PROVIDER_try_load(nil, "default", 1)

  private static func make(
    _ begin:
      @convention(c) (
        OpaquePointer?, UnsafePointer<OSSL_DISPATCH>?, UnsafeMutablePointer<UnsafePointer<OSSL_DISPATCH>?>?,
        UnsafeMutablePointer<UnsafeMutableRawPointer?>?
      ) -> CInt
  ) -> OpaquePointer? {
    defer { ERR_clear_error() }
    guard defaultProvider != nil, isOnlyDefaultProviderActive, EVP_default_properties_is_fips_enabled(nil) == 0,
      let context = OSSL_LIB_CTX_new()
    else { return nil }
    guard OSSL_PROVIDER_add_builtin(context, "handshake", begin) == 1,
      OSSL_PROVIDER_load(context, "handshake") != nil
    else {
      OSSL_LIB_CTX_free(context)
      return nil
    }
    return context
  }

  /// Begins the provider in a library context. The default provider's implementations get the default provider's own
  /// context, as if it had been asked itself.
  private static func begin(
    _ table: UnsafeMutablePointer<OSSL_DISPATCH>, _ functions: UnsafeMutablePointer<UnsafePointer<OSSL_DISPATCH>?>?,
    _ context: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
  ) -> CInt {
    functions?.pointee = UnsafePointer(table)
    context?.pointee = OSSL_PROVIDER_get0_provider_ctx(defaultProvider)
    return 1
  }

  private static var isOnlyDefaultProviderActive: Bool {
    OSSL_PROVIDER_do_all(
      nil, { provider, _ in OSSL_PROVIDER_get0_name(provider).map { strcmp($0, "default") == 0 } == true ? 1 : 0 }, nil)
      == 1
  }

  /// The functions of this provider: provider-base(7).
  // Written here only, and never freed: OpenSSL keeps the pointer.
  nonisolated(unsafe) private static let functions = dispatch { _, operation, mustAskAgain in
    mustAskAgain?.pointee = 0
    return HandshakeAlgorithms.tables[operation].map { UnsafePointer($0) }
  }

  // Written here only, and never freed, like `functions`.
  nonisolated(unsafe) private static let functionsOfCertificates = dispatch { _, operation, mustAskAgain in
    mustAskAgain?.pointee = 0
    return HandshakeAlgorithms.tablesOfCertificates[operation].map { UnsafePointer($0) }
  }

  private static func dispatch(
    _ query:
      @convention(c) (
        UnsafeMutableRawPointer?, CInt, UnsafeMutablePointer<CInt>?
      ) -> UnsafePointer<OSSL_ALGORITHM>?
  ) -> UnsafeMutablePointer<OSSL_DISPATCH> {
    // What TLS-GROUP lists.
    let capabilities:
      @convention(c) (
        UnsafeMutableRawPointer?, UnsafePointer<CChar>?,
        (@convention(c) (UnsafePointer<OSSL_PARAM>?, UnsafeMutableRawPointer?) -> CInt)?, UnsafeMutableRawPointer?
      ) -> CInt = { _, name, each, argument in
        OSSL_PROVIDER_get_capabilities(HandshakeAlgorithms.defaultProvider, name, each, argument)
      }
    let table = UnsafeMutablePointer<OSSL_DISPATCH>.allocate(capacity: 3)
    table[0] = OSSL_DISPATCH(
      function_id: OSSL_FUNC_PROVIDER_QUERY_OPERATION,
      function: unsafeBitCast(query, to: (@convention(c) () -> Void).self))
    table[1] = OSSL_DISPATCH(
      function_id: OSSL_FUNC_PROVIDER_GET_CAPABILITIES,
      function: unsafeBitCast(capabilities, to: (@convention(c) () -> Void).self))
    table[2] = OSSL_DISPATCH(function_id: 0, function: nil)
    return table
  }

  /// What the provider answers for each OSSL_OP_…, ended by an entry without a name.
  // Written here only, and never freed: OpenSSL keeps the pointers.
  nonisolated(unsafe) private static let tables = choose(isOfHandshakes)
  // Written here only, and never freed, like `tables`.
  nonisolated(unsafe) private static let tablesOfCertificates = choose(isOfCertificates)

  private static func choose(
    _ isUsed: (CInt, Substring, [Substring]) -> Bool
  ) -> [CInt: UnsafeMutablePointer<OSSL_ALGORITHM>] {
    var tables: [CInt: UnsafeMutablePointer<OSSL_ALGORITHM>] = [:]
    for operation in 1...OSSL_OP__HIGHEST {
      var mustAskAgain: CInt = 0
      var next = OSSL_PROVIDER_query_operation(defaultProvider, operation, &mustAskAgain)
      var kept: [OSSL_ALGORITHM] = []
      while let entry = next?.pointee, let names = entry.algorithm_names {
        // provider=default,input=der,structure=…
        let properties = entry.property_definition.map { String(cString: $0) } ?? ""
        if isUsed(operation, String(cString: names).prefix { $0 != ":" }, properties.split(separator: ",")) {
          kept.append(own(operation, entry) ?? entry)
        }
        next = next?.advanced(by: 1)
      }
      let table = UnsafeMutablePointer<OSSL_ALGORITHM>.allocate(capacity: kept.count + 1)
      table.initialize(repeating: OSSL_ALGORITHM(), count: kept.count + 1)
      for (index, entry) in kept.enumerated() { table[index] = entry }
      tables[operation] = table
    }
    return tables
  }

  /// The default provider's algorithm with functions of our own; nil where they stay the default provider's.
  private static func own(_ operation: CInt, _ entry: OSSL_ALGORITHM) -> OSSL_ALGORITHM? {
    guard operation == OSSL_OP_KDF, let names = entry.algorithm_names, strcmp(names, OSSL_KDF_NAME_TLS1_3_KDF) == 0
    else {
      return nil
    }
    var entry = entry
    entry.implementation = KeySchedule.functions
    return entry
  }

  private static func isOfHandshakes(_ operation: CInt, _ name: Substring, _ properties: [Substring]) -> Bool {
    switch operation {
    // Those of cipher suites and of tickets.
    case OSSL_OP_CIPHER:
      switch name.prefix(while: { $0 != "-" }) {
      case "AES":
        !name.hasPrefix("AES-192")
          && ["-CBC", "-GCM", "-CCM", "-CBC-HMAC-SHA1", "-CBC-HMAC-SHA256"].contains { name.hasSuffix($0) }
      case "ARIA": name.hasSuffix("-GCM")
      case "CAMELLIA": name.hasSuffix("-CBC")
      default: ["ChaCha20-Poly1305", "DES-EDE3-CBC", "NULL"].contains(name)
      }
    case OSSL_OP_DIGEST: ["SHA1", "SHA2-224", "SHA2-256", "SHA2-384", "SHA2-512", "MD5", "MD5-SHA1"].contains(name)
    case OSSL_OP_MAC: name == "HMAC"
    case OSSL_OP_KDF: ["HKDF", "TLS13-KDF", "TLS1-PRF"].contains(name)
    case OSSL_OP_RAND: ["CTR-DRBG", "SEED-SRC"].contains(name)
    case OSSL_OP_KEYMGMT, OSSL_OP_KEYEXCH, OSSL_OP_SIGNATURE: !isForeign(name)
    case OSSL_OP_DECODER: false
    default: true
    }
  }

  private static func isOfCertificates(_ operation: CInt, _ name: Substring, _ properties: [Substring]) -> Bool {
    switch operation {
    case OSSL_OP_DIGEST: !["BLAKE2", "SM3", "KECCAK-KMAC", "SHAKE"].contains { name.hasPrefix($0) }
    case OSSL_OP_KEYMGMT, OSSL_OP_SIGNATURE: !isForeign(name) && signs(name)
    case OSSL_OP_DECODER:
      !isForeign(name) && signs(name)
        && ["input=der", "structure=SubjectPublicKeyInfo"].allSatisfy { properties.contains($0) }
    default: false
    }
  }

  /// Whether a kind of keys is in no handshake. libssl derives keys by EVP_KDF: HKDF and TLS1-PRF as kinds of keys are for
  /// OpenSSL 1.1's interface.
  private static func isForeign(_ name: Substring) -> Bool {
    ["SCRYPT", "SIPHASH", "POLY1305", "CMAC", "SM2", "HKDF", "TLS1-PRF"].contains(name)
  }

  /// Whether a kind of keys can sign a handshake or a certificate. The hybrid groups are X25519MLKEM768, X448MLKEM1024,
  /// SecP256r1MLKEM768 and SecP384r1MLKEM1024.
  private static func signs(_ name: Substring) -> Bool {
    !["DH", "X25519", "X448", "ML-KEM", "SecP", "HMAC"].contains { name.hasPrefix($0) }
  }
}

/// What TLS can negotiate in a library context, for a comparison.
private struct TLSAbilities: Equatable {
  private var ciphers: [String] = []
  private let level: Int32, versions: [Int], options: UInt64

  /// `library` nil: OpenSSL's default context. Gives nil if OpenSSL gives no TLS context.
  init?(_ library: OpaquePointer?) {
    guard let context = SSL_CTX_new_ex(library, nil, TLS_method()) else { return nil }
    defer { SSL_CTX_free(context) }
    // What openssl.cnf says of every TLS context.
    level = SSL_CTX_get_security_level(context)
    versions = [copenssl_ctx_get_min_proto(context), copenssl_ctx_get_max_proto(context)]
    options = SSL_CTX_get_options(context)
    _ = SSL_CTX_set_ciphersuites(
      context,
      "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:TLS_AES_128_CCM_SHA256:"
        + "TLS_AES_128_CCM_8_SHA256")
    _ = SSL_CTX_set_cipher_list(context, "ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    let list = SSL_CTX_get_ciphers(context)
    for index in 0..<max(0, copenssl_sk_SSL_CIPHER_num(list)) {
      guard let name = SSL_CIPHER_get_name(copenssl_sk_SSL_CIPHER_value(list, index)) else { continue }
      ciphers.append(String(cString: name))
    }
  }
}
