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

  /// `tls`: nil on a plain listener, whose clients have no identity.
  mutating func judge(
    by rules: ClientRules, _ tls: TLSStream?, scratch: RegularExpression.Scratch
  ) -> ClientRules.Decision {
    let verdict = verdicts.first { $0.rules === rules }?.verdict ?? judgeAnew(by: rules, tls, scratch)
    if case .admitted = verdict { admittedBy = ObjectIdentifier(rules) }
    return verdict
  }

  private mutating func judgeAnew(
    by rules: ClientRules, _ tls: TLSStream?, _ scratch: RegularExpression.Scratch
  ) -> ClientRules.Decision {
    let client = client ?? tls.map { ClientRules.Client($0.clientVerdict) } ?? .anonymous
    self.client = client
    let verdict = rules.judge(client, scratch: scratch)
    verdicts.append((rules, verdict))
    return verdict
  }

  /// Finds the client's user in this file.
  mutating func choose(
    from file: UserFile, _ tls: TLSStream?, scratch: RegularExpression.Scratch
  ) -> UserFile.Choice {
    if let known = users.first(where: { $0.file === file }) { return known.choice }
    let client = client ?? tls.map { ClientRules.Client($0.clientVerdict) } ?? .anonymous
    self.client = client
    let choice = file.choose(client, scratch: scratch)
    users.append((file, choice))
    return choice
  }

  /// Returns the fields of `client_identity`.
  mutating func fields(_ form: IdentityFieldForm, _ tls: TLSStream?) -> FieldBlock {
    if let kept = identityFields[form] { return kept }
    var chain: VerifiedChain?
    if case .verified(let verified)? = tls?.clientVerdict { chain = verified }
    // The values are Base64 and escaped text, so no byte ends a line.
    let block = FieldBlock(
      IdentityFields.fields(form, chain, server: tls?.serverContext?.identifyingCertificates ?? []).map {
        (Array($0.name.utf8), Array($0.value.utf8))
      })
    identityFields[form] = block
    return block
  }
}
