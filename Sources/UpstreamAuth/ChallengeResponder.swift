/// Why an upstream's challenge was not answered; the raw value names it in the log. Each is 502 for the client.
package enum AuthFailure: String, Error, Sendable, Hashable, CaseIterable {
  /// The one answer was not taken.
  case credentialsRefused = "upstream-credentials-refused"
  /// Nothing that was offered may be answered, by `proxy_auth` or by us.
  case noAcceptableScheme = "no-acceptable-scheme"
  /// The answer needs the request once more, and its body is gone.
  case bodyNotReplayable = "body-not-replayable"
  /// The server or the realm is in no `proxy_auth_space`.
  case outsideSpace = "challenge-outside-space"
  /// NTLM's second message is none.
  case malformedChallenge = "malformed-challenge"
  /// NTLM needs the connection that the server does not keep.
  case connectionNotKept = "connection-not-kept"
  /// This OpenSSL has not got the hash (MD5 in a FIPS build).
  case hashNotAvailable = "hash-not-available"
}

/// What an exchange says to an upstream that asks who we are: a pure state machine for one exchange.
///
///     begin ─► plain ───► 401 ─► answer ──────────────────────────────► passed on, or refused (the second 401)
///              ahead ───► 401 with a fresh challenge ─► answer ─► …
///              probe ───► 401 ─► answer, with the body                   other status ─► the request itself
///              negotiate ─► 401 with a message ─► authenticate ─► …      (NTLM, all on one connection)
///
/// One answer is given to a server in an exchange, and to no other than the one that asked; what is sent ahead of a challenge is none. It never asks for credentials to be
/// sent that the caller's judge did not admit.
package struct ChallengeResponder: Sendable {
  /// How a request's body stands when the request is sent.
  package enum Body: Sendable, Hashable {
    case none
    /// Kept, and not large.
    case small
    /// Kept, but large: it is not sent to be refused.
    case large
    /// It can be sent once.
    case once
  }

  /// What the next request to the upstream is.
  package enum Sending: Sendable, Equatable {
    /// Without credentials; `isProbe`: HEAD, without the body.
    case plain(isProbe: Bool)
    /// With what is remembered.
    case ahead(PreparedAnswer, isProbe: Bool)
    /// With the answer to this.
    case answer(Offer)
    /// NTLM's first message, without the body.
    case negotiate
    /// NTLM's last, with the body.
    case authenticate(NTLMChallenge)

    /// The request itself does not go out with it.
    package var isBodiless: Bool {
      switch self {
      case .plain(let isProbe), .ahead(_, let isProbe): isProbe
      case .negotiate: true
      case .answer, .authenticate: false
      }
    }
  }

  package enum Verdict: Sendable, Equatable {
    /// The response is the client's.
    case passOn
    /// Ask again; NTLM over the same connection.
    case sendAgain(onSameConnection: Bool)
    case fail(AuthFailure)
  }

  private enum Intent: Equatable {
    /// With what is remembered, or without anything.
    case first
    /// The same, the request itself: a probe was not asked who it is.
    case afterProbe
    case answer(Offer)
    /// `isAhead`: nobody has asked yet.
    case negotiate(isAhead: Bool)
    case authenticate(NTLMChallenge)
  }

  private var intent = Intent.first
  /// Whom the intent is about: another server of the group has asked for nothing.
  private var server: Int?
  private var sent = Sending.plain(isProbe: false)
  private var hasAnswered = false
  /// Whatever a server says, an exchange asks it no more often.
  private var rounds = 0
  private static let roundLimit = 8

  package init() {}

  /// A request is about to be sent to a server of the group, the first one or the next. `isAuthenticated`: over a connection that has been
  /// through NTLM for this user. `isSame`: over the connection of the last one. `ahead` is asked for what is remembered.
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
      // A server that did not ask for more after our first message asks for nothing.
      guard mayProbe else { return .plain(isProbe: false) }
      intent = .negotiate(isAhead: true)
      return .negotiate
    case .digest(let answer)?: return .ahead(.digest(answer), isProbe: mayProbe && body == .once)
    case .basic(let realm)?: return .ahead(.basic(realm: realm), isProbe: false)
    }
  }

  /// A final response's head came. `offers`: of its challenges, those that we can answer; `isAccepted`: by `proxy_auth`;
  /// `isInSpace`: where it may be shown.
  package mutating func head(
    status: UInt16, body: Body, offers: () -> [Offer], isAccepted: (Offer) -> Bool, isInSpace: (Offer) -> Bool
  ) -> Verdict {
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

  private mutating func passOrGoOn(_ body: Body) -> Verdict {
    // Without a body what asked was the request itself.
    guard body != .none, sent.isBodiless else { return .passOn }
    intent = .afterProbe
    return .sendAgain(onSameConnection: false)
  }

  private mutating func challenged(
    _ offers: [Offer], _ isAccepted: (Offer) -> Bool, _ isInSpace: (Offer) -> Bool, _ body: Body, isProbe: Bool,
    by former: Offer?
  ) -> Verdict {
    let accepted = offers.filter(isAccepted)
    guard !accepted.isEmpty else { return .fail(.noAcceptableScheme) }
    guard let offer = Offer.strongest(accepted.filter(isInSpace)) else { return .fail(.outsideSpace) }
    if let former, !former.isOutdated(by: offer) { return .fail(.credentialsRefused) }
    guard !hasAnswered else { return .fail(.credentialsRefused) }
    if body == .once {
      guard isProbe else { return .fail(.bodyNotReplayable) }
      // The body's hash stands before the body.
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
  ) -> Verdict {
    let messages = offers.compactMap { offer -> [UInt8]? in
      if case .ntlm(let message?) = offer, isAccepted(offer), isInSpace(offer) { message } else { nil }
    }
    guard let message = messages.first else {
      // It asks for something else than it did when it was remembered.
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
