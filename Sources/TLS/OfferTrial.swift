import COpenSSL
package import Crypto

/// What a client offered in an earlier handshake, by the names that a record has. An empty text: nobody knows.
package struct RecordedOffer: Sendable, Hashable {
  /// `TLSv1.3`. The client offers no other version.
  package var version: String
  /// As `$ssl_curves`.
  package var groups: String
  /// As `$ssl_sigalgs`.
  package var signatures: String
  /// As `$ssl_ciphers`; a record has them before TLS 1.3 only.
  package var ciphers: String

  package init(version: String, groups: String, signatures: String, ciphers: String) {
    (self.version, self.groups, self.signatures, self.ciphers) = (version, groups, signatures, ciphers)
  }

  /// The record has all that a handshake of this version would settle on, but for the suites of TLS 1.3.
  package var isWhole: Bool {
    !groups.isEmpty && (!signatures.isEmpty || version == "TLSv1" || version == "TLSv1.1")
      && (!ciphers.isEmpty || version == "TLSv1.3")
  }
}

/// Why a server and a client with an offer would not come to a session.
package enum OfferFault: Sendable, Hashable, CustomStringConvertible {
  case groups, signatures, ciphers
  /// The server asks for signatures none of which this key makes.
  case clientSignature(KeyKind)
  /// Before TLS 1.3, the curve of a client's key must be among the server's groups.
  case clientCurve(KeyKind)
  /// OpenSSL's words.
  case other(String)

  package var description: String {
    switch self {
    case .groups: "no group of the key exchange in common"
    case .signatures: "no signature algorithm in common"
    case .ciphers: "no cipher suite in common"
    case .clientSignature(let kind): "no signature algorithm in common for the client's key (\(kind))"
    case .clientCurve(let kind): "the curve of the client's key is none of the server's groups (\(kind))"
    case .other(let words): "the handshake fails: \(words)"
    }
  }
}

/// Tries offers of earlier clients with a server block's versions, groups, suites, signature algorithms and certificates, by
/// handshakes of OpenSSL in memory. Nobody is verified: whom the server lets in is another question.
package final class OfferTrial {
  private let server: OpaquePointer
  private let client: OpaquePointer
  private let asksForCertificates: Bool
  private var known: [Question: OfferFault?] = [:]
  private var names: [String: Bool] = [:]

  private struct Question: Hashable {
    let offer: RecordedOffer
    let key: KeyKind
  }

  /// nil: the block's certificates are chosen in a handshake, or there are none yet, so that nothing can be tried.
  package init?(_ context: ServerTLSContext) {
    let settings = context.settings
    guard let client = SSL_CTX_new(TLS_client_method()) else { return nil }
    guard let server = try? ContextBasics.make(server: true, commands: settings.confCommands, keys: nil) else {
      SSL_CTX_free(client)
      return nil
    }
    (self.client, self.server) = (client, server)
    asksForCertificates = settings.verification != .off
    SSL_CTX_set_security_level(client, 0)
    do throws(TLSSettingsError) { try context.configureOffers(of: server) } catch { return nil }
    guard context.copyCertificates(to: server) else { return nil }
    // The client shows none, and the judgement of certificates is elsewhere.
    SSL_CTX_set_verify(server, asksForCertificates ? SSL_VERIFY_PEER : SSL_VERIFY_NONE) { _, _ in 1 }
    SSL_CTX_set_verify(client, SSL_VERIFY_NONE, nil)
    _ = copenssl_ctx_set_session_cache_mode(server, Int(SSL_SESS_CACHE_OFF))
    SSL_CTX_set_options(server, COPENSSL_OP_NO_TICKET)
  }

  deinit {
    SSL_CTX_free(server)
    SSL_CTX_free(client)
    OpenSSLError.discard()
  }

  /// Why a client with this offer and this key would not come to a session; nil if it would, as far as the offer is known.
  package func fault(of offer: RecordedOffer, key: KeyKind) -> OfferFault? {
    let question = Question(offer: offer, key: key)
    if let fault = known[question] { return fault }
    let fault = find(offer, key)
    known[question] = .some(fault)
    return fault
  }

  private func find(_ offer: RecordedOffer, _ key: KeyKind) -> OfferFault? {
    switch attempt(offer) {
    case .untried: return nil
    case .settled(let asked, _):
      if asksForCertificates, lacksCurve(of: key, offer) { return .clientCurve(key) }
      guard asksForCertificates, !asked.isEmpty, let wanted = Self.schemes(of: key, offer.version) else { return nil }
      let own = Set(offer.signatures.split(separator: ":").map(String.init))
      return asked.contains { wanted($0) && (own.isEmpty || own.contains($0)) } ? nil : .clientSignature(key)
    case .failed(let words):
      // Which part it is shows an offer without bounds there.
      let parts: [(WritableKeyPath<RecordedOffer, String>, OfferFault)] = [
        (\.groups, .groups), (\.signatures, .signatures), (\.ciphers, .ciphers),
      ]
      for (part, fault) in parts where !offer[keyPath: part].isEmpty {
        var wider = offer
        wider[keyPath: part] = ""
        if case .settled = attempt(wider) { return fault }
      }
      return .other(words)
    }
  }

  private func lacksCurve(of key: KeyKind, _ offer: RecordedOffer) -> Bool {
    let curves: [KeyKind: Int32] = [
      .p256: NID_X9_62_prime256v1, .p384: NID_secp384r1, .p521: NID_secp521r1,
    ]
    guard offer.version != "TLSv1.3", let curve = curves[key] else { return false }
    var wider = offer
    wider.groups = ""
    guard case .settled(_, let groups) = attempt(wider), !groups.isEmpty else { return false }
    return !groups.contains(curve)
  }

  /// Whether a scheme is one by which a client with this key signs; nil: nobody knows, or the version has no schemes.
  private static func schemes(of key: KeyKind, _ version: String) -> ((String) -> Bool)? {
    let isNew = version == "TLSv1.3"
    guard isNew || version == "TLSv1.2" else { return nil }
    switch key {
    case .rsa: return { $0.hasPrefix("rsa_pss_rsae_") || (!isNew && $0.hasPrefix("rsa_pkcs1_")) }
    case .p256: return { isNew ? $0 == "ecdsa_secp256r1_sha256" : $0.hasPrefix("ecdsa_") }
    case .p384: return { isNew ? $0 == "ecdsa_secp384r1_sha384" : $0.hasPrefix("ecdsa_") }
    case .p521: return { isNew ? $0 == "ecdsa_secp521r1_sha512" : $0.hasPrefix("ecdsa_") }
    case .ed25519: return { $0 == "ed25519" }
    case .postQuantum(let algorithm):
      let name = algorithm.rawValue.lowercased().filter { $0 != "-" }
      return { $0 == name }
    case .other("ED448", _): return { $0 == "ed448" }
    case .other, .unreadable: return nil
    }
  }

  // MARK: A handshake

  private enum Outcome {
    /// `asked`: the schemes by which the server lets clients sign. `groups`: those of both sides, by OpenSSL's numbers.
    case settled(asked: [String], groups: [Int32])
    case failed(String)
    /// Memory was missing, or the client's side doesn't take part.
    case untried
  }

  private func attempt(_ offer: RecordedOffer) -> Outcome {
    OpenSSLError.discard()
    defer { OpenSSLError.discard() }
    guard let one = SSL_new(client) else { return .untried }
    defer { SSL_free(one) }
    guard let other = SSL_new(server) else { return .untried }
    defer { SSL_free(other) }
    if let fault = set(offer, on: one) { return fault }
    var (near, far): (OpaquePointer?, OpaquePointer?) = (nil, nil)
    guard BIO_new_bio_pair(&near, 0, &far, 0) == 1 else { return .untried }
    SSL_set_bio(one, near, near)
    SSL_set_bio(other, far, far)
    SSL_set_connect_state(one)
    SSL_set_accept_state(other)
    // The flights of a handshake with a HelloRetryRequest, in pieces of the size of a pair.
    for _ in 0..<256 {
      OpenSSLError.discard()
      let ours = SSL_do_handshake(one)
      let isClientStuck = ours != 1 && !Self.goesOn(one, ours)
      OpenSSLError.discard()
      let theirs = SSL_do_handshake(other)
      guard theirs == 1 || Self.goesOn(other, theirs) else { return .failed(OpenSSLReasons.words()) }
      if ours == 1, theirs == 1 {
        let count = max(0, SSL_ctrl(other, SSL_CTRL_GET_SHARED_GROUP, -1, nil))
        let groups = (0..<count).map {
          Int32(truncatingIfNeeded: SSL_ctrl(other, SSL_CTRL_GET_SHARED_GROUP, $0, nil))
        }
        return .settled(asked: SignatureScheme.offered(one), groups: groups)
      }
      if isClientStuck { return .untried }
    }
    return .untried
  }

  private static func goesOn(_ ssl: OpaquePointer, _ result: Int32) -> Bool {
    [SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE].contains(SSL_get_error(ssl, result))
  }

  /// Has a client offer what the record says. Returns how the trial ends if it can't begin.
  private func set(_ offer: RecordedOffer, on ssl: OpaquePointer) -> Outcome? {
    if let version = ServerTLSContext.versionNumbers[offer.version] {
      guard copenssl_set_min_proto(ssl, version) == 1, copenssl_set_max_proto(ssl, version) == 1 else {
        return .untried
      }
    }
    SSL_set_security_level(ssl, 0)
    let groups = offer.groups.isEmpty ? Self.allGroups : Self.named(offer.groups)
    guard set(SSL_CTRL_SET_GROUPS_LIST, groups, on: ssl) else {
      return .failed("this OpenSSL has no group that the client offers")
    }
    if !offer.signatures.isEmpty {
      guard set(SSL_CTRL_SET_SIGALGS_LIST, Self.named(offer.signatures), on: ssl) else {
        return .failed("this OpenSSL has no signature algorithm that the client offers")
      }
    }
    guard SSL_set_cipher_list(ssl, offer.ciphers.isEmpty ? "ALL" : offer.ciphers) == 1 else {
      return .failed("this OpenSSL has no cipher suite that the client offers")
    }
    return nil
  }

  /// Sets a list, without the names that this OpenSSL doesn't know. Returns false if it knows none.
  private func set(_ command: Int32, _ list: [String], on ssl: OpaquePointer) -> Bool {
    func take(_ text: String) -> Bool {
      text.withCString { SSL_ctrl(ssl, command, 0, UnsafeMutableRawPointer(mutating: $0)) == 1 }
    }
    var kept: [String] = []
    for name in list where !kept.contains(name) {
      let key = "\(command) \(name)"
      let isKnown = names[key] ?? take(name)
      if names.count < 4096 { names[key] = isKnown }
      if isKnown, kept.count < 32 { kept.append(name) }
    }
    return !kept.isEmpty && take(kept.joined(separator: ":"))
  }

  /// The names of a record's list. Where the OpenSSL of the record had only a number, a later one has a name.
  private static func named(_ list: String) -> [String] {
    list.split(separator: ":").map { laterNames[String($0)] ?? String($0) }
  }

  private static let laterNames = [
    "0x11eb": "SecP256r1MLKEM768", "0x11ec": "X25519MLKEM768", "0x11ed": "SecP384r1MLKEM1024",
  ]

  private static let allGroups = [
    "X25519", "prime256v1", "secp384r1", "secp521r1", "X448", "X25519MLKEM768", "SecP256r1MLKEM768",
    "SecP384r1MLKEM1024", "MLKEM512", "MLKEM768", "MLKEM1024", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144",
    "ffdhe8192", "brainpoolP256r1", "brainpoolP384r1", "brainpoolP512r1", "brainpoolP256r1tls13",
    "brainpoolP384r1tls13", "brainpoolP512r1tls13",
  ]
}
