import Crypto
import Forward
import HTTP
import Identity
import Language
import Observability
import Signature
import Traffic

/// What `client_identity signed` says: who signs, and what besides the client.
struct SignedIdentitySettings: SigningPart, Hashable {
  /// nil: the process makes a key at its start.
  var key: MaterialReference?
  var components = standardComponents
  /// Files that change are taken up (`ssl_reload`).
  var reloads = true
  var location = SourceLocation.nowhere

  /// The request, and who sent it: without the first four, a signature would be good for another request.
  static let standardComponents = ["@method", "@authority", "@path", "@query", "client-cert", "client-cert-chain"]
    .compactMap { try? Component(parsing: $0) }

  /// The purpose of the signatures: no other signature of the key is taken for one.
  static let tag = Array("client-identity".utf8)
  static let label = Array("client".utf8)
  /// Seconds for which a signature is valid.
  static let lifetime: Int64 = 60

  /// Reads a line of the form. Errors go to the builder.
  init(_ line: Directive, _ scope: Scope, _ builder: inout SettingsBuilder) {
    (reloads, location) = (scope.reloadsFiles, line.location)
    var words = line.arguments.dropFirst()
    if let word = words.first, word.text.splitAtEquals.name == "key" {
      words.removeFirst()
      let file = Word(word.text.splitAtEquals.value ?? "", at: word.location, quoted: word.quoted)
      if file.text.isEmpty {
        builder.error(word.location, "\"key=\" without a file in \"\(line.name)\"", hint: "key=identity.pem")
      } else {
        key = builder.reference(line, file, isKey: false)
      }
    }
    for (word, component) in zip(words, SignedComponents.read(words, signs: true, &builder)) {
      if component.coversDigest {
        builder.error(
          word.location, "\"\(line.name) signed\" signs heads, and \"\(word.text)\" is of a body",
          hint: "message_signature sign, with client-cert and content-digest among its components")
      } else if components.contains(component) {
        builder.error(word.location, "\"\(word.text)\" is always signed", hint: "leave it out")
      } else {
        components.append(component)
      }
    }
  }

  var fileUses: [FileUse] { FileUse.material([key], reloads: reloads) }

  func compile(_ parts: inout PassParts, _ makers: LiveMakers) {
    guard let signer = makers.generation[ProofMaterial.self].signers[self] else { return parts.isBroken = true }
    for name in SignatureSigning.signatureFields { parts.replace(name) }
    parts.requestHooks.append(SignatureHook(signer))
  }

  func policy(_ loaded: GenerationParts) -> [PassPolicyLine] {
    let signer = loaded[ProofMaterial.self].signers[self].map { String(decoding: $0.policy.keyID, as: UTF8.self) }
    let key = key == nil ? "a key that the process makes at its start" : signer.map { "the key \($0)" }
    return [PassPolicyLine("client proof", key.map { "signed (RFC 9421) by \($0)" })]
  }
}

/// What signs for `client_identity signed`, and `client_identity_keys`, which shows upstreams by which keys they verify it.
struct SignedIdentity: ContentFeature, PassFeature {
  /// Keys that sign nothing yet, and are published for verifiers to have them when they do.
  var next: [MaterialReference] = []
  var reloads = true

  static let chapter = Chapter.tls
  static let directives: [DirectiveEntry] = [
    .local(
      "client_identity_keys", .location, .words(0...16, "[FILE …]"),
      "Responds with the public keys of `client_identity signed` as a JSON Web Key Set (RFC 7517). A key that signs no more stays for an hour. `FILE`: a private key that will sign later, whose public half is published already.",
      example: "client_identity_keys;")
  ]
  static let sharedParts: [any SharedPart.Type] = [ProofKeys.self]

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> SignedIdentity? {
    guard let line = line(in: level.scope) else { return nil }
    builder.refuseSecondContent(at: line, level.scope)
    return SignedIdentity(
      next: line.arguments.compactMap { builder.reference(line, $0, isKey: false) },
      reloads: level.scope.reloadsFiles)
  }

  func fileUses(_ location: LocationSettings) -> [FileUse] { FileUse.material(next, reloads: reloads) }

  static func part(of draft: PassDraft, _ builder: inout SettingsBuilder) -> (any PassPart)? {
    guard ClientIdentity.form(draft.scope) == .signed, let line = ClientIdentity.line(draft.scope).inEffect,
      !builder.refuse(line, at: draft.line, of: draft.dialect, "it signs messages of HTTP")
    else { return nil }
    if let auth = draft.scope.upstreamAuth {
      builder.error(
        auth.location,
        "\"\(auth.name)\" beside \"\(line.name) signed\": the answer to a challenge would send a signed request twice",
        hint: "remove one of the two; the other is at \(line.location)")
    }
    let told = builder.diagnostics
    let settings = SignedIdentitySettings(line, draft.scope, &builder)
    let isWhole = !builder.hasError(since: told.count)
    // The level tells what is wrong with its line.
    builder.diagnostics = told
    return isWhole ? settings : nil
  }

  static func judge(
    _ listeners: [ListenerSettings], _ servers: [ServerSettings], _ builder: inout SettingsBuilder
  ) {
    SignedIdentitySettings.judgeOthers(servers, &builder)
  }

  static func comparePass(_ old: UpstreamPass, _ new: UpstreamPass, _ found: inout TrustChanges) {
    guard let before = old[SignedIdentitySettings.self], let after = new[SignedIdentitySettings.self] else { return }
    if before.key != after.key {
      found.other("the upstream is told of the client with the signature of another key (client_identity signed)")
    }
    found.guards(Set(before.components.map(\.description)), Set(after.components.map(\.description))) {
      "the proof of the client covers \($0)"
    } removed: {
      "the proof of the client does not cover \($0) any more"
    }
  }

  // MARK: Effect

  static func load(
    _ http: HTTPSettings, _ shared: SharedState, _ loader: inout MaterialLoader, _ parts: inout GenerationParts
  ) {
    http.visitLocations { location in
      if let shown = location[SignedIdentity.self] {
        parts[ProofMaterial.self].next += shown.next.compactMap { loader.proofKey($0, reloads: shown.reloads) }
      }
      guard let settings = location[UpstreamPass.self]?[SignedIdentitySettings.self],
        parts[ProofMaterial.self].signers[settings] == nil,
        let key = loader.proofKey(settings, shared)
      else { return }
      let policy = MessageSigner.Policy(
        label: SignedIdentitySettings.label, keyID: Array(key.id.utf8), components: settings.components,
        lifetime: SignedIdentitySettings.lifetime, hasNonce: true, tag: SignedIdentitySettings.tag,
        keepsOthers: false, skipsAbsentFields: true)
      parts[ProofMaterial.self].signers[settings] = MessageSigner(policy, key.signing)
      if !parts[ProofMaterial.self].keys.contains(where: { $0.id == key.id }) {
        parts[ProofMaterial.self].keys.append(key)
      }
    }
  }

  var policy: [(label: String, text: String)] { [("responds", "with the keys that prove who clients are")] }

  func words(_ http: HTTPSettings) -> String { "responds with the keys that prove who clients are" }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    parts.content = ProofKeysContent(makers.shared[ProofKeys.self])
  }
}

private struct ProofUnit: MaterialUnit {
  typealias Content = ProofKey
  let key: MaterialReference
  /// What a block with `ssl_reload off` keeps is not what others load anew.
  let reloads: Bool
}

extension MaterialLoader {
  /// Returns nil after adding the reason to the diagnostics.
  fileprivate mutating func proofKey(_ file: MaterialReference, reloads: Bool) -> ProofKey? {
    unit(ProofUnit(key: file, reloads: reloads), UnitFiles(.signingKey, file), reloads: reloads) { loader in
      loader.attempt { () throws(MaterialError) in
        try PrivateKey.load(signing: file) { (key) throws(CryptoError) in try ProofKey(key) }
      }
    }
  }

  /// Returns nil after adding the reason to the diagnostics.
  fileprivate mutating func proofKey(_ settings: SignedIdentitySettings, _ shared: SharedState) -> ProofKey? {
    if let file = settings.key { return proofKey(file, reloads: settings.reloads) }
    do { return try shared[ProofKeys.self].own() } catch {
      report(
        Diagnostic(
          .error, at: settings.location, "no key for \"client_identity signed\" could be made: \(error)",
          hint: "key=FILE, with a key made by: openssl genpkey -algorithm ed25519"))
      return nil
    }
  }
}

private final class ProofKeysContent: LiveContent {
  private let keys: ProofKeys

  init(_ keys: ProofKeys) { self.keys = keys }

  override func handler(for worker: Worker) -> ContentHandler? { ProofKeysHandler(keys) }
}

private final class ProofKeysHandler: ContentHandler {
  private let keys: ProofKeys

  init(_ keys: ProofKeys) { self.keys = keys }

  override func start(_ exchange: Exchange) {
    guard exchange.head.method == .get || exchange.head.method == .head else {
      return exchange.fail(ErrorResponse(405))
    }
    let text = Array(keys.text(exchange.session.live.generation).utf8)
    // A verifier that knows no such key asks again, whatever its cache has.
    Array("max-age=300".utf8).withUnsafeBytes { exchange.setOwnField("Cache-Control", $0) }
    text.withUnsafeBytes { exchange.answer(status: 200, type: "application/jwk-set+json", body: $0) }
  }
}
