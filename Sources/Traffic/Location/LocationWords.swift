import Bytes
import Identity
import Patterns
import TLS

/// Tells why a request is in a location: which other locations its path could have, and by which rules.
///
/// The location is the one that the exchange found. These words only say what can be read of the settings about it.
package struct LocationWords {
  private let transaction: Transaction
  private let settings: LocationSettings
  private let path: [UInt8]

  package init(_ transaction: Transaction, _ settings: LocationSettings) {
    self.transaction = transaction
    self.settings = settings
    path = transaction.path
  }

  func tell(_ trace: ExplainTrace) {
    let candidates = Self.candidates(in: transaction.server.settings.root, path)
    let isCandidate = candidates.contains { $0 === settings }
    trace.add(
      "location", "\(settings.match.asWritten)  \(settings.location)  \(reason(isCandidate))", .location(settings))
    for candidate in candidates where candidate !== settings && isCandidate {
      trace.add("  not", "\(candidate.match.asWritten)  \(candidate.location)")
    }
    tellRules(trace)
  }

  private func reason(_ isCandidate: Bool) -> String {
    let path = "\"\(String(decoding: path, as: UTF8.self))\""
    if !isCandidate, case .named = settings.match { return "by its name" }
    if !isCandidate { return "the block of an `if` or a `limit_except`" }
    return switch settings.match {
    case .exact: "is exactly \(path)"
    case .prefix: "is the longest prefix of \(path), and no regular expression comes before it"
    case .prefixNoRegex: "is the longest prefix of \(path), and its ^~ leaves out regular expressions"
    case .regex: "is the first regular expression that matches \(path)"
    case .named: "by its name"
    }
  }

  /// The locations that match a path by themselves, outer ones before those inside.
  private static func candidates(in level: LocationSettings, _ path: [UInt8]) -> [LocationSettings] {
    level.locations.filter { matches($0.match, path) }.flatMap { [$0] + candidates(in: $0, path) }
  }

  private static func matches(_ match: LocationMatch, _ path: [UInt8]) -> Bool {
    switch match {
    case .exact(let exact): exact == path
    case .prefix(let prefix), .prefixNoRegex(let prefix): path.starts(with: prefix)
    case .named: false
    case .regex(let pattern, _):
      path.withUnsafeBytes { bytes in
        var captures = Captures()
        return pattern.match(bytes, scratch: RegularExpression.Scratch(), into: &captures) == .match
      }
    }
  }

  // MARK: Rules on the client

  package func tellRules(_ trace: ExplainTrace) {
    guard let rules = transaction.location.clientRules else { return }
    let scratch = transaction.worker.patternScratch
    guard let verdict = transaction.facts.clientVerdict, case .known(let identity) = ClientRules.Client(verdict) else {
      let denying = rules.allow.first.map { ExplainTrace.Fact.rule($0.location, admits: false) }
      return trace.add(
        "rule", "ssl_client_allow or ssl_client_deny, for a client without a verified certificate", denying)
    }
    switch rules.judge(.known(identity), scratch: scratch) {
    case .denied(let place, let reason):
      trace.add("rule", "\(reason)  \(place)  denies the client", .rule(place, admits: false))
    case .admitted:
      let rule = rules.allow.first { $0.match(identity, scratch: scratch) == .match }
      trace.add(
        "rule",
        rule.map { "\($0.effect.rawValue) \($0.spelling)  \($0.location)  admits the client" }
          ?? "no ssl_client_deny matches the client", rule.map { .rule($0.location, admits: true) })
    }
  }
}
