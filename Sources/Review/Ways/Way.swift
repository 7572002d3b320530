import Identity
package import Observability
package import TLS
package import Traffic
package import Transport

/// One way to a content: by which listener and server block, by which location and what leads there, and what is asked of
/// a client on it. It is made of settings alone. Nothing of it has run.
package struct Way: Sendable {
  /// As whom a server block takes the client.
  package enum Entry: Sendable, Hashable {
    /// As the block's lines about clients say.
    case admitted
    /// As one whom nobody has admitted: the error page of a refusal, or of a request that can't be read. The codes that
    /// lead there.
    case refused([Int])
  }

  /// Who passes, the weakest first.
  package enum Openness: Int, Sendable, Comparable, CaseIterable {
    case anybody
    /// A variable, a pattern or a server that is asked decides.
    case unknown
    case address
    case password
    case certificate
    case rules
    case nobody

    package static func < (one: Openness, other: Openness) -> Bool { one.rawValue < other.rawValue }
  }

  /// Something that leads from one location, or one listener, to the next.
  package struct Hop: Sendable, Hashable {
    package let words: String
    package let place: SourceLocation?
  }

  /// By its place in `HTTPSettings.listeners`.
  package let listener: Int
  /// By its place in `HTTPSettings.servers`.
  package let server: Int
  package let entry: Entry
  package let hops: [Hop]
  package let location: LocationSettings
  package let content: WayContent
  package let gates: [AccessGate]
  /// The client gets nothing of the response.
  package let isSubrequest: Bool
  /// The location that a path has led to last, before a named location or a block of it; nil: none has.
  package let origin: LocationSettings?
  /// Other leads to the same location, which ask for at least as much.
  package var others: [Hop] = []

  package var openness: Openness { gates.map(\.openness).max() ?? .anybody }

  /// The number of conditions that can refuse somebody, for the order.
  package var strength: Int { gates.count { $0.openness > .anybody } }

  /// Whether a client gets to the content by this way, as far as the configuration says it.
  package func answer(to client: WayClient) -> AccessCondition.Answer {
    var answer = AccessCondition.Answer.admits
    for gate in gates {
      switch gate.answer(to: client) {
      case .refuses: return .refuses
      case .unknown: answer = .unknown
      case .admits, .silent: break
      }
    }
    return answer
  }

  /// Whether every client that passes by this way passes by the other one, too.
  func isCovered(by other: Way) -> Bool {
    listener == other.listener && server == other.server && location === other.location
      && content.key == other.content.key
      && (isSubrequest || !other.isSubrequest) && AccessGate.keys(other.gates).isSubset(of: AccessGate.keys(gates))
  }
}

/// What a way leads to.
package struct WayContent: Sendable {
  package enum Kind: Sendable {
    case upstream
    case content
    /// A text or a status that rewrite directives send.
    case response
  }

  package let kind: Kind
  /// What it is, without where it stands.
  package let stem: String
  /// Where it stands, if that makes it another thing; nil: it is one thing wherever it is named.
  package let place: SourceLocation?

  package var words: String { place.map { "\(stem) at \($0)" } ?? stem }
  /// Ways of one key lead to the same thing.
  package var key: String { words }

  init(_ kind: Kind, _ stem: String, at place: SourceLocation? = nil) {
    self.kind = kind
    self.stem = stem
    self.place = place
  }
}

/// Who goes a way, as far as a configuration can ask. What isn't known makes answers `unknown`.
package struct WayClient {
  /// As rules see it; nil: not known.
  package var address: SocketAddress?
  /// nil: not known.
  package var method: String?
  /// What a server block makes of the client's certificates; nil: not known.
  package var verdict: (Int) -> ClientVerdict?
  /// What the client certainly doesn't have.
  package var lacks: Set<AccessCondition.Kind>

  package init(
    address: SocketAddress? = nil, method: String? = "GET", lacks: Set<AccessCondition.Kind> = [],
    verdict: @escaping (Int) -> ClientVerdict?
  ) {
    self.address = address
    self.method = method
    self.lacks = lacks
    self.verdict = verdict
  }

  /// Somebody without anything.
  package static var nobody: WayClient {
    WayClient(lacks: [.password, .token, .signature, .certificate]) { _ in .absent }
  }
}

/// Conditions that are asked together, in one server block.
package struct AccessGate: Sendable {
  package let conditions: [AccessCondition]
  /// One condition is enough (`satisfy any`).
  package let oneIsEnough: Bool
  /// What the gate asks of who the client is to the server block, besides its conditions; nil: nothing.
  package let admission: ServerTLSSettings?
  package let server: Int
  /// The client is one whom the server block has not admitted.
  let isOfRefused: Bool
  /// Variables say another method than the client's, after an internal redirect.
  let hidesMethod: Bool
  let hidesAddress: Bool
  /// A client's word about its own address is taken.
  let claimsAddress: Bool
  let isTLS: Bool
  /// false: no client can show a certificate, as at a listener without TLS.
  let takesCertificates: Bool

  init(
    _ conditions: [AccessCondition], oneIsEnough: Bool = false, admission: ServerTLSSettings? = nil, in server: Int,
    isOfRefused: Bool = false, hidesMethod: Bool = false, hidesAddress: Bool = false, claimsAddress: Bool = false,
    isTLS: Bool = true, takesCertificates: Bool = true
  ) {
    self.conditions = conditions
    self.oneIsEnough = oneIsEnough && conditions.count > 1
    self.admission = admission
    self.server = server
    self.isOfRefused = isOfRefused
    self.hidesMethod = hidesMethod
    self.hidesAddress = hidesAddress
    self.claimsAddress = claimsAddress
    self.isTLS = isTLS
    self.takesCertificates = takesCertificates
  }

  /// Gates of one key ask for the same.
  var key: String {
    let words = conditions.map { "\($0.phase.rawValue) \($0.words) \($0.place.map { "\($0)" } ?? "")" }
    // What asks for a method may admit a client whose method isn't known any more.
    let isOpen = hidesMethod && conditions.contains { $0.kind == .form }
    return "\(server) \(admission == nil) \(oneIsEnough) \(isOpen) \(words.joined(separator: "; "))"
  }

  /// Words that begin so say why nothing is asked for.
  static let asksNothing = "nothing: "

  /// Words that end so ask for what each client has by its own word.
  private static let claimed = ", which each client may claim to have"

  private static let unshowable = ", which nobody can show at this listener"

  /// A rule on certificates closes the gate, because the listener takes none.
  var isUnshowable: Bool { words.contains { $0.contains(Self.unshowable) } }
  /// What each client has by its own word, in words.
  var claims: [String] { words.filter { $0.contains(Self.claimed) } }
  /// What clients must have to pass, in words.
  package var asks: [String] { words.filter { !$0.hasPrefix(Self.asksNothing) && !$0.contains(Self.claimed) } }

  static func keys(_ gates: [AccessGate]) -> Set<String> { Set(gates.map(\.key)) }

  /// The line that asks; nil: several do, or none.
  var place: SourceLocation? { conditions.count == 1 ? conditions.first?.place : nil }

  package var words: [String] {
    let words = conditions.map { condition in
      if lacksCertificate(condition) { return condition.words + Self.unshowable }
      return condition.words + (isClaimed(condition) ? Self.claimed : "")
    }
    if oneIsEnough { return ["one of: " + words.joined(separator: "; or ")] }
    return (admission.map { [$0.admissionWords] } ?? []) + words
  }

  package var openness: Way.Openness {
    var found = conditions.map { lacksCertificate($0) ? .nobody : isClaimed($0) ? .anybody : $0.openness }
    if oneIsEnough { return found.min() ?? .anybody }
    if let admission { found.append(admission.openness) }
    return found.max() ?? .anybody
  }

  private func lacksCertificate(_ condition: AccessCondition) -> Bool {
    condition.kind == .certificate && condition.isOfCertificates && !takesCertificates
  }

  private func isClaimed(_ condition: AccessCondition) -> Bool { claimsAddress && condition.kind == .address }

  package func answer(to client: WayClient) -> AccessCondition.Answer {
    let verdict = client.verdict(server)
    if let admission {
      switch admission.answer(to: verdict) {
      case .refuses: return .refuses
      case .unknown: return .unknown
      case .admits, .silent: break
      }
    }
    let answers = conditions.map { $0.answer(to: trial(client, verdict)) }
    if oneIsEnough, answers.contains(.admits) { return .admits }
    // With one condition that may be enough, nobody knows.
    if oneIsEnough { return answers.contains(.unknown) ? .unknown : answers.contains(.refuses) ? .refuses : .silent }
    return answers.contains(.refuses) ? .refuses : answers.contains(.unknown) ? .unknown : .admits
  }

  private func trial(_ client: WayClient, _ verdict: ClientVerdict?) -> AccessSubject {
    var trial = AccessSubject(
      address: hidesAddress ? nil : client.address, method: hidesMethod ? nil : client.method, isTLS: isTLS,
      lacks: client.lacks)
    switch verdict {
    case nil: trial.verification = nil
    case .absent?: break
    case .verified?, .pinned?: trial.verification = "SUCCESS"
    case .unverified(_, let reason)?, .refused(_, _, let reason, _)?: trial.verification = "FAILED:\(reason)"
    }
    if let verdict { trial.client = ClientRules.Client(verdict) }
    return trial
  }
}

extension AccessCondition {
  /// Who passes it.
  var openness: Way.Openness {
    switch kind {
    case .form: .anybody
    case .variable, .asked: .unknown
    case .address: .address
    case .password, .token, .signature: .password
    case .certificate: .rules
    case .closed: .nobody
    }
  }
}

extension ServerTLSSettings {
  /// Who gets into a server block with these lines about clients.
  var openness: Way.Openness {
    if rejectsHandshake { return .nobody }
    return verification == .on && rejection != .reportOnly ? .certificate : .anybody
  }

  var admissionWords: String {
    if rejectsHandshake { return "\(AccessGate.asksNothing)each handshake is rejected" }
    let authorities = [clientCertificate, trustedCertificate].compactMap { $0.map { "\($0)" } }.joined(
      separator: " or ")
    let fit = reliesOnPins ? "that is pinned" : workloadTrust != nil ? "of a SPIFFE trust domain" : "of \(authorities)"
    let pinned = clientPins != nil && !reliesOnPins ? ", and pinned" : ""
    let purpose = clientPurpose == .any ? ", of any purpose" : ""
    switch (verification, rejection) {
    case (.off, _): return "\(AccessGate.asksNothing)no certificate is asked for"
    case (_, .reportOnly): return "\(AccessGate.asksNothing)who would be refused is only reported"
    case (.on, _): return "a certificate \(fit)\(pinned)\(purpose)"
    case (.optional, _): return "\(AccessGate.asksNothing)a certificate \(fit)\(pinned)\(purpose), or none"
    case (.optionalNoCA, _): return "\(AccessGate.asksNothing)any certificate, or none"
    }
  }

  /// What `Admission` says to such a client.
  func answer(to verdict: ClientVerdict?) -> AccessCondition.Answer {
    if rejectsHandshake { return .refuses }
    if rejection == .reportOnly || verification == .off { return .admits }
    return switch (verification, verdict) {
    case (_, nil): .unknown
    case (.on, .absent?): .refuses
    case (_, .absent?), (_, .verified?), (_, .pinned?), (.optionalNoCA, .unverified?): .admits
    case (_, .unverified?), (_, .refused?): .refuses
    }
  }

  /// Whether a client of a handshake for one block may send requests to the other one (`ServerTLSContext.clientPolicyDigest`),
  /// as far as settings say it.
  func judgesClients(as other: ServerTLSSettings) -> Bool {
    verification == other.verification && verifyDepth == other.verifyDepth
      && clientCertificate == other.clientCertificate
      && trustedCertificate == other.trustedCertificate && clientPins == other.clientPins
      && clientPurpose == other.clientPurpose && rules == other.rules
      && (rejection == .reportOnly) == (other.rejection == .reportOnly)
  }
}
