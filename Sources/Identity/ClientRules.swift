public import Observability
public import Patterns
public import TLS

/// One `ssl_client_allow` or `ssl_client_deny` directive: conditions that must all hold.
public struct ClientRule: Sendable {
  public enum Effect: String, Sendable, Hashable {
    case allow = "ssl_client_allow"
    case deny = "ssl_client_deny"
  }

  public let effect: Effect
  /// The directive's arguments.
  package let spelling: String
  public let location: SourceLocation
  let conditions: [IdentityCondition]

  /// Parses the arguments. Reports every fault; with a fault there is no rule. `directive`: for messages; nil: that of the
  /// effect.
  package static func parse(
    _ effect: Effect, _ words: [(text: String, location: SourceLocation)], at location: SourceLocation,
    named directive: String? = nil
  ) -> (rule: ClientRule?, faults: [Diagnostic]) {
    var conditions: [IdentityCondition] = []
    var faults: [Diagnostic] = []
    for word in words {
      do throws(RuleError) {
        conditions.append(try IdentityCondition(parsing: word.text))
      } catch {
        faults.append(
          Diagnostic(
            .error, at: word.location, "\(error.message) in \"\(directive ?? effect.rawValue)\"", hint: error.hint))
      }
    }
    guard faults.isEmpty, !conditions.isEmpty else { return (nil, faults) }
    let spelling = words.map(\.text).joined(separator: " ")
    return (ClientRule(effect: effect, spelling: spelling, location: location, conditions: conditions), [])
  }

  /// Whether a condition of the rule reads this key.
  package func reads(_ key: IdentityKey) -> Bool { conditions.contains { $0.key == key } }

  /// Matches with three values: one condition that does not match decides; one that reached its limit leaves the result
  /// open.
  package func match(_ identity: PeerIdentity, scratch: RegularExpression.Scratch) -> MatchOutcome {
    var outcome = MatchOutcome.match
    for condition in conditions {
      switch condition.match(identity, scratch: scratch) {
      case .noMatch: return .noMatch
      case .limit: outcome = .limit
      case .match: break
      }
    }
    return outcome
  }
}

/// The access rules in effect at one place (`ssl_client_allow`, `ssl_client_deny`). Immutable, and shared by all
/// workers. A class, so that a connection can remember by identity which rules judged it.
public final class ClientRules: Sendable {
  /// The client that rules judge.
  public enum Client: Sendable {
    /// The client presented no certificate, or one that nobody verified.
    case anonymous
    /// The client's certificate did not verify, and the request is redirected to an error page.
    case refused
    case known(PeerIdentity)

    public init(_ verdict: ClientVerdict) {
      switch verdict {
      case .absent, .unverified: self = .anonymous
      case .refused: self = .refused
      case .verified(let chain): self = .known(PeerIdentity(.chain(chain)))
      case .pinned(let leaf): self = .known(PeerIdentity(.pin(leaf)))
      }
    }

    /// `client`: nil if nothing verified it.
    public init(_ client: VerifiedClient?) {
      self = client.map { .known(PeerIdentity($0)) } ?? .anonymous
    }
  }

  public enum Decision: Sendable, Hashable {
    case admitted
    /// Denied by the rule at this place.
    case denied(at: SourceLocation, reason: String)
  }

  /// If there is any, only clients that match one of these have access.
  public let allow: [ClientRule]
  /// Judged before `allow`.
  public let deny: [ClientRule]
  /// The keys that the rules read, each with the place of the first rule that does.
  private let keys: [(key: IdentityKey, at: SourceLocation)]

  /// Returns nil without rules: there is nothing to judge.
  public init?(allow: [ClientRule], deny: [ClientRule]) {
    if allow.isEmpty && deny.isEmpty { return nil }
    self.allow = allow
    self.deny = deny
    var keys: [(key: IdentityKey, at: SourceLocation)] = []
    for rule in deny + allow {
      for condition in rule.conditions where !keys.contains(where: { $0.key == condition.key }) {
        keys.append((condition.key, rule.location))
      }
    }
    self.keys = keys
  }

  /// The keys that the rules read, for which a pin alone doesn't vouch, each with the place of a rule that reads it.
  package var unprovenKeys: [(key: IdentityKey, at: SourceLocation)] { keys.filter { !$0.key.isHash } }

  /// Identifies the rules' content, independent of their places and order: part of a session-id context.
  package var fingerprint: [UInt8] {
    (allow + deny).map { "\($0.effect.rawValue) \($0.spelling)" }.sorted().flatMap { Array($0.utf8) + [0] }
  }

  /// The log message about a denial.
  public static func message(_ place: SourceLocation, _ reason: String) -> String {
    "access forbidden by rule at \(place): \(reason)"
  }

  public func judge(_ client: Client, scratch: RegularExpression.Scratch) -> Decision {
    switch client {
    case .anonymous:
      return allow.first.map { .denied(at: $0.location, reason: "no verified certificate") } ?? .admitted
    case .refused:
      // A client whose certificate does not verify is not an anonymous client: deny rules alone do not let it in.
      return (allow + deny).first.map { .denied(at: $0.location, reason: "the certificate did not verify") }
        ?? .admitted
    case .known(let identity): return judge(identity, scratch)
    }
  }

  private func judge(_ identity: PeerIdentity, _ scratch: RegularExpression.Scratch) -> Decision {
    if let unsound = unsound(identity) { return unsound }
    for rule in deny {
      switch rule.match(identity, scratch: scratch) {
      case .match: return .denied(at: rule.location, reason: "\(rule.effect.rawValue) \(rule.spelling)")
      case .limit: return .denied(at: rule.location, reason: "a regular expression reached its limit")
      case .noMatch: break
      }
    }
    guard let first = allow.first else { return .admitted }
    var givenUp: ClientRule?
    for rule in allow {
      switch rule.match(identity, scratch: scratch) {
      case .match: return .admitted
      case .limit: givenUp = givenUp ?? rule
      case .noMatch: break
      }
    }
    if let givenUp { return .denied(at: givenUp.location, reason: "a regular expression reached its limit") }
    return .denied(at: first.location, reason: "no ssl_client_allow matches \"\(identity.subject)\"")
  }

  /// Denies a client if a value that some rule reads may not be what it seems: one with a control character, one of
  /// several common names, or one for which only the client itself vouches.
  private func unsound(_ identity: PeerIdentity) -> Decision? {
    for (key, location) in keys {
      guard let fault = identity[key].fault else { continue }
      return .denied(at: location, reason: "the certificate's \(key.rawValue) \(fault.rawValue)")
    }
    return nil
  }
}
