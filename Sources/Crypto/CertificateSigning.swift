import COpenSSL
import Glibc

extension CertificateBuilder {
  /// `key`: EVP_PKEY*, borrowed; its public half is used.
  func certificate(
    for key: OpaquePointer, issuer: Certificate?, signedBy signer: PrivateKey
  ) throws(OpenSSLError) -> Certificate {
    guard let draft = X509_new() else { throw OpenSSLError.drain() }
    let certificate = Certificate(owning: draft)
    let version3 = 2
    try succeed(X509_set_version(draft, version3))
    try setSerial(of: draft)
    try setSubject(of: draft)
    try succeed(X509_set_issuer_name(draft, X509_get_subject_name(issuer?.handle ?? draft)))
    guard ASN1_TIME_set(X509_getm_notBefore(draft), time_t(notBefore)) != nil,
      ASN1_TIME_set(X509_getm_notAfter(draft), time_t(notAfter)) != nil
    else { throw OpenSSLError.drain() }
    if let rawNotAfter {
      try succeed(ASN1_STRING_set(X509_getm_notAfter(draft), rawNotAfter, CInt(clamping: rawNotAfter.count)))
    }
    try succeed(X509_set_pubkey(draft, key))
    try addExtensions(to: draft, KeyKind(key), issuer: issuer?.handle)
    guard X509_sign(draft, signer.handle, signer.digest(signatureDigest.algorithm)) > 0 else {
      throw OpenSSLError.drain()
    }
    return certificate
  }

  /// Sets 127 random bits: positive, unguessable, and unique without a register (RFC 5280 §4.1.2.2).
  private func setSerial(of draft: OpaquePointer) throws(OpenSSLError) {
    var made = BN_new()
    guard let number = made else { throw OpenSSLError.drain() }
    defer { BN_free(number) }
    if let serial {
      guard BN_hex2bn(&made, serial) > 0 else { throw OpenSSLError.drain() }
    } else {
      try succeed(BN_rand(number, 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY))
    }
    guard BN_to_ASN1_INTEGER(number, X509_get_serialNumber(draft)) != nil else { throw OpenSSLError.drain() }
  }

  private func setSubject(of draft: OpaquePointer) throws(OpenSSLError) {
    let name = X509_get_subject_name(draft)
    for (type, value) in subject {
      let text = Array(value.utf8)
      try succeed(
        X509_NAME_add_entry_by_NID(name, type.identifier, MBSTRING_UTF8, text, CInt(clamping: text.count), -1, 0))
    }
  }

  private func addExtensions(
    to draft: OpaquePointer, _ key: KeyKind, issuer: OpaquePointer?
  ) throws(OpenSSLError) {
    try add(NID_subject_key_identifier, "hash", to: draft, issuer)
    if issuer != nil, namesIssuerKey { try add(NID_authority_key_identifier, "keyid:always", to: draft, issuer) }
    switch purpose {
    case .authority(let pathLength):
      let limit = pathLength.map { ",pathlen:\($0)" } ?? ""
      try add(NID_basic_constraints, "critical,CA:TRUE\(limit)", to: draft, issuer)
      try add(NID_key_usage, "critical,keyCertSign,cRLSign,digitalSignature", to: draft, issuer)
      if !authorityUsages.isEmpty {
        try add(NID_ext_key_usage, authorityUsages.map(\.rawValue).joined(separator: ","), to: draft, issuer)
      }
      if !permittedNames.isEmpty {
        try add(NID_name_constraints, "critical," + nameConstraints(), to: draft, issuer)
      }
    case .leaf(let usages):
      try add(NID_basic_constraints, "critical,CA:FALSE", to: draft, issuer)
      // Only RSA can encrypt a key (RFC 8813 §3, RFC 9881 §5).
      let usage =
        if case .rsa = key { "critical,digitalSignature,keyEncipherment" } else { "critical,digitalSignature" }
      try add(NID_key_usage, rawKeyUsage ?? usage, to: draft, issuer)
      if !usages.isEmpty {
        try add(NID_ext_key_usage, usages.map(\.rawValue).joined(separator: ","), to: draft, issuer)
      }
    }
    if !alternativeNames.isEmpty { try addAlternativeNames(to: draft) }
    let points = revocationURLs.map { "URI:\($0)" }
    // A comma begins another value in OpenSSL's syntax.
    if !points.isEmpty, !points.contains(where: { $0.contains(",") }) {
      try add(NID_crl_distribution_points, points.joined(separator: ","), to: draft, issuer)
    }
    if let acmeIdentifier, let length = UInt8(exactly: acmeIdentifier.count), length < 0x80 {
      let octetString: [UInt8] = [0x04, length] + acmeIdentifier
      try succeed(copenssl_add_extension(draft, "1.3.6.1.5.5.7.1.31", octetString, CInt(clamping: octetString.count)))
    }
  }

  /// Returns the constraints in OpenSSL's configuration syntax. The accepted characters have no special meaning in it.
  private func nameConstraints() throws(OpenSSLError) -> String {
    var parts: [String] = []
    for name in permittedNames {
      switch name {
      case .dns(let text) where text.utf8.allSatisfy(\.isOfHostName): parts.append("permitted;DNS:\(text)")
      case .ip(let text) where text.utf8.allSatisfy({ $0.isOfHostName || $0 == UInt8(ascii: ":") }):
        let mask = text.contains(":") ? "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" : "255.255.255.255"
        parts.append("permitted;IP:\(text)/\(mask)")
      default: throw OpenSSLError(codes: [], description: "\(name) is no name to permit")
      }
    }
    return parts.joined(separator: ",")
  }

  /// `value`: text in OpenSSL's configuration syntax. Pass only text from this code, never a user's.
  private func add(
    _ kind: CInt, _ value: String, to draft: OpaquePointer, _ issuer: OpaquePointer?
  ) throws(OpenSSLError) {
    var context = X509V3_CTX()
    X509V3_set_ctx(&context, issuer ?? draft, draft, nil, nil, 0)
    guard let made = X509V3_EXT_conf_nid(nil, &context, kind, value) else { throw OpenSSLError.drain() }
    defer { X509_EXTENSION_free(made) }
    try succeed(X509_add_ext(draft, made, -1))
  }

  private func addAlternativeNames(to draft: OpaquePointer) throws(OpenSSLError) {
    try Self.withGeneralNames(alternativeNames) { (names) throws(OpenSSLError) in
      try succeed(X509_add1_ext_i2d(draft, NID_subject_alt_name, UnsafeMutableRawPointer(names), 0, 0))
    }
  }

  /// Calls `body` with a GENERAL_NAMES of these names.
  static func withGeneralNames(
    _ alternativeNames: [AlternativeName], _ body: (OpaquePointer) throws(OpenSSLError) -> Void
  ) throws(OpenSSLError) {
    guard let names = copenssl_sk_GENERAL_NAME_new() else { throw OpenSSLError.drain() }
    defer { copenssl_sk_GENERAL_NAME_pop_free(names) }
    for name in alternativeNames {
      guard let (type, bytes) = name.encoding else {
        throw OpenSSLError(codes: [], description: "\(name) is no IP address")
      }
      guard let general = GENERAL_NAME_new() else { throw OpenSSLError.drain() }
      guard copenssl_sk_GENERAL_NAME_push(names, general) > 0 else {
        GENERAL_NAME_free(general)
        throw OpenSSLError.drain()
      }
      guard copenssl_general_name_set(general, type, bytes, CInt(clamping: bytes.count)) == 1 else {
        throw OpenSSLError.drain()
      }
    }
    try body(names)
  }

  private func succeed(_ result: CInt) throws(OpenSSLError) {
    guard result == 1 else { throw OpenSSLError.drain() }
  }
}

extension CertificateBuilder.SignatureDigest {
  fileprivate var algorithm: OpaquePointer? {
    switch self {
    case .sha256: EVP_sha256()
    case .sha1: EVP_sha1()
    case .md5: EVP_md5()
    }
  }
}

extension CertificateBuilder.AttributeType {
  fileprivate var identifier: CInt {
    switch self {
    case .commonName: NID_commonName
    case .organization: NID_organizationName
    case .organizationalUnit: NID_organizationalUnitName
    case .country: NID_countryName
    case .emailAddress: NID_pkcs9_emailAddress
    // An unknown name is NID_undef, which OpenSSL refuses to add.
    case .named(let name): OBJ_txt2nid(name)
    }
  }
}

extension CertificateBuilder.AlternativeName {
  /// The type of the GENERAL_NAME and its octets; nil for a malformed IP address.
  fileprivate var encoding: (type: CInt, bytes: [UInt8])? {
    switch self {
    case .dns(let name): (GEN_DNS, Array(name.utf8))
    case .uri(let name): (GEN_URI, Array(name.utf8))
    case .email(let name): (GEN_EMAIL, Array(name.utf8))
    case .ip(let text): Self.octets(of: text).map { (GEN_IPADD, $0) }
    case .raw(.dns, let bytes): (GEN_DNS, bytes)
    case .raw(.uri, let bytes): (GEN_URI, bytes)
    case .raw(.email, let bytes): (GEN_EMAIL, bytes)
    case .raw(.ip, let bytes): (GEN_IPADD, bytes)
    }
  }

  private static func octets(of text: String) -> [UInt8]? {
    var octets = [UInt8](repeating: 0, count: 16)
    if inet_pton(AF_INET6, text, &octets) == 1 { return octets }
    if inet_pton(AF_INET, text, &octets) == 1 { return Array(octets.prefix(4)) }
    return nil
  }
}

extension UInt8 {
  /// Letters, digits, `-` and `.`.
  fileprivate var isOfHostName: Bool {
    switch self {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E: true
    default: false
    }
  }
}
