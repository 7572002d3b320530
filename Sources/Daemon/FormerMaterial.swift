package import Crypto
import Envelope
import Proxy
package import TLS
import UpstreamAuth

/// What a new generation takes over from the one before.
package struct FormerMaterial: Sendable {
  /// By the file that holds them.
  package var revocations: [MaterialReference: [RevocationList]] = [:]
  /// By certificate.
  package var staples: [Certificate: Staple] = [:]
  /// What responders said of clients.
  private(set) var statusAnswers: [ClientStatusSettings: ClientStatusAnswers] = [:]
  /// Of blocks with `ssl_reload off`: what was loaded for them stays until the configuration is read again.
  private(set) var servers: [ServerTLSSettings: ServerTLSMaterial] = [:]
  private(set) var upstreams: [UpstreamTLSSettings: UpstreamTLSMaterial] = [:]
  private(set) var envelopeKeys: [EnvelopeSettings: EnvelopeKeys] = [:]
  /// What was seen is not forgotten for a reload.
  private(set) var windows: [String: ReplayWindow] = [:]
  private(set) var userFiles: [MaterialReference: UserFile] = [:]

  package init() {}

  package init(_ material: KeyMaterial) {
    revocations = material.revocations
    staples = material.staples
    for context in material.servers.compactMap({ $0?.context }) {
      statusAnswers[context.settings.clientStatus] = context.statusAnswers
    }
    for server in material.servers.compactMap({ $0 }) where !server.context.settings.reloads {
      servers[server.context.settings] = server.material
    }
    upstreams = material.upstreams.filter { !$0.key.reloads }.mapValues(\.material)
    envelopeKeys = material.envelopeKeys.filter { !$0.key.reloads }
    windows = material.windows
    userFiles = material.unwatchedUsers
  }

  /// HUP: everything is loaded anew.
  package mutating func forgetUnwatched() {
    servers = [:]
    upstreams = [:]
    envelopeKeys = [:]
    userFiles = [:]
  }
}

extension MaterialLoader {
  /// What a block with `ssl_reload off` has; nil when it is to be loaded.
  mutating func kept(_ tls: ServerTLSSettings) -> ServerTLSMaterial? {
    guard var material = former.servers[tls] else { return nil }
    // Of this generation, as all others are, with the response that the old one has.
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
