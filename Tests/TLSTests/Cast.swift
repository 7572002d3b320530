import Transport
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
    rules: HandshakeRules? = nil, rejection: ClientRejection = .http, revocations: [RevocationList] = [],
    ticketKeys: [TicketKey] = [], ring: TicketKeyRing? = nil, sessionTimeout: Int = 300,
    protocols: AcceptedProtocols = .http,
    pins: PinSet? = nil, purpose: ClientPurpose = .client
  ) throws -> ServerTLSContext {
    var settings = ServerTLSSettings()
    settings.clientPurpose = purpose
    settings.protocols = protocols
    settings.verification = verification
    settings.verifyDepth = depth
    settings.versions = versions
    settings.ciphers = ciphers
    settings.rules = rules
    settings.rejection = rejection
    settings.sessionTimeout = sessionTimeout
    var material = ServerTLSMaterial(
      certificates: [certificate ?? server], clientCAs: authorities ?? [clients.root.certificate], trustedCAs: [],
      revocations: revocations, ticketKeys: ticketKeys)
    material.clientPins = pins
    material.ticketRing = ring
    return try ServerTLSContext(
      settings: settings, material: material,
      sessions: store, ocsp: OCSPClient(pool: BlockingPool()))
  }

  /// A client that judges nobody, with this certificate.
  func client(
    _ identity: CertifiedKey?, versions: TLSVersions = .standard, ciphers: String? = nil, protocols: [String] = []
  ) throws -> UpstreamTLSContext {
    var settings = UpstreamTLSSettings()
    settings.protocols = protocols
    settings.versions = versions
    settings.ciphers = ciphers
    settings.sendsServerName = true
    return try UpstreamTLSContext(
      settings: settings, material: UpstreamTLSMaterial(policy: .anybody, identity: identity))
  }

  /// A location's policy towards its upstream. Without `chain` a pin stands for it (`proxy_ssl_verify off`).
  func policy(
    chain: Bool = true, name: Bool = true, pins: [Pin] = [], mode: PinningMode = .publicKey,
    authorities: [Certificate]? = nil, versions: TLSVersions = .standard, ciphers: String? = nil
  ) throws -> UpstreamTLSContext {
    let anchors = try TrustAnchors(.certificates(authorities ?? [upstreams.root.certificate]))
    let policy: TrustPolicy
    if pins.isEmpty {
      policy = chain ? .verified(anchors, checksName: name) : .anybody
    } else {
      let pins = try PinSet(pins, mode: mode)
      policy =
        chain
        ? .pinned(pins, anchors, checksName: name, reportsOnly: false) : .pinnedLeaf(pins, nil, checksName: name)
    }
    return try context(policy, versions: versions, ciphers: ciphers)
  }

  func context(
    _ policy: TrustPolicy, versions: TLSVersions = .standard, ciphers: String? = nil
  ) throws -> UpstreamTLSContext {
    var settings = UpstreamTLSSettings()
    settings.versions = versions
    settings.ciphers = ciphers
    settings.sendsServerName = true
    return try UpstreamTLSContext(settings: settings, material: UpstreamTLSMaterial(policy: policy, identity: nil))
  }
}

func pin(_ certified: CertifiedKey) -> Pin { Pin(.publicKey(certified.certificate.spkiSHA256)) }

extension ClientVerdict {
  /// `verified`, `refused 10`, …
  var short: String {
    switch self {
    case .absent: "absent"
    case .verified: "verified"
    case .pinned: "pinned"
    case .unverified: "unverified"
    case .refused(_, let code, _, _): "refused \(code)"
    }
  }
}
