/// The answer that a request carries: to an offer, with its own count.
package enum PreparedAnswer: Sendable, Equatable {
  case basic(realm: [UInt8])
  case digest(DigestAnswer)
  case ntlm

  /// The offer that it answers.
  package var offer: Offer {
    switch self {
    case .basic(let realm): .basic(realm: realm)
    case .digest(let answer): .digest(answer.challenge)
    case .ntlm: .ntlm(message: nil)
    }
  }

  /// Makes the only answer to an offer that is not remembered.
  package init(once offer: Offer) {
    var remembered = RememberedChallenge(offer)
    self = remembered.use() ?? .ntlm
  }
}

/// A challenge with the state of its answers.
enum RememberedChallenge: Sendable, Equatable {
  case basic(realm: [UInt8])
  case ntlm
  case digest(DigestSession)

  struct DigestSession: Sendable, Equatable {
    var challenge: DigestChallenge
    /// Fixed for the life of a nonce, because -sess derives its key from it.
    var clientNonce: [UInt8]
    var sessionNonce: [UInt8]
    /// The last count that a request carried.
    var used: UInt32
  }

  init(_ offer: Offer) {
    switch offer {
    case .basic(let realm): self = .basic(realm: realm)
    case .ntlm: self = .ntlm
    case .digest(var challenge):
      challenge.isStale = false
      self = .digest(
        DigestSession(
          challenge: challenge, clientNonce: Self.randomNonce(), sessionNonce: challenge.nonce, used: 0))
    }
  }

  /// Returns the next answer; nil once every count of a nonce was used.
  mutating func use() -> PreparedAnswer? {
    switch self {
    case .basic(let realm): return .basic(realm: realm)
    case .ntlm: return .ntlm
    case .digest(var session):
      guard session.used < .max else { return nil }
      session.used += 1
      self = .digest(session)
      return .digest(
        DigestAnswer(
          challenge: session.challenge, count: session.used, clientNonce: session.clientNonce,
          sessionNonce: session.sessionNonce))
    }
  }

  /// Whether a challenge is the remembered one, so that its count continues. Ignores `stale`, which refers to the
  /// previous nonce.
  func isSame(as offer: Offer) -> Bool {
    switch (self, offer) {
    case (.digest(let session), .digest(let challenge)):
      var plain = challenge
      plain.isStale = false
      return session.challenge == plain
    case (.basic(let realm), .basic(let other)): return realm == other
    case (.ntlm, .ntlm): return true
    default: return false
    }
  }

  private static func randomNonce() -> [UInt8] {
    (0..<2).map { _ in String(UInt64.random(in: .min ... .max), radix: 16) }.joined().utf8Bytes
  }
}
