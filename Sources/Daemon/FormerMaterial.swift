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
  /// The material in use. That of blocks with `ssl_reload off` is kept until the configuration is read again.
  private(set) var servers: [ServerTLSSettings: ServerTLSMaterial] = [:]
  private(set) var upstreams: [UpstreamTLSSettings: UpstreamTLSMaterial] = [:]
  private(set) var envelopeKeys: [EnvelopeSettings: EnvelopeKeys] = [:]
  private(set) var signatures = SignatureMaterial()
  private(set) var userFiles: [MaterialReference: UserFile] = [:]

  /// What was loaded last, by unit.
  private(set) var units = MaterialUnits()
  /// The units that could not be loaded.
  private(set) var stale: [StaleMaterial] = []
  /// As they were before they were loaded.
  private(set) var files = FileStates(of: [])
  /// Whether the same configuration is loaded again, and only files may have changed.
  private(set) var isOfSameConfiguration = false
  /// Of the SPIFFE agent's message that was loaded; nil: none had come.
  private(set) var workloadDigest: [UInt8]?

  package init() {}

  package init(_ material: KeyMaterial, files: FileStates = FileStates(of: [])) {
    isOfSameConfiguration = true
    self.files = files
    units = material.units
    stale = material.stale
    revocations = material.revocations
    fetched = material.fetched
    staples = material.staples
    for context in material.servers.compactMap({ $0?.context }) {
      statusAnswers[context.settings.clientStatus] = context.statusAnswers
    }
    for server in material.servers.compactMap({ $0 }) { servers[server.context.settings] = server.material }
    upstreams = material.upstreams.mapValues(\.material)
    envelopeKeys = material.envelopeKeys.filter { !$0.key.reloads }
    userFiles = material.unwatchedUsers
    signatures = material.signatures.unwatched
    workloadDigest = material.workloadDigest
  }

  /// The files as the user who serves finds them, not root.
  mutating func markForbidden() { files = files.seenByServingUser() }

  /// Keeps no block as it is: HUP loads everything again.
  package mutating func forgetUnwatched() {
    isOfSameConfiguration = false
    envelopeKeys = [:]
    signatures = SignatureMaterial()
    userFiles = [:]
  }
}

extension MaterialLoader {
  /// Returns the kept material of a block with `ssl_reload off`; nil when it must be loaded.
  mutating func kept(_ tls: ServerTLSSettings) -> ServerTLSMaterial? {
    // What the SPIFFE agent renews has no file to leave alone.
    guard former.isOfSameConfiguration, !tls.reloads, tls.workloadReferences.isEmpty else { return nil }
    return inUse(tls)
  }

  /// Returns the material of a block of the same settings that serves until now.
  mutating func inUse(_ tls: ServerTLSSettings) -> ServerTLSMaterial? {
    guard var material = former.servers[tls] else { return nil }
    // The staples belong to the new generation like all others, and start with the old staples' responses.
    material.staples = material.staples.map { staple($0.question, $0.responder, isFromFile: $0.isFromFile) }
    keptRevocations.formUnion(tls.revocationLists)
    return material
  }

  mutating func kept(_ tls: UpstreamTLSSettings) -> UpstreamTLSMaterial? {
    guard former.isOfSameConfiguration, !tls.reloads, !tls.usesWorkload else { return nil }
    return inUse(tls)
  }

  mutating func inUse(_ tls: UpstreamTLSSettings) -> UpstreamTLSMaterial? {
    guard let material = former.upstreams[tls] else { return nil }
    keptRevocations.formUnion(tls.revocationLists)
    return material
  }
}
