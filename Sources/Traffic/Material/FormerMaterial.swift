package import Crypto
package import TLS

/// What a new generation reuses from the previous one.
package struct FormerMaterial: Sendable {
  /// Keyed by the file that holds the CRLs.
  package var revocations: [MaterialReference: [RevocationList]] = [:]
  /// The revocation lists that are fetched.
  package var fetched: [FetchedSource] = []
  /// Keyed by certificate.
  package var staples: [Certificate: Staple] = [:]
  /// The responders' answers about clients.
  package var statusAnswers: [ClientStatusSettings: ClientStatusAnswers] = [:]
  /// The material in use. That of blocks with `ssl_reload off` is kept until the configuration is read again.
  package var servers: [ServerTLSSettings: ServerTLSMaterial] = [:]
  package var upstreams: [UpstreamTLSSettings: UpstreamTLSMaterial] = [:]

  /// What was loaded last, by unit.
  package var units = MaterialUnits()
  /// The units that could not be loaded.
  package var stale: [StaleMaterial] = []
  /// As they were before they were loaded.
  package var files = FileStates(of: [])
  /// Whether the same configuration is loaded again, and only files may have changed.
  package var isOfSameConfiguration = false
  /// Of the SPIFFE agent's message that was loaded; nil: none had come.
  package var workloadDigest: [UInt8]?

  package init() {}

  /// The files as the user who serves finds them, not root.
  package mutating func markForbidden() { files = files.seenByServingUser() }

  /// Keeps no block as it is: HUP loads everything again.
  package mutating func forgetUnwatched() {
    isOfSameConfiguration = false
  }
}

extension MaterialLoader {
  /// Returns the kept material of a block with `ssl_reload off`; nil when it must be loaded.
  package mutating func kept(_ tls: ServerTLSSettings) -> ServerTLSMaterial? {
    // What the SPIFFE agent renews has no file to leave alone.
    guard former.isOfSameConfiguration, !tls.reloads, tls.workloadReferences.isEmpty else { return nil }
    return inUse(tls)
  }

  /// Returns the material of a block of the same settings that serves until now.
  package mutating func inUse(_ tls: ServerTLSSettings) -> ServerTLSMaterial? {
    guard var material = former.servers[tls] else { return nil }
    // The staples belong to the new generation like all others, and start with the old staples' responses.
    material.staples = material.staples.map { staple($0.question, $0.responder, isFromFile: $0.isFromFile) }
    keptRevocations.formUnion(tls.revocationLists)
    return material
  }

  package mutating func kept(_ tls: UpstreamTLSSettings) -> UpstreamTLSMaterial? {
    guard former.isOfSameConfiguration, !tls.reloads, !tls.usesWorkload else { return nil }
    return inUse(tls)
  }

  package mutating func inUse(_ tls: UpstreamTLSSettings) -> UpstreamTLSMaterial? {
    guard let material = former.upstreams[tls] else { return nil }
    keptRevocations.formUnion(tls.revocationLists)
    return material
  }

  /// Returns this generation's staple for the certificate. A new one starts with the previous generation's response.
  package mutating func staple(
    _ question: OCSPRequest, _ responder: StatusResponder?, isFromFile: Bool
  ) -> Staple {
    if let known = staples[question.certificate] { return known }
    let staple = Staple(question, responder: responder, isFromFile: isFromFile)
    if let old = former.staples[question.certificate] { staple.take(over: old) }
    staples[question.certificate] = staple
    return staple
  }
}
