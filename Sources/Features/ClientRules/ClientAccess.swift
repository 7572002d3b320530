import Bytes
import Forward
package import Identity
package import Language
import Patterns
import TLS
package import Traffic

/// ssl_client_allow and ssl_client_deny, which nginx does not have: which certificates clients may have.
///
/// The folder is the whole feature: the directives and what they set here, what contradicts them in `ClientIdentityRule`,
/// and `ClientIdentity`, by which upstreams are told of the client. The rules are no step of the access phase, so that no
/// `satisfy` and no password can override them (docs/SECURITY.md): each entry to a location asks them.
package struct ClientAccess: LocationFeature {
  /// One object wherever the same lines are inherited.
  let rules: ClientRules

  // MARK: Directives

  package static let chapter = Chapter.tls
  package static let kinds: Set<TrafficKind> = [.http, .stream]
  private static let levels = DirectiveContexts.everyHTTP.union(.limitExcept).union(.everyStream).union(.candidate)
  private static let allow = ClientRule.Effect.allow.rawValue
  private static let deny = ClientRule.Effect.deny.rawValue

  package static let directives: [DirectiveEntry] = [
    .list(
      allow, levels, .words(1...Int.max, "KEY=PATTERN …"),
      "",
      "Admits only clients that match all conditions of at least one line. Keys: cn, o, ou, dns, email, uri, ip, serial, issuer, fingerprint, spki. `*` matches one label or path segment, `**` several; `~` starts a regular expression.",
      example: "ssl_client_allow dns=*.devices.example;", trust: .told
    ).option("--allow"),
    .list(
      deny, levels, .words(1...Int.max, "KEY=PATTERN …"),
      "",
      "Denies clients that match all conditions of a line; applies before ssl_client_allow.",
      example: "ssl_client_deny cn=stolen-laptop;", trust: .told
    ).option("--deny"),
  ]

  /// `admitted`, or `refused:` with the reason; empty without TLS. Under `ssl_verify_report_only`, a client whose verdict is
  /// a refusal was let in.
  package static let variables = [
    FeatureVariable(
      ofBoth: "ssl_client_verdict",
      "`admitted`, or `refused:` with the reason. Under `ssl_verify_report_only`, a client whose verdict is a refusal was let in.",
      isOursAlone: true
    ) { transaction, output in
      guard borrowing(transaction.facts, { $0.isTLS || $0.relayed != nil }) else { return }
      switch transaction.admission {
      case .undecided, .inClear: break
      case .refused(_, _, let reason), .reported(let reason): output.append(string: "refused:\(reason)")
      case .granted:
        if let denial = transaction.location.denial(of: transaction.facts, scratch: transaction.worker.patternScratch) {
          output.append(string: "refused:\(denial)")
        } else {
          output.append("admitted")
        }
      }
    }
  ]

  package static func read(_ level: Level, _ builder: inout SettingsBuilder) -> ClientAccess? {
    rules(level.scope, &builder).map { ClientAccess(rules: $0) }
  }

  package static func read(_ block: inout ServerBlock, _ builder: inout SettingsBuilder) {
    block.clientRules = rules(block.scope, &builder)
    block.linesOfTLS?.rules = block.clientRules.map {
      HandshakeRules(fingerprint: $0.fingerprint, needsCertificate: !$0.allow.isEmpty)
    }
  }

  /// The rules in effect at a level. Each of the two directives is inherited separately.
  static func rules(_ scope: Scope, _ builder: inout SettingsBuilder) -> ClientRules? {
    let lines = (allow: scope.list(allow), deny: scope.list(deny))
    let places = (lines.allow + lines.deny).map(\.location)
    if let known = builder.clientRules[places] { return known }
    let rules = ClientRules(
      allow: rules(.allow, lines.allow, &builder), deny: rules(.deny, lines.deny, &builder))
    builder.clientRules[places] = .some(rules)
    return rules
  }

  private static func rules(
    _ effect: ClientRule.Effect, _ lines: [Directive], _ builder: inout SettingsBuilder
  ) -> [ClientRule] {
    lines.compactMap { line in
      let words = line.arguments.map { (text: $0.text, location: $0.location) }
      let (rule, faults) = ClientRule.parse(effect, words, at: line.location)
      builder.diagnostics += faults
      return rule
    }
  }

  package static func admitsOnlySome(_ scope: Scope) -> Bool { !scope.list(allow).isEmpty }

  /// The lines of `allow` in effect at a level, and its own.
  static func allowing(_ scope: Scope) -> (all: [Directive], own: [Directive]) { (scope.list(allow), scope.own(allow)) }

  /// Whether a rule at a level or at one inside it says which clients may get in.
  static func isRestricted(_ scope: Scope) -> Bool {
    !scope.list(allow).isEmpty || scope.directives.contains { hasRule($0) }
  }

  private static func hasRule(_ line: Directive) -> Bool {
    line.name == allow || (line.block ?? []).contains { hasRule($0) }
  }

  /// A line that admits workloads by their SPIFFE IDs.
  static let exampleOfID = "\(allow) uri=spiffe://example.org/ns/*/sa/web;"

  /// The level's own lines of `deny`.
  static func denying(_ scope: Scope) -> [Directive] { scope.own(deny) }

  // MARK: Effect

  package func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.clientRules = rules }

  package var entryRule: EntryRule? {
    let lines = rules.deny.map { "deny \($0.spelling)" } + rules.allow.map { "allow \($0.spelling)" }
    return EntryRule(text: "ssl_client \(lines.joined(separator: ", "))")
  }

  package var ways: LocationWays {
    let lines = rules.deny.map { "deny \($0.spelling)" } + rules.allow.map { "allow \($0.spelling)" }
    let place = (rules.allow + rules.deny).first?.location
    return LocationWays(conditions: [
      // Without a line of `allow`, who shows no certificate passes.
      AccessCondition(
        rules.allow.isEmpty ? .form : .certificate, .entry,
        "a certificate by the rules: \(lines.joined(separator: ", "))",
        at: place, examples: rules.allow.map { .rule($0) }, isOfCertificates: true
      ) { [rules] trial in
        if case .admitted = rules.judge(trial.client, scratch: trial.scratch) { .admits } else { .refuses }
      }
    ])
  }

  package var guardingDirective: String? { rules.allow.isEmpty ? nil : Self.allow }

  package static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    let before = Set((old?.rules.allow ?? []).map(\.spelling)), after = Set((new?.rules.allow ?? []).map(\.spelling))
    switch (before.isEmpty, after.isEmpty) {
    case (false, true):
      found.opens(
        "ssl_client_allow no longer limits which clients get in (was \(before.sorted().joined(separator: "; ")))")
    case (true, false):
      found.closes("only clients that match ssl_client_allow get in: \(after.sorted().joined(separator: "; "))")
    case (false, false):
      found.set(before, after) {
        "clients that match \($0) get in"
      } removed: {
        "clients that match \($0) no longer get in"
      }
    case (true, true): break
    }
    found.guards(Set((old?.rules.deny ?? []).map(\.spelling)), Set((new?.rules.deny ?? []).map(\.spelling))) {
      "clients that match \($0) are denied"
    } removed: {
      "clients that match \($0) are no longer denied"
    }
  }
}

extension LocationSettings {
  /// nil: every client that the server lets in. For what is loaded or reported, as the other settings of features.
  package var clientRules: ClientRules? { self[ClientAccess.self]?.rules }
}
