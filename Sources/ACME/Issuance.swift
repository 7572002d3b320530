import Bytes
package import Crypto
import JSON
import Observability

/// What a certificate is asked for by.
package struct IssuanceRequest: Sendable {
  package var directory: ACMEURL
  /// In the order of the configuration.
  package var names: [ACMEIdentifier]
  package var method: ChallengeMethod
  package var accountKey: JSONWebKey
  /// URLs such as `mailto:`.
  package var contacts: [String] = []
  package var externalAccount: ExternalAccount?
  package var acceptsTerms = false
  /// The name of a profile, and whether a certificate without it is of no use.
  package var profile: (name: String, isRequired: Bool)?
  /// A common name in the issuer of the chain's last certificate; empty: the server's first chain is taken.
  package var preferredChain = ""
  /// The key of the certificate.
  package var certificateKey: PrivateKey
  /// The certificate that the new one is to replace (RFC 9773 §5); nil: none, or one that has no such name.
  package var replaces: String?
  /// The account's URL, if it is known from before.
  package var accountURL: String?

  package init(
    directory: ACMEURL, names: [ACMEIdentifier], method: ChallengeMethod, accountKey: JSONWebKey,
    certificateKey: PrivateKey
  ) {
    self.directory = directory
    self.names = names
    self.method = method
    self.accountKey = accountKey
    self.certificateKey = certificateKey
  }
}

/// One attempt to get a certificate (RFC 8555 §7): events in, one action out. It does nothing itself.
///
///     directory ─► account ─► order ─► authorizations ─► answers published ─► challenges begun ─► authorizations polled
///                                         │ (all valid) ─────────────────────────────────────────────┤
///                                         └────────────────► finalize ─► order polled ─► certificate ─► other chains ─► done
///
/// A server can't lead it elsewhere, to other names, or around in circles: each URL has the directory's origin, each name
/// is one that was asked for, and requests and waiting are bounded.
package struct Issuance {
  package enum Event {
    case begin
    case response(ACMEResponse)
    /// The answers to the challenges can be asked for.
    case published
    /// The time of `wait` has passed.
    case waited
  }

  package enum Action {
    case get(ACMEURL)
    /// `payload`: nil for a request that only reads.
    case post(ACMEURL, payload: String?, JWS.Signer)
    case publish([ChallengeAnswer])
    case wait(seconds: Int)
    case done(IssuedCertificate)
    case failed(ACMEError)
  }

  private enum State {
    case initial, directory, account, order
    case authorization(Int)
    case publishing
    case challenge(Int)
    case pollingAuthorization(Int)
    case finalizing
    case pollingOrder
    case certificate
    case otherChain(Int)
    case over
  }

  private static let mostRequests = 400
  private static let mostWaiting = 900
  private static let mostChains = 8
  private static let leastPause = 1
  private static let mostPause = 60

  private let request: IssuanceRequest
  private var state = State.initial
  private(set) var directory: ACMEDirectory?
  /// The URL of the account, once it is known. Who runs the machine keeps it.
  package private(set) var accountURL: String?
  /// What the machine did without, for the log.
  package private(set) var notices: [String] = []
  private var replaces: String?
  private var profile: String?
  private var isAccountFresh = false
  private var order: ACMEOrder?
  private var orderURL: ACMEURL?
  private var open: [(url: ACMEURL, challenge: ACMEAuthorization.Challenge, answer: ChallengeAnswer)] = []
  private var requests = 0
  private var waited = 0
  private var pause = Self.leastPause
  /// What comes after `wait`.
  private var next: ACMEURL?
  private var firstChain: IssuedCertificate?
  private var chains: [ACMEURL] = []

  package init(_ request: IssuanceRequest) {
    self.request = request
    accountURL = request.accountURL
    replaces = request.replaces
  }

  /// The moment is in seconds since 1970.
  package mutating func take(_ event: Event, at now: Int64) -> Action {
    do throws(ACMEError) {
      let action = try step(event, now)
      switch action {
      case .get, .post:
        requests += 1
        guard requests <= Self.mostRequests else { throw ACMEError("the order needs too many requests") }
      case .wait(let seconds):
        waited += seconds
        guard waited <= Self.mostWaiting else {
          throw ACMEError("the server did not decide within \(Self.mostWaiting / 60) minutes")
        }
      case .publish: break
      case .done, .failed: state = .over
      }
      return action
    } catch {
      state = .over
      return .failed(error)
    }
  }

  private mutating func step(_ event: Event, _ now: Int64) throws(ACMEError) -> Action {
    switch (state, event) {
    case (.initial, .begin):
      state = .directory
      return .get(request.directory)
    case (.publishing, .published): return try beginChallenge(0)
    case (.directory, .response(let response)): return try didGetDirectory(response)
    case (.account, .response(let response)): return try didGetAccount(response)
    case (.order, .response(let response)): return try didGetOrder(response)
    case (.authorization(let index), .response(let response)): return try didGetAuthorization(index, response)
    case (.challenge(let index), .response(let response)):
      try response.check("the challenge for \(open[index].answer.identifier)")
      return try beginChallenge(index + 1)
    case (.pollingAuthorization(let index), .response(let response)): return try didPollAuthorization(index, response)
    case (.finalizing, .response(let response)), (.pollingOrder, .response(let response)):
      return try didPollOrder(response)
    case (.pollingAuthorization, .waited), (.pollingOrder, .waited): return try read(next)
    case (.certificate, .response(let response)): return try didGetCertificate(response, now)
    case (.otherChain(let index), .response(let response)): return try didGetOtherChain(index, response, now)
    default: throw ACMEError("an event came in a state that does not wait for it")
    }
  }

  /// A request that only reads.
  private func read(_ url: ACMEURL?) throws(ACMEError) -> Action {
    guard let url, let accountURL else { throw ACMEError("there is nothing to read") }
    return .post(url, payload: nil, .account(accountURL))
  }

  private func send(_ payload: String, to url: ACMEURL?) throws(ACMEError) -> Action {
    guard let url, let accountURL else { throw ACMEError("there is no account") }
    return .post(url, payload: payload, .account(accountURL))
  }

  // MARK: The account

  private mutating func didGetDirectory(_ response: ACMEResponse) throws(ACMEError) -> Action {
    let found = try ACMEDirectory(response.object("its directory"), from: request.directory)
    directory = found
    if let wanted = request.profile {
      if found.profiles.contains(wanted.name) {
        profile = wanted.name
      } else if wanted.isRequired {
        let offered = found.profiles.map(ACMEProblem.printable).sorted().joined(separator: ", ")
        throw ACMEError(
          "the server has no profile \"\(wanted.name)\"",
          hint: offered.isEmpty ? "it has no profiles" : "it has \(offered)", cure: .change)
      } else {
        notices.append("the server has no profile \"\(wanted.name)\": its own is used")
      }
    }
    if found.renewalInfo == nil { replaces = nil }
    return accountURL == nil ? try newAccount(found) : try newOrder()
  }

  private mutating func newAccount(_ directory: ACMEDirectory) throws(ACMEError) -> Action {
    if let terms = directory.termsOfService, !request.acceptsTerms {
      throw ACMEError(
        "the server asks to accept its terms of service: \(terms)", hint: "read them, and: accept_terms_of_service;",
        cure: .change)
    }
    if directory.needsExternalAccount, request.externalAccount == nil {
      throw ACMEError(
        "the server asks for an external account", hint: "external_account_key ID FILE; with what the CA gave you",
        cure: .change)
    }
    var binding = ""
    if let account = request.externalAccount {
      guard let text = JWS.binding(account, url: directory.newAccount.description, key: request.accountKey) else {
        throw ACMEError("OpenSSL can't sign by the key of the external account", cure: .change)
      }
      binding = ",\"externalAccountBinding\":\(text)"
    }
    let contacts = request.contacts.map(JWS.quoted).joined(separator: ",")
    // Members that the server does not need are left out: some servers refuse an empty list.
    let payload =
      "{\"termsOfServiceAgreed\":\(request.acceptsTerms)" + (contacts.isEmpty ? "" : ",\"contact\":[\(contacts)]")
      + binding + "}"
    state = .account
    return .post(directory.newAccount, payload: payload, .newAccount)
  }

  private mutating func didGetAccount(_ response: ACMEResponse) throws(ACMEError) -> Action {
    try response.check("the account")
    let url = try ACMEDirectory.url(response.location ?? "", "Location", request.directory)
    if let status = try response.object("the account")["status"]?.text, status != "valid" {
      throw ACMEError("the account at the server is \(ACMEProblem.printable(status))", cure: .change)
    }
    accountURL = url.description
    isAccountFresh = true
    return try newOrder()
  }

  // MARK: The order

  private mutating func newOrder() throws(ACMEError) -> Action {
    var json = JSONText()
    json.object { json in
      json.array("identifiers", request.names) { name, json in
        json.object { json in
          json.member("type", name.kind)
          json.member("value", name.description)
        }
      }
      if let profile { json.member("profile", profile) }
      if let replaces { json.member("replaces", replaces) }
    }
    state = .order
    return try send(json.text, to: directory?.newOrder)
  }

  private mutating func didGetOrder(_ response: ACMEResponse) throws(ACMEError) -> Action {
    if let problem = response.problem {
      // The server may have forgotten the account, or it is of another key.
      if !isAccountFresh, ["accountDoesNotExist", "unauthorized"].contains(problem.type), let directory {
        accountURL = nil
        return try newAccount(directory)
      }
      // RFC 9773 §5: the old certificate has its successor already, or the server doesn't know it.
      if replaces != nil, response.status < 500, problem.type != "rateLimited" {
        notices.append("the server takes no successor of the old certificate (\(problem)): the order goes without")
        replaces = nil
        return try newOrder()
      }
    }
    let value = try response.object("the order")
    orderURL = try ACMEDirectory.url(response.location ?? "", "Location", request.directory)
    let order = try ACMEOrder(value, of: request.names, from: request.directory)
    self.order = order
    switch order.status {
    case .pending:
      state = .authorization(0)
      return try read(order.authorizations.first)
    case .ready, .processing, .valid: return try goOn(order)
    case .invalid: throw Self.invalid(order)
    }
  }

  private static func invalid(_ order: ACMEOrder) -> ACMEError {
    ACMEError("the server gave the order up: \(order.problem ?? ACMEProblem(nil))")
  }

  private mutating func didGetAuthorization(_ index: Int, _ response: ACMEResponse) throws(ACMEError) -> Action {
    guard let order else { throw ACMEError("there is no order") }
    let url = order.authorizations[index]
    let authorization = try authorization(response)
    switch authorization.status {
    case .valid: break
    case .pending:
      guard let challenge = authorization.challenges.first(where: { $0.type == request.method.rawValue }) else {
        let offered = authorization.challenges.map(\.type).joined(separator: ", ")
        throw ACMEError(
          "the server offers no \(request.method.rawValue) for \(authorization.identifier), but \(offered)",
          cure: .change)
      }
      guard
        let answer = ChallengeAnswer(
          request.method, authorization.identifier, token: challenge.token, key: request.accountKey)
      else {
        throw ACMEError("the server's token for \(authorization.identifier) is none (RFC 8555, section 8.3)")
      }
      open.append((url, challenge, answer))
    case .invalid, .deactivated, .expired, .revoked: throw Self.failed(authorization)
    }
    if index + 1 < order.authorizations.count {
      state = .authorization(index + 1)
      return try read(order.authorizations[index + 1])
    }
    guard !open.isEmpty else { return try readOrder() }
    state = .publishing
    return .publish(open.map(\.answer))
  }

  /// Reads an authorization. One of another name is refused: nobody must be made to prove a name that was not asked for.
  private func authorization(_ response: ACMEResponse) throws(ACMEError) -> ACMEAuthorization {
    let found = try ACMEAuthorization(response.object("an authorization"), from: request.directory)
    guard request.names.contains(where: { $0.authorized == found.identifier }) else {
      throw ACMEError("the server's authorization is for \(found.identifier), a name that was not asked for")
    }
    return found
  }

  private static func failed(_ authorization: ACMEAuthorization) -> ACMEError {
    let problem = authorization.challenges.lazy.compactMap(\.problem).first
    return ACMEError(
      "the server could not see that \(authorization.identifier) is ours: "
        + (problem?.description ?? "the authorization is \(authorization.status.rawValue)"))
  }

  private mutating func beginChallenge(_ index: Int) throws(ACMEError) -> Action {
    guard index < open.count else {
      state = .pollingAuthorization(0)
      return try pollAgain(open.first?.url, after: nil)
    }
    state = .challenge(index)
    return try send("{}", to: open[index].challenge.url)
  }

  private mutating func didPollAuthorization(_ index: Int, _ response: ACMEResponse) throws(ACMEError) -> Action {
    let authorization = try authorization(response)
    guard authorization.identifier == open[index].answer.identifier else {
      throw ACMEError("the server's authorization is for another name than before")
    }
    switch authorization.status {
    case .valid:
      guard index + 1 < open.count else { return try readOrder() }
      state = .pollingAuthorization(index + 1)
      return try read(open[index + 1].url)
    case .pending: return try pollAgain(open[index].url, after: response.retryAfter)
    case .invalid, .deactivated, .expired, .revoked: throw Self.failed(authorization)
    }
  }

  /// Waits, and reads again: each time longer, or as long as the server says.
  private mutating func pollAgain(_ url: ACMEURL?, after seconds: Int64?) throws(ACMEError) -> Action {
    next = url
    let said = seconds.map { Int(clamping: min(max($0, Int64(Self.leastPause)), Int64(Self.mostPause))) }
    defer { pause = min(pause * 2, 10) }
    return .wait(seconds: said ?? pause)
  }

  private mutating func readOrder() throws(ACMEError) -> Action {
    state = .pollingOrder
    pause = Self.leastPause
    return try read(orderURL)
  }

  private mutating func didPollOrder(_ response: ACMEResponse) throws(ACMEError) -> Action {
    if case .finalizing = state, response.problem?.type == "orderNotReady" {
      return try poll(response)
    }
    let found = try ACMEOrder(response.object("the order"), of: request.names, from: request.directory)
    guard found.finalize == order?.finalize else { throw ACMEError("the server's order is another one than before") }
    order = found
    switch found.status {
    // The order follows its authorizations after a moment.
    case .pending, .processing: return try poll(response)
    case .ready:
      if case .finalizing = state { return try poll(response) }
      return try goOn(found)
    case .valid: return try goOn(found)
    case .invalid: throw Self.invalid(found)
    }
  }

  private mutating func poll(_ response: ACMEResponse) throws(ACMEError) -> Action {
    state = .pollingOrder
    return try pollAgain(orderURL, after: response.retryAfter)
  }

  private mutating func goOn(_ order: ACMEOrder) throws(ACMEError) -> Action {
    switch order.status {
    case .ready:
      let csr: [UInt8]
      do throws(OpenSSLError) {
        csr = try SigningRequest.make(names: request.names.map(\.alternativeName), key: request.certificateKey)
      } catch {
        throw ACMEError("OpenSSL makes no signing request: \(error)", cure: .change)
      }
      state = .finalizing
      return try send("{\"csr\":\"\(Base64.encodeURL(csr))\"}", to: order.finalize)
    case .valid:
      guard let url = order.certificate else { throw ACMEError("the server's order is valid without a certificate") }
      state = .certificate
      return try read(url)
    case .processing:
      state = .pollingOrder
      return try pollAgain(orderURL, after: nil)
    case .pending, .invalid: throw ACMEError("the server's order is \(order.status.rawValue)")
    }
  }

  // MARK: The certificate

  private mutating func didGetCertificate(_ response: ACMEResponse, _ now: Int64) throws(ACMEError) -> Action {
    let issued = try issued(response, now)
    guard !request.preferredChain.isEmpty, !issued.endsAt(request.preferredChain) else { return .done(issued) }
    firstChain = issued
    chains = response.alternates.prefix(Self.mostChains).compactMap { ACMEURL($0) }
      .filter { $0.hasOrigin(of: request.directory) }
    return try readOtherChain(0)
  }

  private mutating func readOtherChain(_ index: Int) throws(ACMEError) -> Action {
    if index < chains.count {
      state = .otherChain(index)
      return try read(chains[index])
    }
    guard let firstChain else { throw ACMEError("there is no certificate") }
    notices.append("the server has no chain that \"\(request.preferredChain)\" issued: its first one is used")
    return .done(firstChain)
  }

  private mutating func didGetOtherChain(
    _ index: Int, _ response: ACMEResponse, _ now: Int64
  ) throws(ACMEError) -> Action {
    if let issued = try? issued(response, now), issued.endsAt(request.preferredChain) { return .done(issued) }
    return try readOtherChain(index + 1)
  }

  private func issued(_ response: ACMEResponse, _ now: Int64) throws(ACMEError) -> IssuedCertificate {
    try response.check("the certificate")
    return try IssuedCertificate(response.body, for: request.names, request.certificateKey, at: now)
  }
}
