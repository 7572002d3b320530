import Bytes
import Crypto
import Forward
import Language
import Observability
import Signature
import Traffic

/// Bearer tokens of clients (RFC 6750, 7519), bound to their certificates (RFC 8705), which nginx does not have: a stolen
/// token is worth nothing without the key of the certificate that it names.
///
/// The folder is the whole feature: the directives here, the key sets in `KeySource` and `FetchedKeys`, what happens to a
/// request in `TokenStep`.
struct ClientToken: LocationFeature, Hashable {
  /// `client_token_require`: what a claim must be.
  struct Requirement: Sendable, Hashable {
    let claim: String
    let texts: Set<String>
  }

  /// `client_token_set`: the slot of a variable, and the path to its claim.
  struct Assigned: Sendable, Hashable {
    let slot: Int
    let path: [String]
  }

  var source: KeySource
  var terms = TokenPolicy()
  /// A request without a token passes.
  var isOptional = false
  var requirements: [Requirement] = []
  var assigned: [Assigned] = []
  var location: SourceLocation

  // MARK: Directives

  static let chapter = Chapter.tls
  private static let levels = DirectiveContexts.everyHTTP

  static let tokenLine = DirectiveEntry.value(
    "client_token", levels,
    .words(
      1...Int.max,
      "jwks=FILE|URL [trusted=FILE] [issuer=ISSUER] [audience=AUDIENCE] [leeway=TIME] [optional] [unbound] | off"),
    "off",
    "Requests need a bearer token (a JWT) by a key of the set, whose `cnf` names the client's certificate (`x5t#S256`, RFC 8705): another one gets 401. Algorithms: EdDSA, ES256, RS256, PS256. `exp` is required; `nbf`, `iat`, `iss` and `aud` must hold, with `leeway` for clocks (30s); `issuer=` and `audience=` may stand several times. `trusted`: the CAs that verify the server of the URL, else the system's. `optional`: a request without a token passes. `unbound`: so does a token that names no certificate.",
    example: "client_token jwks=keys.json issuer=https://id.example audience=https://api.example;", trust: .told)
  private static let requireLine = DirectiveEntry.list(
    "client_token_require", levels, .words(2...Int.max, "CLAIM VALUE …"), "",
    "A claim of the token must be one of these values, or a list that has one (`scope`: words between blanks): other requests get 403. All lines must hold.",
    example: "client_token_require scope orders.write;", trust: .told)
  private static let setLine = DirectiveEntry.list(
    "client_token_set", levels, .words(2...Int.max, "$VARIABLE CLAIM [MEMBER …]"), "",
    "Sets a variable to a claim of the token, or to a member inside it; a list is joined by commas. It is empty for a request without a token, for an object, and for a text with control characters.",
    example: "client_token_set $client_subject sub;", trust: .told)

  static let directives = [tokenLine, requireLine, setLine]
  static let definitions: [String: Definition] = [setLine.name: { $1.defineSettable($0) }]

  /// For logs.
  static let variables = [
    FeatureVariable(
      "client_token_verdict", "What `client_token` made of the client's token, with the reason of a refusal.",
      isOursAlone: true
    ) { exchange, output in
      if let state = exchange.states.known(TokenState.self) { output.append(string: state.verdict) }
    }
  ]

  static let sharedParts: [any SharedPart.Type] = [FetchedKeys.self]

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> ClientToken? {
    guard let line = inEffect(level.scope) else {
      for line in (requireLine.lines(in: level.scope) + setLine.lines(in: level.scope)) {
        guard level.scope.directives.contains(where: { $0.location == line.location }), !level.scope.hasInnerLevels
        else { continue }
        builder.warning(
          line.location, "\"\(line.name)\" has no effect here: \(tokenLine.name) is off",
          hint: "\(tokenLine.name) jwks=FILE;")
      }
      return nil
    }
    return builder.once { builder in
      guard var token = read(line, level.scope, &builder) else { return nil }
      token.requirements = requireLine.lines(in: level.scope).map { line in
        Requirement(claim: line.text(0), texts: Set(line.arguments.dropFirst().map(\.text)))
      }
      token.assigned = setLine.lines(in: level.scope).compactMap { line in
        // A name that can't be a variable has been reported.
        builder.variables.slots[line.text(0).dropFirst().lowercased()].map { slot in
          Assigned(slot: slot, path: line.arguments.dropFirst().map(\.text))
        }
      }
      return token
    }
  }

  /// The line that turns tokens on at a level.
  private static func inEffect(_ scope: Scope) -> Directive? {
    tokenLine.line(in: scope).flatMap { $0.text(0).lowercased() == "off" ? nil : $0 }
  }

  private static func read(_ line: Directive, _ scope: Scope, _ builder: inout SettingsBuilder) -> ClientToken? {
    var (keys, trusted): (Word?, Word?)
    var terms = TokenPolicy()
    var isOptional = false
    var once: Set<String> = []
    for word in line.arguments {
      let (name, value) = word.text.splitAtEquals
      if !["issuer", "audience"].contains(name), !once.insert(name).inserted {
        builder.error(word.location, "\"\(name)\" twice in \"\(line.name)\"", hint: "write it once")
        continue
      }
      switch (name, value) {
      case ("jwks", let value?) where !value.isEmpty: keys = Word(value, at: word.location, quoted: word.quoted)
      case ("trusted", let value?) where !value.isEmpty: trusted = Word(value, at: word.location, quoted: word.quoted)
      case ("issuer", let value?) where !value.isEmpty: terms.issuers.append(value)
      case ("audience", let value?) where !value.isEmpty: terms.audiences.append(value)
      case ("leeway", let value?):
        if let time = Quantity.seconds(value), time <= 300 {
          terms.leeway = Int64(time)
        } else {
          builder.error(word.location, "invalid parameter \"\(word.text)\"", hint: "leeway=TIME, up to 5m")
        }
      case ("optional", nil): isOptional = true
      case ("unbound", nil): terms.allowsUnbound = true
      default: builder.error(word.location, "invalid parameter \"\(word.text)\"", hint: Wording(tokenLine.form.usage))
      }
    }
    guard let keys else {
      builder.error(
        line.location, "\"\(line.name)\" without \"jwks=\": no key verifies a token",
        hint: "\(line.name) jwks=FILE; or jwks=https://HOST/PATH")
      return nil
    }
    guard let source = KeySource(line, keys, trusted, reloads: scope.reloadsFiles, &builder) else { return nil }
    return ClientToken(source: source, terms: terms, isOptional: isOptional, location: line.location)
  }

  /// A token that names a certificate is for clients that show one.
  static func judge(_ block: ServerBlock, _ builder: inout SettingsBuilder) {
    func judge(_ scope: Scope) {
      if let line = tokenLine.ownLine(in: scope), line.text(0).lowercased() != "off",
        !line.arguments.contains(where: { $0.text == "unbound" }),
        let fault = block.unasked(line, hint: "ssl_verify_client on or optional; or unbound among its words")
      {
        builder.diagnostics.append(fault)
      }
      for location in scope.ownLocations { judge(Scope(location.block ?? [], outer: scope)) }
    }
    judge(block.scope)
  }

  /// The values come from whoever issued the token, and say who the client is.
  var toldSlots: [Int] { assigned.map(\.slot) }

  // MARK: Effect

  // In precontent, so that no `satisfy any` admits a client without a token.
  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    parts.steps.precontent.append(TokenStep(self, source.keys(makers)))
  }

  static func guardingLine(_ scope: Scope) -> GuardingLine? {
    inEffect(scope).map { GuardingLine($0, act: "is judged", remedy: "\(tokenLine.name) off;") }
  }

  var guardingDirective: String? { isRequired ? Self.tokenLine.name : nil }

  var entryRule: EntryRule? {
    EntryRule(text: "\(Self.tokenLine.name) \(source) \(terms) \(isOptional) \(requirements)")
  }

  /// A token is asked for, not only judged where there is one.
  private var isRequired: Bool { !isOptional || !requirements.isEmpty }

  var ways: LocationWays {
    LocationWays(
      conditions: isRequired
        ? [AccessCondition(asking: .token, .behind, "\(words) (\(Self.tokenLine.name))", at: location)] : [])
  }

  var policy: [(label: String, text: String)] { [("token", words)] }

  private var words: String {
    var words = ["\(isOptional ? "an optional" : "a") bearer token by a key of \(source)"]
    if !terms.issuers.isEmpty { words.append("of the issuer \(terms.issuers.joined(separator: " or "))") }
    if !terms.audiences.isEmpty { words.append("for \(terms.audiences.joined(separator: " or "))") }
    words.append(
      terms.allowsUnbound ? "bound to the client's certificate or to none" : "bound to the client's certificate")
    words += requirements.map { "\($0.claim) \($0.texts.sorted().joined(separator: " or "))" }
    return words.joined(separator: ", ")
  }

  static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    guard let old, let new else {
      return found.flag(
        old == nil, new == nil, opens: "requests need no bearer token any more (client_token)",
        closes: "requests need a bearer token (client_token)")
    }
    if old.source.spelling != new.source.spelling {
      found.other("the keys of bearer tokens come from \(new.source) (was \(old.source))")
    }
    found.flag(
      old.isOptional, new.isOptional, opens: "a request without a bearer token passes (client_token optional)",
      closes: "a request without a bearer token no longer passes (client_token)")
    found.flag(
      old.terms.allowsUnbound, new.terms.allowsUnbound,
      opens: "a bearer token may be bound to no certificate (client_token unbound)",
      closes: "a bearer token must be bound to the client's certificate (client_token)")
    if old.terms.issuers != new.terms.issuers {
      found.other(
        "bearer tokens are accepted of \(Self.shown(new.terms.issuers)) (was \(Self.shown(old.terms.issuers)))")
    }
    if old.terms.audiences != new.terms.audiences {
      found.other(
        "bearer tokens are accepted for \(Self.shown(new.terms.audiences)) (was \(Self.shown(old.terms.audiences)))")
    }
    found.limit("the leeway of bearer tokens", Int(old.terms.leeway), Int(new.terms.leeway), unit: "s")
    func texts(_ token: Self) -> Set<String> {
      Set(token.requirements.map { "\($0.claim) \($0.texts.sorted().joined(separator: " or "))" })
    }
    found.guards(texts(old), texts(new)) {
      "a bearer token must have \($0) (client_token_require)"
    } removed: {
      "a bearer token need not have \($0) any more (client_token_require)"
    }
    if old.assigned != new.assigned { found.other("other claims of bearer tokens are set (client_token_set)") }
  }

  private static func shown(_ names: [String]) -> String {
    names.isEmpty ? "nobody in particular" : names.joined(separator: ", ")
  }

  func fileUses(_ location: LocationSettings) -> [FileUse] { source.fileUses }
}
