/// Why an upstream's challenge was not answered. The raw value is for the log; the client gets 502 for each.
package enum AuthFailure: String, Error, Sendable, Hashable, CaseIterable {
  /// The upstream refused the one answer.
  case credentialsRefused = "upstream-credentials-refused"
  /// `proxy_auth` allows no offered scheme, or sallyport supports none of them.
  case noAcceptableScheme = "no-acceptable-scheme"
  /// The answer needs the request again, and its body is gone.
  case bodyNotReplayable = "body-not-replayable"
  /// No `proxy_auth_space` contains the server and the realm.
  case outsideSpace = "challenge-outside-space"
  /// The server's NTLM challenge message is malformed.
  case malformedChallenge = "malformed-challenge"
  /// NTLM needs the same connection, which the server has closed.
  case connectionNotKept = "connection-not-kept"
  /// This OpenSSL lacks the hash function (MD5 in a FIPS build).
  case hashNotAvailable = "hash-not-available"
}

/// Decides what an exchange sends to an upstream that demands authentication: a pure state machine for one exchange.
///
///     begin ─► plain ───► 401 ─► answer ──────────────────────────────► passed on, or refused (the second 401)
///              ahead ───► 401 with a fresh challenge ─► answer ─► …
///              probe ───► 401 ─► answer, with the body                   other status ─► the request itself
///              negotiate ─► 401 with a message ─► authenticate ─► …      (NTLM, all on one connection)
///
/// An exchange sends a server at most one answer, and only to the server that sent the challenge. Credentials sent
/// ahead of a challenge do not count as an answer. The responder never sends credentials that the caller's check did
/// not admit.
package struct ChallengeResponder: Sendable {
  /// The state of the request's body when the request is sent.
  package enum Body: Sendable, Hashable {
    case none
    /// Kept in memory, and small.
    case small
    /// Kept but large, so it is not sent before the server accepts the credentials.
    case large
    /// The body can be sent only once.
    case once
  }

  /// The kind of the next request to the upstream.
  package enum Sending: Sendable, Equatable {
    /// Without credentials. `isProbe`: HEAD, without the body.
    case plain(isProbe: Bool)
    /// With an answer to the remembered challenge.
    case ahead(PreparedAnswer, isProbe: Bool)
    /// With the answer to this challenge.
    case answer(Offer)
    /// NTLM's negotiate message, without the body.
    case negotiate
    /// NTLM's authenticate message, with the body.
    case authenticate(NTLMChallenge)

    /// Whether this is a request without the body, which precedes the request itself.
    package var isBodiless: Bool {
      switch self {
      case .plain(let isProbe), .ahead(_, let isProbe): isProbe
      case .negotiate: true
      case .answer, .authenticate: false
      }
    }
  }

  package enum NextStep: Sendable, Equatable {
    /// Send this response to the client.
    case passOn
    /// Send a further request; NTLM uses the same connection.
    case sendAgain(onSameConnection: Bool)
    case fail(AuthFailure)
  }

  private enum Intent: Equatable {
    /// With an answer to the remembered challenge, or without credentials.
    case first
    /// Like `first`, for the request itself: the server did not challenge the probe.
    case afterProbe
    case answer(Offer)
    /// `isAhead`: the server has not sent a challenge yet.
    case negotiate(isAhead: Bool)
    case authenticate(NTLMChallenge)
  }

  private var intent = Intent.first
  /// The server of the group that the intent applies to. Another server has sent no challenge yet.
  private var server: Int?
  private var sent = Sending.plain(isProbe: false)
  private var hasAnswered = false
  /// The number of requests. It bounds the exchange, whatever a server responds.
  private var rounds = 0
  private static let roundLimit = 8

  package init() {}

  /// Chooses the next request, to the first or the next server of the group.
  ///
  /// `isAuthenticated`: the connection is already authenticated by NTLM for this user. `isSame`: it is the connection
  /// of the last request. `ahead` returns the answer to a remembered challenge.
  package mutating func begin(
    to server: Int, body: Body, isAuthenticated: Bool, isSame: Bool, ahead: () -> PreparedAnswer?
  ) -> Sending {
    rounds += 1
    if server != self.server {
      self.server = server
      intent = .first
      hasAnswered = false
    }
    if case .authenticate = intent, !isSame { intent = .negotiate(isAhead: false) }
    sent = sending(body, isAuthenticated, ahead)
    return sent
  }

  private mutating func sending(_ body: Body, _ isAuthenticated: Bool, _ ahead: () -> PreparedAnswer?) -> Sending {
    switch intent {
    case .answer(let offer): return .answer(offer)
    case .negotiate: return .negotiate
    case .authenticate(let challenge): return .authenticate(challenge)
    case .first, .afterProbe: break
    }
    if isAuthenticated { return .plain(isProbe: false) }
    let mayProbe = intent == .first
    switch ahead() {
    case nil: return .plain(isProbe: mayProbe && (body == .large || body == .once))
    case .ntlm?:
      // A server that did not challenge the negotiate message demands no authentication.
      guard mayProbe else { return .plain(isProbe: false) }
      intent = .negotiate(isAhead: true)
      return .negotiate
    case .digest(let answer)?: return .ahead(.digest(answer), isProbe: mayProbe && body == .once)
    case .basic(let realm)?: return .ahead(.basic(realm: realm), isProbe: false)
    }
  }

  /// Judges a final response's head. `offers`: its challenges that sallyport can answer. `isAccepted`: whether
  /// `proxy_auth` allows the offer. `isInSpace`: whether `proxy_auth_space` allows credentials here.
  package mutating func head(
    status: UInt16, body: Body, offers: () -> [Offer], isAccepted: (Offer) -> Bool, isInSpace: (Offer) -> Bool
  ) -> NextStep {
    guard status == 401 else { return passOrGoOn(body) }
    guard rounds < Self.roundLimit else { return .fail(.credentialsRefused) }
    switch sent {
    case .answer, .authenticate: return .fail(.credentialsRefused)
    case .negotiate: return authenticate(offers(), isAccepted, isInSpace, body)
    case .plain(let isProbe): return challenged(offers(), isAccepted, isInSpace, body, isProbe: isProbe, by: nil)
    case .ahead(let answer, let isProbe):
      return challenged(offers(), isAccepted, isInSpace, body, isProbe: isProbe, by: answer.offer)
    }
  }

  private mutating func passOrGoOn(_ body: Body) -> NextStep {
    // Without a body, the probe was the request itself.
    guard body != .none, sent.isBodiless else { return .passOn }
    intent = .afterProbe
    return .sendAgain(onSameConnection: false)
  }

  private mutating func challenged(
    _ offers: [Offer], _ isAccepted: (Offer) -> Bool, _ isInSpace: (Offer) -> Bool, _ body: Body, isProbe: Bool,
    by former: Offer?
  ) -> NextStep {
    let accepted = offers.filter(isAccepted)
    guard !accepted.isEmpty else { return .fail(.noAcceptableScheme) }
    guard let offer = Offer.strongest(accepted.filter(isInSpace)) else { return .fail(.outsideSpace) }
    if let former, !former.isOutdated(by: offer) { return .fail(.credentialsRefused) }
    guard !hasAnswered else { return .fail(.credentialsRefused) }
    if body == .once {
      guard isProbe else { return .fail(.bodyNotReplayable) }
      // The answer contains the body's hash, and must be sent before the body.
      if case .digest(let challenge) = offer, challenge.protections == [.body] { return .fail(.bodyNotReplayable) }
    }
    hasAnswered = true
    if case .ntlm = offer {
      intent = .negotiate(isAhead: false)
      return .sendAgain(onSameConnection: false)
    }
    intent = .answer(offer)
    return .sendAgain(onSameConnection: false)
  }

  private mutating func authenticate(
    _ offers: [Offer], _ isAccepted: (Offer) -> Bool, _ isInSpace: (Offer) -> Bool, _ body: Body
  ) -> NextStep {
    let messages = offers.compactMap { offer -> [UInt8]? in
      if case .ntlm(let message?) = offer, isAccepted(offer), isInSpace(offer) { message } else { nil }
    }
    guard let message = messages.first else {
      // The server now demands another scheme than the remembered one.
      guard intent == .negotiate(isAhead: true) else { return .fail(.credentialsRefused) }
      intent = .first
      return challenged(offers, isAccepted, isInSpace, body, isProbe: true, by: nil)
    }
    guard let challenge = NTLMChallenge(message) else { return .fail(.malformedChallenge) }
    hasAnswered = true
    intent = .authenticate(challenge)
    return .sendAgain(onSameConnection: true)
  }
}
