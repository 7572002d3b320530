import Crypto
import Features
import Forward
import Identity
import Language
import SPIFFE
import Traffic
import Upstream

/// A policy file that says what holds today, for somebody to read, correct and keep (`sallyport ways --write-policy`).
package struct AccessDraft {
  package let text: String

  package init(_ world: TrialWorld, configuration path: String) {
    var lines = [
      "# What holds of \(path) today. Keep the lines that are meant, and correct the others.",
      "# sallyport check --config \(path) --policy THIS_FILE", "", "who nobody;", "who stranger { ca none; }",
    ]
    var clients: [(name: String, persona: Persona)] = []
    var names: Set<String> = ["nobody", "stranger"]
    for index in world.authorities.indices {
      let authority = world.authorities[index]
      guard authority.certificate.mayIssue, world.authorities(named: authority.file).first == index else { continue }
      let name = Self.word(authority.file, besides: &names)
      var persona = Persona(name, subject: [NamePart("CN", name)], issuer: .authority(index))
      if let domain = authority.trustDomain {
        let id = "\(domain)\(StandIns.workloadPath)"
        persona.alternativeNames = [.uri(id)]
        lines.append("who \(name) { spiffe \(id); }")
      } else {
        lines.append("who \(name) { cn \(name); issuer \(ConfigurationWord.written(authority.file)); }")
      }
      clients.append((name, persona))
    }
    let domains = world.authorities.compactMap(\.trustDomain)
    for rule in world.http.clientRules {
      guard let persona = domains.lazy.compactMap({ Persona(of: rule, in: $0) }).first ?? Persona(of: rule) else {
        continue
      }
      let name = Self.word(persona.workload?.path ?? persona.subject.first?.value ?? "", besides: &names)
      lines.append("who \(name) { \(Self.words(persona)) }  # \(rule.effect.rawValue) \(rule.spelling)")
      clients.append((name, persona))
    }
    let survey = Survey(world)
    for (name, persona) in [("nobody", Persona.nobody), ("stranger", .stranger)] + clients {
      var asserted: Set<String> = []
      lines.append("")
      for finding in survey.findings(of: persona) where Self.isUsual(finding, world) {
        guard persona.issuer == .nobody || world.http.listeners[finding.attempt.listener].isTLS,
          let place = world.words(for: finding.attempt), let line = Self.line(name, place, finding.outcome),
          asserted.insert(Self.occasion(finding, place, line, world)).inserted
        else { continue }
        lines.append(line)
      }
    }
    lines.append("")
    let unverified = survey.findings(of: .nobody) + survey.findings(of: .stranger)
    for group in Set(world.http.groups.map(\.name)).sorted() {
      let isOpen = unverified.contains { $0.outcome.upstreams.contains { $0.name == group } }
      let isReached =
        isOpen
        || clients.contains { client in
          survey.findings(of: client.persona).contains { $0.outcome.upstreams.contains { $0.name == group } }
        }
      if !isOpen, isReached {
        lines.append("never to upstream \(ConfigurationWord.written(group)) without certificate;")
      }
    }
    text = lines.map { $0 + "\n" }.joined()
  }

  /// Whether it is what a client would ask for: the name of its handshake is that of its Host, and the path is as the
  /// configuration writes it.
  private static func isUsual(_ finding: Survey.Finding, _ world: TrialWorld) -> Bool {
    let attempt = finding.attempt
    return attempt.method == "GET" && attempt.client == Attempt.usualAddress && attempt.isPlain
      && (attempt.serverName == attempt.host || !world.http.listeners[attempt.listener].isTLS)
  }

  /// Of several attempts of one occasion, the first is asserted: those that come to one location with one result, and those
  /// with a name that no server block has.
  private static func occasion(
    _ finding: Survey.Finding, _ place: String, _ line: String, _ world: TrialWorld
  ) -> String {
    let listener = finding.attempt.listener
    if world.http.listeners[listener].kind == .stream { return place }
    let isNamed = finding.outcome.server?.names.contains { !$0.asWritten.isEmpty } ?? true
    if isNamed, finding.attempt.host == Survey.strangeName { return "any other name at \(listener)" }
    let location = finding.outcome.locations.last ?? finding.outcome.server?.root
    return "\(listener) \(location.map { "\($0.location)" } ?? place) \(line.replacing(place, with: ""))"
  }

  private static func line(_ name: String, _ place: String, _ outcome: Outcome) -> String? {
    if outcome.isUnknown { return nil }
    if outcome.isServed {
      let status = if case .status(let status) = outcome.end, status >= 300 { " \(status)" } else { "" }
      return "allow \(name) \(place)\(outcome.asks.isEmpty ? status : " asked");"
    }
    if case .handshake = outcome.end { return "refuse \(name) \(place);" }
    return "refuse \(name) \(place)\(outcome.status.map { " \($0)" } ?? "");"
  }

  /// The name of a client, by what it is of.
  private static func word(_ text: String, besides names: inout Set<String>) -> String {
    let last = text.split(separator: "/").last.map(String.init) ?? text
    let stem = String(last.prefix { $0 != "." && $0 != "@" }.map { $0.isLetter || $0.isNumber ? $0 : "-" })
    var name = stem.isEmpty ? "client" : stem
    while !names.insert(name).inserted { name += "-2" }
    return name
  }

  // MARK: Clients by rules

  private static func words(_ persona: Persona) -> String {
    var words = ["subject \(ConfigurationWord.written(persona.dn));"]
    words += persona.alternativeNames.compactMap(\.statement).map {
      "\($0.name) \(ConfigurationWord.written($0.value));"
    }
    if let serial = persona.serial { words.append("serial \(serial);") }
    return words.joined(separator: " ")
  }
}
