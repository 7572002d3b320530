import Features
import Language
package import Observability
import Traffic
import Transport

/// Which rules of a configuration no assertion would miss: each is taken out of the configuration, and the assertions are
/// judged again.
///
/// A rule is a statement without which somebody gets in who doesn't with it (`check --diff` says that). What the
/// configuration isn't valid without is no rule of its own.
package struct AccessCoverage: Sendable {
  package struct Rule: Sendable {
    /// The statement, without its block.
    package let text: String
    package let place: SourceLocation
    /// What its absence opens, in the words of `check --diff`.
    package let effect: String
    /// An assertion that would miss it.
    package let assertion: String

    var words: String { "no assertion fails without it: \(effect)" }
    var advice: String { "add: \(assertion)" }
  }

  package private(set) var covered = 0
  package private(set) var uncovered: [Rule] = []
  /// Statements that open something when they are gone, and no attempt shows for whom.
  package private(set) var unshown: [(text: String, place: SourceLocation)] = []
  /// Those that a file says can't be tested, with its reason.
  package private(set) var untested: [(text: String, reason: String)] = []

  init(of policies: [AccessPolicy], _ world: TrialWorld) {
    let whole = world.compared, excused = policies.flatMap(\.untested)
    let survey = Survey(world, addresses: policies.flatMap { $0.clients.values.compactMap(\.address) })
    for (line, place) in Self.candidates(world.statements, Features.all.directives.table) {
      guard let mutant = try? TrialWorld(world, without: line.location, in: place.server) else { continue }
      let opened = TrustDifference.changes(whole, mutant.compared).all.filter { $0.direction == .opens }
      guard let effect = opened.first?.sentence else { continue }
      let text = ([line.name] + line.arguments.map { ConfigurationWord.written($0.text) }).joined(separator: " ")
      if let excuse = excused.first(where: { text.hasPrefix($0.rule) }) {
        untested.append((text, excuse.reason))
        continue
      }
      let near = place.location.map { Survey(survey, in: mutant, at: $0) }
      if Self.isMissed(policies, mutant, near, place.server) {
        covered += 1
      } else if let assertion = Self.assertion(telling: survey, from: mutant, policies, near) {
        uncovered.append(Rule(text: text, place: line.location, effect: effect, assertion: assertion))
      } else {
        unshown.append((text, line.location))
      }
    }
  }

  /// Whether an assertion fails without a rule. That of a location decides on the attempts that come there (`near`); another
  /// one mostly on those that come to its server block, and others are tried only after them.
  private static func isMissed(
    _ policies: [AccessPolicy], _ mutant: TrialWorld, _ near: Survey?, _ place: SourceLocation?
  ) -> Bool {
    func fails(_ tried: Survey?) -> Bool {
      policies.contains { AccessTrial($0, mutant, trying: tried).hasFailure() }
    }
    if let near {
      if fails(near) { return true }
      if near.isReached { return false }
    }
    let addresses = policies.flatMap { $0.clients.values.compactMap(\.address) }
    if let server = mutant.http.servers.firstIndex(where: { $0.location == place }) {
      let around = Survey(mutant, addresses: addresses, near: server)
      if around.isPart, fails(around) { return true }
    }
    return fails(nil)
  }

  /// The outermost server block and the innermost location around a statement; nil: there is none.
  private struct Place {
    var server: SourceLocation?
    var location: SourceLocation?
  }

  /// The statements that may decide who gets in, by their rows.
  private static func candidates(
    _ lines: [Directive], _ table: DirectiveTable, in place: Place = Place()
  ) -> [(line: Directive, place: Place)] {
    var found: [(line: Directive, place: Place)] = []
    for line in lines {
      let rows = table.entries(named: line.name)
      let isContainer = line.block?.contains { $0.block != nil } ?? false
      if !isContainer, rows.contains(where: { $0.trust != .none && $0.status == .supported }) {
        found.append((line, place))
      }
      if rows.contains(where: { $0.form.opensBlock && !$0.form.isTable }) {
        var inner = place
        if line.name == "server" { inner.server = place.server ?? line.location }
        if line.name == "location" { inner.location = line.location }
        found += candidates(line.block ?? [], table, in: inner)
      }
    }
    return found
  }

  /// An assertion that holds in one world and fails in the other.
  private static func assertion(
    telling survey: Survey, from mutant: TrialWorld, _ policies: [AccessPolicy], _ near: Survey?
  ) -> String? {
    for policy in policies {
      for name in policy.clients.keys.sorted() {
        guard let client = policy.clients[name], case .success(let persona) = client.resolved(in: survey.world),
          case .success(let other) = client.resolved(in: mutant)
        else { continue }
        for finding in survey.findings(of: persona, from: client.address)
        where !finding.outcome.isUnknown && near?.mayTell(finding) != false {
          var attempt = finding.attempt
          attempt.persona = other
          guard mutant.http.listeners.indices.contains(attempt.listener) else { continue }
          let outcome = mutant.outcome(of: attempt)
          if !finding.outcome.isAdmitted, outcome.isAdmitted, outcome.asks.isEmpty || finding.outcome.asks.isEmpty {
            return words("refuse", name, attempt, survey.world)
          }
          if finding.outcome.isAdmitted, outcome.isAdmitted, !finding.outcome.asks.isEmpty, outcome.asks.isEmpty {
            return words("allow", name, attempt, survey.world, " asked")
          }
        }
      }
    }
    return nil
  }

  private static func words(
    _ verb: String, _ client: String, _ attempt: Attempt, _ world: TrialWorld, _ end: String = ""
  ) -> String? {
    guard let place = world.words(for: attempt) else { return nil }
    let isUsual = attempt.client == Attempt.usualAddress
    return "\(verb) \(client) \(place)\(end)\(isUsual ? "" : " from=\(attempt.client.host)");"
  }

  // MARK: Words

  package var lines: [String] {
    var lines: [String] = []
    for rule in uncovered {
      lines += ["\(rule.place): error: \(rule.text): \(rule.words)", "    \(rule.advice)"]
    }
    if !unshown.isEmpty {
      lines.append("notice: without these something is open, and no attempt shows for whom:")
      // A file that is included several times has each line once.
      lines += unshown.gathered { "\($0.text) at \($0.place)" }.compactMap(\.first).gathered { $0.text }.map { same in
        "    \(same.first?.text ?? "") (\(same.map { "\($0.place)" }.joined(separator: ", ")))"
      }
    }
    for rule in untested { lines.append("notice: \(rule.text) is not tested: \(rule.reason)") }
    let all = covered + uncovered.count
    lines.append("coverage: \(covered) of \(all.of("rule that decides", "rules that decide")) on access")
    return lines
  }

  func append(to json: inout JSONText) {
    json.object("coverage") { json in
      json.member("covered", covered)
      json.array("uncovered", uncovered) { rule, json in
        json.object { json in
          json.member("rule", rule.text)
          json.member("place", "\(rule.place)")
          json.member("effect", rule.effect)
          json.member("assertion", rule.assertion)
        }
      }
      json.array("unshown", unshown) { rule, json in
        json.object { json in
          json.member("rule", rule.text)
          json.member("place", "\(rule.place)")
        }
      }
      json.array("untested", untested) { rule, json in
        json.object { json in
          json.member("rule", rule.text)
          json.member("reason", rule.reason)
        }
      }
    }
  }
}

extension TrialWorld {
  /// The request of an attempt, as an assertion writes it; nil: no URL leads to its listener.
  func words(for attempt: Attempt) -> String? {
    let listener = http.listeners[attempt.listener]
    guard case .socket(let address) = listener.address, let port = address.port else { return nil }
    if listener.kind == .stream { return "TCP \(attempt.host):\(port)" }
    let scheme = listener.isTLS ? "https" : "http"
    let isStandard = port == (listener.isTLS ? 443 : 80)
    let url = "\(scheme)://\(attempt.host)\(isStandard ? "" : ":\(port)")\(attempt.target)"
    let name =
      listener.isTLS && attempt.serverName != attempt.host
      ? " sni=\(ConfigurationWord.written(attempt.serverName))" : ""
    return "\(attempt.method) \(ConfigurationWord.written(url))\(name)"
  }
}
