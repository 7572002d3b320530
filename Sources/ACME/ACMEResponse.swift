import JSON

/// An answer of the server, whole and bounded.
package struct ACMEResponse: Sendable, Hashable {
  package var status: Int
  /// `Replay-Nonce`, if it is one (RFC 8555 §6.5.1).
  package var nonce: String?
  package var location: String?
  /// Seconds, from either form of `Retry-After`.
  package var retryAfter: Int64?
  /// The URLs of `Link: …;rel="alternate"`.
  package var alternates: [String]
  package var body: [UInt8]

  package init(
    status: Int, nonce: String? = nil, location: String? = nil, retryAfter: Int64? = nil, alternates: [String] = [],
    body: [UInt8] = []
  ) {
    self.status = status
    self.nonce = nonce
    self.location = location
    self.retryAfter = retryAfter
    self.alternates = alternates
    self.body = body
  }

  package var problem: ACMEProblem? { status >= 400 ? ACMEProblem(try? JSONValue(body)) : nil }

  /// The body of a success as an object. `what`: for the error.
  func object(_ what: String) throws(ACMEError) -> JSONValue {
    try check(what)
    do throws(JSONFault) {
      let value = try JSONValue(body)
      if value.members != nil { return value }
    } catch {
      throw ACMEError("the server's answer about \(what) is no JSON: \(error)")
    }
    throw ACMEError("the server's answer about \(what) is no JSON object")
  }

  /// Throws unless the status is one of success.
  func check(_ what: String) throws(ACMEError) {
    if (200..<300).contains(status) { return }
    if (300..<400).contains(status) {
      throw ACMEError("the server redirects a request about \(what): sallyport follows no redirect", cure: .change)
    }
    let problem = problem ?? ACMEProblem(nil)
    let temporary =
      status == 429 || status >= 500 || ["badNonce", "rateLimited", "serverInternal"].contains(problem.type)
    throw ACMEError(
      "the server refuses \(what) (\(status)): \(problem)", cure: temporary ? .later : .change, retryAfter: retryAfter)
  }
}

/// What a server can do (RFC 8555 §7.1.1).
package struct ACMEDirectory: Sendable, Hashable {
  package let newNonce: ACMEURL
  package let newAccount: ACMEURL
  package let newOrder: ACMEURL
  /// RFC 9773
  package let renewalInfo: ACMEURL?
  package let termsOfService: String?
  package let needsExternalAccount: Bool
  /// The names of profiles (draft-ietf-acme-profiles).
  package let profiles: Set<String>

  /// `origin`: where the directory came from. A server that leads elsewhere is refused: its word alone must not make this
  /// machine ask others.
  init(_ value: JSONValue, from origin: ACMEURL) throws(ACMEError) {
    newNonce = try Self.url(value, "newNonce", origin)
    newAccount = try Self.url(value, "newAccount", origin)
    newOrder = try Self.url(value, "newOrder", origin)
    renewalInfo = value["renewalInfo"] == nil ? nil : try Self.url(value, "renewalInfo", origin)
    let meta = value["meta"]
    termsOfService = meta?["termsOfService"]?.text.map(ACMEProblem.printable)
    needsExternalAccount = meta?["externalAccountRequired"]?.flag ?? false
    profiles = Set(meta?["profiles"]?.members.map { Array($0.keys) } ?? [])
  }

  static func url(_ value: JSONValue, _ name: String, _ origin: ACMEURL) throws(ACMEError) -> ACMEURL {
    guard let text = value[name]?.text else { throw ACMEError("the server names no \"\(name)\"") }
    return try url(text, name, origin)
  }

  static func url(_ text: String, _ name: String, _ origin: ACMEURL) throws(ACMEError) -> ACMEURL {
    guard let url = ACMEURL(text) else {
      throw ACMEError("the server's \"\(name)\" is no https URL: \"\(ACMEProblem.printable(text))\"")
    }
    guard url.hasOrigin(of: origin) else {
      throw ACMEError("the server's \"\(name)\" leads to another server: \"\(ACMEProblem.printable(text))\"")
    }
    return url
  }
}

/// An order (RFC 8555 §7.1.3).
struct ACMEOrder: Sendable, Hashable {
  enum Status: String, Sendable { case pending, ready, processing, valid, invalid }

  let status: Status
  let authorizations: [ACMEURL]
  let finalize: ACMEURL
  let certificate: ACMEURL?
  let problem: ACMEProblem?

  /// Throws for an order of other names than these, too: its answers would be about names that nobody asked for.
  init(_ value: JSONValue, of names: [ACMEIdentifier], from origin: ACMEURL) throws(ACMEError) {
    guard let status = value["status"]?.text.flatMap({ Status(rawValue: $0) }) else {
      throw ACMEError("the server's order has no status")
    }
    self.status = status
    let named = (value["identifiers"]?.list ?? []).map { ACMEAuthorization.identifier($0) }
    guard named.count == names.count, Set(named) == Set(names.map { .some($0) }) else {
      throw ACMEError("the server's order is for other names than those that were asked for")
    }
    let places = value["authorizations"]?.list ?? []
    guard (1...names.count).contains(places.count) else {
      throw ACMEError("the server's order has \(places.count) authorizations for \(names.count) names")
    }
    var authorizations: [ACMEURL] = []
    for place in places {
      authorizations.append(try ACMEDirectory.url(place.text ?? "", "authorizations", origin))
    }
    self.authorizations = authorizations
    finalize = try ACMEDirectory.url(value, "finalize", origin)
    certificate = value["certificate"] == nil ? nil : try ACMEDirectory.url(value, "certificate", origin)
    problem = value["error"].map { ACMEProblem($0) }
  }
}

/// An authorization (RFC 8555 §7.1.4).
struct ACMEAuthorization: Sendable, Hashable {
  enum Status: String, Sendable { case pending, valid, invalid, deactivated, expired, revoked }

  struct Challenge: Sendable, Hashable {
    let type: String
    let url: ACMEURL
    let token: String
    let problem: ACMEProblem?
  }

  let status: Status
  let identifier: ACMEIdentifier
  let challenges: [Challenge]

  private static let mostChallenges = 32

  init(_ value: JSONValue, from origin: ACMEURL) throws(ACMEError) {
    guard let status = value["status"]?.text.flatMap({ Status(rawValue: $0) }),
      let identifier = Self.identifier(value["identifier"] ?? .null)
    else { throw ACMEError("the server's authorization has no status or no name") }
    self.status = status
    self.identifier = identifier
    var challenges: [Challenge] = []
    for part in (value["challenges"]?.list ?? []).prefix(Self.mostChallenges) {
      guard let type = part["type"]?.text else { continue }
      // Challenges of other kinds may have no token, and no URL of this form.
      guard ChallengeMethod(rawValue: type) != nil else {
        challenges.append(Challenge(type: ACMEProblem.printable(type), url: origin, token: "", problem: nil))
        continue
      }
      challenges.append(
        Challenge(
          type: type, url: try ACMEDirectory.url(part, "url", origin), token: part["token"]?.text ?? "",
          problem: part["error"].map { ACMEProblem($0) }))
    }
    self.challenges = challenges
  }

  /// Reads `{"type": …, "value": …}`.
  static func identifier(_ value: JSONValue) -> ACMEIdentifier? {
    guard let type = value["type"]?.text, let text = value["value"]?.text, let found = ACMEIdentifier(text),
      found.kind == type
    else { return nil }
    return found
  }
}
