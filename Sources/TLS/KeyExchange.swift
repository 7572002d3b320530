import COpenSSL

/// The group of a handshake's key exchange, as metrics count it: the names are those of `$ssl_curve`.
public enum KeyExchange: String, CaseIterable, Sendable {
  case x25519 = "X25519"
  case x448 = "X448"
  case p256 = "prime256v1"
  case p384 = "secp384r1"
  case p521 = "secp521r1"
  case x25519MLKEM768 = "X25519MLKEM768"
  case p256MLKEM768 = "SecP256r1MLKEM768"
  case p384MLKEM1024 = "SecP384r1MLKEM1024"
  case mlkem512 = "MLKEM512"
  case mlkem768 = "MLKEM768"
  case mlkem1024 = "MLKEM1024"
  case other
  /// By RSA, or a session of TLS 1.2 that was resumed without knowledge of its group.
  case none

  /// `name`: as KeyExchangeGroup gives it, or as `ssl_ecdh_curve` takes it. OpenSSL ignores the case.
  public init(_ name: String) {
    let lower = name.lowercased()
    self =
      switch lower {
      case "": .none
      case "p-256", "secp256r1": .p256
      case "p-384": .p384
      case "p-521": .p521
      default: Self.allCases.first { $0.rawValue.lowercased() == lower && $0 != .none && $0 != .other } ?? .other
      }
  }

  /// Whether a recording of the handshake stays secret from a quantum computer: the group has ML-KEM (FIPS 203), alone or with
  /// a classical one (draft-ietf-tls-ecdhe-mlkem).
  public var isPostQuantum: Bool {
    switch self {
    case .x25519MLKEM768, .p256MLKEM768, .p384MLKEM1024, .mlkem512, .mlkem768, .mlkem1024: true
    case .x25519, .x448, .p256, .p384, .p521, .other, .none: false
    }
  }

  /// `X25519MLKEM768 (post-quantum: yes)`
  public static func inWords(_ name: String) -> String {
    name.isEmpty ? "" : "\(name) (post-quantum: \(KeyExchange(name).isPostQuantum ? "yes" : "no"))"
  }

  /// The groups where the settings name none: the hybrid one where OpenSSL has it (from 3.5 on), and the elliptic ones that
  /// cost the server little. OpenSSL's own list has finite fields too, of which one key share costs the server 141 ms and
  /// the client nothing (D(HE)at, CVE-2002-20001), and X448 and P-521, which cost many times what X25519 costs.
  package static let standard =
    (isPostQuantumByDefault ? [x25519MLKEM768.rawValue] : []) + [x25519.rawValue, "P-256", "P-384"]

  /// Sets them, without those that the context's providers lack: with FIPS, X25519.
  static func setStandard(on context: OpaquePointer) {
    defer { ERR_clear_error() }
    let known = standard.filter { copenssl_ctx_set1_groups_list(context, $0) == 1 }
    // OpenSSL 3.5 then sends key shares of both, and chooses the hybrid group for a client that has sent no share of it.
    let ranked = "?*X25519MLKEM768/?*X25519:?P-256/?P-384"
    if known.contains(x25519MLKEM768.rawValue), copenssl_ctx_set1_groups_list(context, ranked) == 1 { return }
    _ = copenssl_ctx_set1_groups_list(context, known.joined(separator: ":"))
  }

  /// Whether this OpenSSL has a hybrid group (from OpenSSL 3.5 on).
  package static let isPostQuantumByDefault: Bool = {
    guard let context = SSL_CTX_new(TLS_method()) else { return false }
    defer {
      SSL_CTX_free(context)
      ERR_clear_error()
    }
    return copenssl_ctx_set1_groups_list(context, KeyExchange.x25519MLKEM768.rawValue) == 1
  }()

  /// What a list of groups offers, for people; nil: `standard`.
  fileprivate static func offer(_ list: String?) -> String {
    guard let list else {
      let answer = isPostQuantumByDefault ? "yes" : "no, from OpenSSL 3.5 on"
      return "\(standard.joined(separator: ":")) (post-quantum: \(answer))"
    }
    let isHybrid = AlgorithmWeakness.names(inGroups: list).contains {
      KeyExchange($0).isPostQuantum || $0 == "DEFAULT" && isPostQuantumByDefault
    }
    return "\(list) (post-quantum: \(isHybrid ? "yes" : "no"))"
  }
}

extension [ConfCommand] {
  /// The list of groups that replaces that of `ssl_ecdh_curve` (SSL_CONF_cmd(3)).
  var groups: String? { last { ["groups", "curves"].contains($0.name.lowercased()) }?.value }
}

extension ServerTLSSettings {
  /// The groups for the key exchange, and whether one of them is post-quantum.
  package var groupsInWords: String { KeyExchange.offer(confCommands.groups ?? curves) }
}

extension UpstreamTLSSettings {
  /// The groups for the key exchange, and whether one of them is post-quantum.
  package var groupsInWords: String { KeyExchange.offer(confCommands.groups ?? curves) }
}
