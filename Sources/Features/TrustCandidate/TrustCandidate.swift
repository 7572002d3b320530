import Identity
package import Language
import Observability
import TLS
import Traffic

/// ssl_verify_candidate, which nginx does not have: the next trust judges the clients that come beside the trust that
/// decides, and decides nothing.
///
/// The folder is the whole feature: the directive and what it sets here, what happens in a handshake in `CandidateWatch`, and
/// what is counted and told in `CandidateCounts`. The files of a candidate are loaded as those of any trust (`KeyMaterial`),
/// and the judgement is that of a handshake (`TLSStream.verdict(beside:)`).
struct TrustCandidate: LocationFeature {
  /// Where the block stands.
  @NotCompared var place: SourceLocation

  /// What the blocks say, by their places.
  struct Rules: BlockPart {
    /// nil: the candidate has no access rules.
    var byPlace: [SourceLocation: ClientRules] = [:]
  }

  // MARK: Directives

  static let chapter = Chapter.tls
  static let kinds: Set<TrafficKind> = [.http, .stream]

  private static let line = DirectiveEntry.local(
    "ssl_verify_candidate", .everyServer, .block(0...0, ""),
    "The next trust of the server: its lines stand in place of the server's own of the same name, and the others stay. It judges each client of a handshake beside the trust that decides, and decides nothing. Where both differ, the error log (`info`), the metrics and the status page tell of it. With `ssl_verify_client on` in the block, clients without a certificate are told of too.",
    example: "ssl_verify_candidate { ssl_client_certificate next-ca.crt; }", trust: .none)

  static let directives = [line]
  static let sharedParts: [any SharedPart.Type] = [CandidateCounts.self]
  static let workerParts: [WorkerPart.Type] = [CandidateSummary.self]

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> TrustCandidate? {
    switch level {
    case .server(let scope), .streamServer(let scope):
      return line.ownLine(in: scope).map { TrustCandidate(place: $0.location) }
    case .location, .conditional: return nil
    }
  }

  static func read(_ block: inout ServerBlock, _ builder: inout SettingsBuilder) {
    guard let line = line.ownLine(in: block.scope) else { return }
    let hint = "ssl_verify_client on, or optional; the candidate says what is to be different"
    if let fault = block.unasked(line, hint: hint) { return builder.diagnostics.append(fault) }
    guard block.tls != nil else {
      return builder.error(
        line.location, "\"\(line.name)\" needs handshakes, but the server at \(block.place) has no listen with ssl",
        hint: "what fronts send of their clients is judged by the server's own trust alone")
    }
    let next = next(of: block, line, &builder)
    guard let trust = next.linesOfTLS?.asCandidate else { return }
    if trust == block.linesOfTLS?.asCandidate, next.clientRules?.fingerprint == block.clientRules?.fingerprint {
      builder.warning(
        line.location, "\"\(line.name)\" says nothing else than the server: nobody will be judged otherwise",
        hint: "ssl_client_certificate NEXT-CA; and what else changes")
    }
    if trust.settings.verification == .off {
      builder.error(
        line.location, "\"\(line.name)\" with \"ssl_verify_client off\": it would judge nobody",
        hint: "on or optional; without a line, as the server says")
      return
    }
    block.linesOfTLS?.candidate = trust
    builder[Rules.self].byPlace[line.location] = next.clientRules
  }

  /// The server block with the candidate's lines, as the features read it whose lines may stand there. What was wrong before
  /// is not told again.
  private static func next(of block: ServerBlock, _ line: Directive, _ builder: inout SettingsBuilder) -> ServerBlock {
    let told = builder.diagnostics
    var next = block.with(line.block ?? [])
    for feature in judges(builder.features) { feature.read(&next, &builder) }
    builder.forget(since: told)
    return next
  }

  private static func judges(_ features: FeatureDirectives) -> [any DirectiveFeature.Type] {
    features.all.filter { $0.directives.contains { $0.contexts.contains(.candidate) } }
  }

  static func judge(_ block: ServerBlock, _ builder: inout SettingsBuilder) {
    guard block.linesOfTLS?.candidate != nil, let line = line.ownLine(in: block.scope) else { return }
    let told = builder.diagnostics
    let next = next(of: block, line, &builder)
    builder.diagnostics = told
    for feature in judges(builder.features) { feature.judge(next, &builder) }
    builder.forget(since: told)
  }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    let generation = makers.generation
    guard parts.isOfServer, let candidate = generation.serverContexts[makers.server]?.candidate else { return }
    let tally = makers.shared[CandidateCounts.self].tally(
      of: ServerSeries(makers.server, of: generation.http), candidate.clientPolicyDigest)
    parts.watches.append(CandidateWatch(generation.http[Rules.self].byPlace[place], tally))
  }

  func clientPolicy(of server: ServerSettings) -> [(label: String, text: String)] {
    guard let next = server.tls?.candidate?.settings else { return [] }
    var words = ["ssl_verify_client \(next.verification.rawValue)"]
    words += [next.clientCertificate, next.trustedCertificate].compactMap { $0 }.map { "CA \($0)" }
    words += next.revocationLists.map { "list \($0)" }
    if let pins = next.clientPins { words.append("\(pins.sources.count) pins") }
    words.append("depth \(next.verifyDepth)")
    return [("candidate", "\(words.joined(separator: ", ")); it judges beside, and decides nothing")]
  }
}

extension SettingsBuilder {
  /// Drops what was told since then and before.
  fileprivate mutating func forget(since told: [Diagnostic]) {
    let fresh = diagnostics.dropFirst(told.count).filter { !told.contains($0) }
    diagnostics = told + fresh
  }
}

extension DirectiveContexts {
  package static let candidate = DirectiveContexts(block: "ssl_verify_candidate", in: .everyServer)
}
