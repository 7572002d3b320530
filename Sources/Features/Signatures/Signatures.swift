import Bytes
import Crypto
package import Forward
package import Language
import Observability
import Signature
package import Traffic

/// HTTP message signatures (RFC 9421), which nginx does not have: `verify` keeps out requests without a valid signature,
/// and `sign` signs those for the upstream.
///
/// The folder is the whole feature: the directives here, what they set in `SignatureSettings`, what happens to a request
/// in `SignatureCheck`, and to one for the upstream in `SignatureSigning`. The value here is that of `verify`; what signs is
/// part of a `proxy_pass`.
package struct Signatures: LocationFeature, PassFeature {
  package let verification: SignatureSettings

  // MARK: Directives

  package static let chapter = Chapter.signatures
  static let row = DirectiveEntry.value(
    "message_signature", .everyHTTP, .oneOf(["off", "verify", "sign"]), "off",
    "`verify`: a request without a valid signature gets 401. `sign`: sallyport signs the requests for the upstream.",
    example: "message_signature off;", trust: .told)

  package static let directives = SignatureSettings.rows.entries

  /// The key of a valid signature says who the client is.
  static let keyID = FeatureVariable(
    "message_signature_keyid", "The name of the key of the request's valid signature.", isOursAlone: true,
    saysClient: true
  ) {
    exchange, output in
    if let record = record(of: exchange) { output.append(record.keyID) }
  }

  package static let variables = [
    keyID,
    FeatureVariable(
      "message_signature_verdict", "What `message_signature` made of the request's signature.", isOursAlone: true
    ) { exchange, output in
      if let record = record(of: exchange) { output.append(string: record.verdict) }
    },
  ]

  /// What is known of the signature; nil: none was looked for.
  static func record(of exchange: Exchange) -> SignatureRecord? {
    exchange.states.known(SignatureState.self)?.record
  }

  static func mode(_ scope: Scope) -> SignatureSettings.Mode? {
    row.text(in: scope).flatMap { SignatureSettings.Mode(rawValue: $0.lowercased()) }
  }

  package static func read(_ level: Level, _ builder: inout SettingsBuilder) -> Signatures? {
    if let diagnostic = SignatureRule.hasNoEffect(level.scope, builder.features) {
      builder.diagnostics.append(diagnostic)
    }
    return SignatureSettings.read(level.scope, .verify, &builder).map { Signatures(verification: $0) }
  }

  package static func part(of draft: PassDraft, _ builder: inout SettingsBuilder) -> (any PassPart)? {
    let line = mode(draft.scope) == .sign ? row.line(in: draft.scope) : nil
    if builder.refuse(line, at: draft.line, of: draft.dialect, "it signs messages of HTTP") { return nil }
    let signing = SignatureSettings.read(draft.scope, .sign, &builder)
    if let settings = signing ?? SignatureSettings.read(draft.scope, .verify, &builder) {
      builder.diagnostics += SignatureRule.besidePass(draft, settings)
    }
    return signing
  }

  // MARK: Effect

  // First in its phase: no mirror gets a request that is refused, and no file's absence shows in the response.
  package func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    let signatures = makers.generation[SignatureMaterial.self]
    parts.steps.precontent.append(
      SignatureCheck(
        signatures.verifiers[verification], makers.shared.nonces, span: signatures.nonceSpan,
        store: verification.nonceStore.flatMap { use in makers[LiveStores.self][use].map { ($0, use.failing) } }))
  }

  package static func guardingLine(_ scope: Scope) -> GuardingLine? {
    guard mode(scope) == .verify, let line = row.line(in: scope) else { return nil }
    return GuardingLine(line, act: "is judged", remedy: "message_signature off;")
  }

  package var guardingDirective: String? { Self.row.name }

  package var entryRule: EntryRule? { EntryRule(text: "message_signature \(verification)", effect: .refusesOthers) }

  package var ways: LocationWays {
    LocationWays(conditions: [
      AccessCondition(asking: .signature, .behind, "a signed request (message_signature verify)")
    ])
  }

  package static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    guard let old = old?.verification, let new = new?.verification else {
      return found.flag(
        old == nil, new == nil, opens: "requests need no signature any more (message_signature)",
        closes: "requests must be signed (message_signature verify)")
    }
    func keys(_ settings: SignatureSettings) -> Set<String> {
      Set(settings.keys.map { "\(String(decoding: $0.id, as: UTF8.self)) (\($0.algorithm.rawValue), \($0.file))" })
    }
    found.set(keys(old), keys(new)) {
      "requests signed by the key \($0) are accepted"
    } removed: {
      "requests signed by the key \($0) are no longer accepted"
    }
    found.guards(Set(old.components.map(\.description)), Set(new.components.map(\.description))) {
      "a signature must cover \($0)"
    } removed: {
      "a signature need not cover \($0) any more"
    }
    found.limit("the age of a signature", old.maxAge, new.maxAge, unit: "s")
    found.limit("the lead of a signer's clock", old.skew, new.skew, unit: "s")
    found.flag(
      !old.hasNonce, !new.hasNonce, opens: "a signed request can be sent again (no nonce)",
      closes: "a signed request can't be sent again (message_signature_nonce)")
    StoreUse.compare("nonces of signatures", old.nonceStore, new.nonceStore, &found)
  }

  /// What a `proxy_pass` signs.
  package static func comparePass(_ old: UpstreamPass, _ new: UpstreamPass, _ found: inout TrustChanges) {
    switch (old[SignatureSettings.self], new[SignatureSettings.self]) {
    case (.some, nil): found.opens("requests go to the upstream without a signature")
    case (nil, .some): found.closes("requests go to the upstream with a signature (message_signature sign)")
    case (let before?, let after?) where before.keys != after.keys:
      found.other("requests go to the upstream with the signature of another key")
    default: break
    }
  }

  package func fileUses(_ location: LocationSettings) -> [FileUse] {
    verification.fileUses + [.bodyFolder(of: location)]
  }
}

extension SignatureSettings {
  package var fileUses: [FileUse] { FileUse.material(keys.map(\.file), reloads: reloads) }
}
