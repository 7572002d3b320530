import COpenSSL
import Glibc

/// The library context (OSSL_LIB_CTX) of the TLS contexts: OpenSSL's default provider, without the algorithms that no
/// handshake uses.
///
/// OpenSSL 3.0 copies the list of a context's methods, and compares all its decoders, each time it decodes a certificate's
/// public key. With the whole default provider that is a third of a handshake: docs/decisions/0029. The code that runs is
/// the default provider's in both. What is missing fails, so nobody is trusted because of it.
enum HandshakeAlgorithms {
  /// OSSL_LIB_CTX*; nil if TLS contexts have to use OpenSSL's default context: openssl.cnf names another provider or asks
  /// for FIPS, or this OpenSSL's TLS can do more with its whole default provider. It exists for the life of the process.
  // Nothing is set in it after `make`, and many threads may use an OpenSSL library context.
  nonisolated(unsafe) static let context = make()

  // OpenSSL locks what it changes in a provider.
  nonisolated(unsafe) private static let defaultProvider = OSSL_PROVIDER_try_load(nil, "default", 1)

  private static func make() -> OpaquePointer? {
    defer { ERR_clear_error() }
    guard defaultProvider != nil, isOnlyDefaultProviderActive, EVP_default_properties_is_fips_enabled(nil) == 0,
      let context = OSSL_LIB_CTX_new()
    else { return nil }
    // The default provider's implementations get the default provider's own context, as if it had been asked itself.
    let added = OSSL_PROVIDER_add_builtin(
      context, "handshake",
      { _, _, functions, context in
        functions?.pointee = UnsafePointer(HandshakeAlgorithms.functions)
        context?.pointee = OSSL_PROVIDER_get0_provider_ctx(HandshakeAlgorithms.defaultProvider)
        return 1
      })
    guard added == 1,
      OSSL_PROVIDER_load(context, "handshake") != nil, let abilities = TLSAbilities(context),
      abilities == TLSAbilities(nil)
    else {
      OSSL_LIB_CTX_free(context)
      return nil
    }
    return context
  }

  private static var isOnlyDefaultProviderActive: Bool {
    OSSL_PROVIDER_do_all(
      nil, { provider, _ in OSSL_PROVIDER_get0_name(provider).map { strcmp($0, "default") == 0 } == true ? 1 : 0 }, nil)
      == 1
  }

  /// The functions of this provider: provider-base(7).
  // Written here only, and never freed: OpenSSL keeps the pointer.
  nonisolated(unsafe) private static let functions: UnsafeMutablePointer<OSSL_DISPATCH> = {
    let query:
      @convention(c) (UnsafeMutableRawPointer?, CInt, UnsafeMutablePointer<CInt>?) -> UnsafePointer<
        OSSL_ALGORITHM
      >? = { _, operation, mustAskAgain in
        mustAskAgain?.pointee = 0
        return HandshakeAlgorithms.tables[operation].map { UnsafePointer($0) }
      }
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
  }()

  /// What the provider answers for each OSSL_OP_…, ended by an entry without a name.
  // Written here only, and never freed: OpenSSL keeps the pointers.
  nonisolated(unsafe) private static let tables: [CInt: UnsafeMutablePointer<OSSL_ALGORITHM>] = {
    var tables: [CInt: UnsafeMutablePointer<OSSL_ALGORITHM>] = [:]
    for operation in 1...OSSL_OP__HIGHEST {
      var mustAskAgain: CInt = 0
      var next = OSSL_PROVIDER_query_operation(defaultProvider, operation, &mustAskAgain)
      var kept: [OSSL_ALGORITHM] = []
      while let entry = next?.pointee, let names = entry.algorithm_names {
        if isUsed(operation, String(cString: names), entry.property_definition.map { String(cString: $0) } ?? "") {
          kept.append(entry)
        }
        next = next?.advanced(by: 1)
      }
      let table = UnsafeMutablePointer<OSSL_ALGORITHM>.allocate(capacity: kept.count + 1)
      table.initialize(repeating: OSSL_ALGORITHM(), count: kept.count + 1)
      for (index, entry) in kept.enumerated() { table[index] = entry }
      tables[operation] = table
    }
    return tables
  }()

  /// `names`: with colons between them. `properties`: provider=default,input=der,structure=…
  private static func isUsed(_ operation: CInt, _ names: String, _ properties: String) -> Bool {
    let name = names.prefix { $0 != ":" }
    return switch operation {
    // Those of cipher suites and of tickets.
    case OSSL_OP_CIPHER:
      switch name.prefix(while: { $0 != "-" }) {
      case "AES": ["-CBC", "-GCM", "-CCM", "-CBC-HMAC-SHA1", "-CBC-HMAC-SHA256"].contains { name.hasSuffix($0) }
      case "ARIA": name.hasSuffix("-GCM")
      case "CAMELLIA": name.hasSuffix("-CBC")
      default: ["ChaCha20-Poly1305", "DES-EDE3-CBC", "NULL"].contains(name)
      }
    case OSSL_OP_DIGEST: !["BLAKE2", "SM3", "KECCAK-KMAC", "SHAKE"].contains { name.hasPrefix($0) }
    case OSSL_OP_MAC: name == "HMAC"
    case OSSL_OP_KDF: ["HKDF", "TLS13-KDF", "TLS1-PRF"].contains(name)
    // libssl derives keys by EVP_KDF. HKDF and TLS1-PRF as kinds of keys are for OpenSSL 1.1's interface.
    case OSSL_OP_KEYMGMT, OSSL_OP_KEYEXCH, OSSL_OP_SIGNATURE:
      !["SCRYPT", "SIPHASH", "POLY1305", "CMAC", "SM2", "HKDF", "TLS1-PRF"].contains(name)
    // The public key in a certificate. A key for key exchange alone can sign neither a handshake nor a certificate.
    case OSSL_OP_DECODER:
      // The hybrid groups are X25519MLKEM768, X448MLKEM1024, SecP256r1MLKEM768 and SecP384r1MLKEM1024.
      !["SM2", "DH", "X25519", "X448", "ML-KEM", "SecP"].contains { name.hasPrefix($0) }
        && properties.split(separator: ",").filter { ["input=der", "structure=SubjectPublicKeyInfo"].contains($0) }
          .count
          == 2
    default: true
    }
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
