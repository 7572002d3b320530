package import Crypto
import Envelope
import Proxy
package import TLS
import UpstreamAuth

/// What a new generation reuses from the previous one.
package struct FormerMaterial: Sendable {
  /// Keyed by the file that holds the CRLs.
  package var revocations: [MaterialReference: [RevocationList]] = [:]
  /// The revocation lists that are fetched.
  private(set) var fetched: [FetchedSource] = []
  /// Keyed by certificate.
  package var staples: [Certificate: Staple] = [:]
  /// The responders' answers about clients.
  private(set) var statusAnswers: [ClientStatusSettings: ClientStatusAnswers] = [:]
  /// The material of blocks with `ssl_reload off`, which is kept until the configuration is read again.
  private(set) var servers: [ServerTLSSettings: ServerTLSMaterial] = [:]
  private(set) var upstreams: [UpstreamTLSSettings: UpstreamTLSMaterial] = [:]
  private(set) var envelopeKeys: [EnvelopeSettings: EnvelopeKeys] = [:]
  private(set) var signatures = SignatureMaterial()
  private(set) var userFiles: [MaterialReference: UserFile] = [:]

  /// Of the SPIFFE agent's message that was loaded; nil: none had come.
  private(set) var workloadDigest: [UInt8]?

  package init() {}

  package init(_ material: KeyMaterial) {
    revocations = material.revocations
    fetched = material.fetched
    staples = material.staples
    for context in material.servers.compactMap({ $0?.context }) {
      statusAnswers[context.settings.clientStatus] = context.statusAnswers
    }
    // What the SPIFFE agent renews has no file to leave alone.
    for server in material.servers.compactMap({ $0 })
    where !server.context.settings.reloads && server.context.settings.workloadReferences.isEmpty {
      servers[server.context.settings] = server.material
    }
    upstreams = material.upstreams.filter { !$0.key.reloads && !$0.key.usesWorkload }.mapValues(\.material)
    envelopeKeys = material.envelopeKeys.filter { !$0.key.reloads }
    userFiles = material.unwatchedUsers
    signatures = material.signatures.unwatched
    workloadDigest = material.workloadDigest
  }

  /// Forgets the kept material: HUP loads everything again.
  package mutating func forgetUnwatched() {
    servers = [:]
    upstreams = [:]
    envelopeKeys = [:]
    signatures = SignatureMaterial()
    userFiles = [:]
  }
}

extension MaterialLoader {
  /// Returns the kept material of a block with `ssl_reload off`; nil when it must be loaded.
  mutating func kept(_ tls: ServerTLSSettings) -> ServerTLSMaterial? {
    guard var material = former.servers[tls] else { return nil }
    // The staples belong to the new generation like all others, and start with the old staples' responses.
    material.staples = material.staples.map { staple($0.question, $0.responder, isFromFile: $0.isFromFile) }
    keptRevocations.formUnion(tls.revocationLists)
    return material
  }

  mutating func kept(_ tls: UpstreamTLSSettings) -> UpstreamTLSMaterial? {
    guard let material = former.upstreams[tls] else { return nil }
    keptRevocations.formUnion(tls.revocationLists)
    return material
  }
}
