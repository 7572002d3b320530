import Crypto
import Observability
@testable import TLS
import TestSupport

/// The authorities and certificates that the tests of a suite share: keys take time to make.
struct Cast: Sendable {
  let clients: TestAuthority
  let strangers: TestAuthority
  let upstreams: TestAuthority
  let server: CertifiedKey

  static let shared = Result { try Cast() }

  init() throws {
    clients = try TestAuthority("Clients")
    strangers = try TestAuthority("Strangers")
    upstreams = try TestAuthority("Upstreams")
    server = try upstreams.server(names: ["up.test", "other.test"])
  }

  /// A server block. Sessions are kept where a store is given.
  func block(
    _ verification: ClientVerification, certificate: CertifiedKey? = nil, authorities: [Certificate]? = nil,
    depth: Int = 1, versions: TLSVersions = .standard, ciphers: String? = nil, store: SessionStore? = nil,
    rules: HandshakeRules? = nil, rejection: ClientRejection = .http, revocations: [RevocationList] = []
  ) throws -> ServerTLSContext {
    var settings = ServerTLSSettings()
    settings.verification = verification
    settings.verifyDepth = depth
    settings.versions = versions
    settings.ciphers = ciphers
    settings.rules = rules
    settings.rejection = rejection
    return try ServerTLSContext(
      settings: settings,
      material: ServerTLSMaterial(
        certificates: [certificate ?? server], clientCAs: authorities ?? [clients.root.certificate], trustedCAs: [],
        revocations: revocations),
      sessions: store)
  }

  /// A client that judges nobody, with this certificate.
  func client(
    _ identity: CertifiedKey?, versions: TLSVersions = .standard, ciphers: String? = nil
  ) throws -> UpstreamTLSContext {
    var settings = UpstreamTLSSettings()
    settings.versions = versions
    settings.ciphers = ciphers
    settings.sendsServerName = true
    return try UpstreamTLSContext(
      settings: settings, material: UpstreamTLSMaterial(anchors: nil, pins: nil, identity: identity))
  }

  /// A location's policy towards its upstream.
  func policy(
    chain: Bool = true, name: Bool = true, pins: [Pin] = [], authorities: [Certificate]? = nil,
    versions: TLSVersions = .standard, ciphers: String? = nil
  ) throws -> UpstreamTLSContext {
    var settings = UpstreamTLSSettings()
    settings.verifiesChain = chain
    settings.verifiesName = name
    settings.pinning = pins.isEmpty ? .none : .publicKey
    settings.versions = versions
    settings.ciphers = ciphers
    settings.sendsServerName = true
    let anchors = try TrustAnchors(.certificates(authorities ?? [upstreams.root.certificate]))
    return try UpstreamTLSContext(
      settings: settings,
      material: UpstreamTLSMaterial(anchors: anchors, pins: pins.isEmpty ? nil : PinSet(pins), identity: nil))
  }
}

func pin(_ certified: CertifiedKey) -> Pin { Pin(.publicKey(certified.certificate.spkiSHA256)) }

extension ClientVerdict {
  /// `verified`, `refused 10`, …
  var short: String {
    switch self {
    case .absent: "absent"
    case .verified: "verified"
    case .unverified: "unverified"
    case .refused(_, let code, _): "refused \(code)"
    }
  }
}
