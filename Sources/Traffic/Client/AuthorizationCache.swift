import Crypto
import HTTP
import Identity
import Patterns
import TLS
import UpstreamAuth

/// Caches the verdicts of access rules, the users and the identity fields of one connection's client, so that a later
/// request compares a pointer, or copies bytes.
///
/// It has what the generation of the connection decided, and nothing of another generation.
struct AuthorizationCache {
  /// The access rules that last admitted the client. `verdicts` retains them, so no other rules get their identity.
  private(set) var admittedBy: ObjectIdentifier?
  private var client: ClientRules.Client?
  private var verdicts: [(rules: ClientRules, verdict: ClientRules.Decision)] = []
  private var users: [(file: UserFile, choice: UserFile.Choice)] = []
  private var identityFields: [IdentityFieldForm: FieldBlock] = [:]

  /// `client`: called once.
  mutating func judge(
    by rules: ClientRules, _ client: @autoclosure () -> ClientRules.Client, scratch: RegularExpression.Scratch
  ) -> ClientRules.Decision {
    let verdict = verdicts.first { $0.rules === rules }?.verdict ?? judgeAnew(by: rules, client(), scratch)
    if case .admitted = verdict { admittedBy = ObjectIdentifier(rules) }
    return verdict
  }

  private mutating func judgeAnew(
    by rules: ClientRules, _ asked: @autoclosure () -> ClientRules.Client, _ scratch: RegularExpression.Scratch
  ) -> ClientRules.Decision {
    let client = client ?? asked()
    self.client = client
    let verdict = rules.judge(client, scratch: scratch)
    verdicts.append((rules, verdict))
    return verdict
  }

  /// Finds the client's user in this file.
  mutating func choose(
    from file: UserFile, _ asked: @autoclosure () -> ClientRules.Client, scratch: RegularExpression.Scratch
  ) -> UserFile.Choice {
    if let known = users.first(where: { $0.file === file }) { return known.choice }
    let client = client ?? asked()
    self.client = client
    let choice = file.choose(client, scratch: scratch)
    users.append((file, choice))
    return choice
  }

  /// Returns the fields of `client_identity`. `server`: the certificates that the client has seen.
  mutating func fields(_ form: IdentityFieldForm, _ chain: VerifiedChain?, server: [Certificate]) -> FieldBlock {
    if let kept = identityFields[form] { return kept }
    // The values are Base64 and escaped text, so no byte ends a line.
    let block = FieldBlock(
      IdentityFields.fields(form, chain, server: server).map {
        (Array($0.name.utf8), Array($0.value.utf8))
      })
    identityFields[form] = block
    return block
  }
}
