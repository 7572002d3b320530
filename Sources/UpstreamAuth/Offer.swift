import Bytes
import Crypto

/// The schemes that `proxy_auth` may name.
public struct AuthSchemes: OptionSet, Sendable, Hashable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }
  public static let basic = AuthSchemes(rawValue: 1)
  public static let digest = AuthSchemes(rawValue: 2)
  public static let ntlm = AuthSchemes(rawValue: 4)
}

/// A challenge that can be answered.
package enum Offer: Sendable, Hashable {
  case basic(realm: [UInt8])
  case digest(DigestChallenge)
  /// With the server's message once it has ours, not judged yet.
  case ntlm(message: [UInt8]?)

  init?(_ challenge: Challenge) {
    switch challenge.scheme {
    case "basic":
      guard let realm = challenge["realm"], realm.count <= 4096 else { return nil }
      self = .basic(realm: realm)
    case "digest":
      guard let digest = DigestChallenge(challenge) else { return nil }
      self = .digest(digest)
    case "ntlm":
      switch challenge.content {
      case .bare: self = .ntlm(message: nil)
      case .token68(let text):
        guard let message = try? text.withUnsafeBytes({ bytes in try Base64.decode(bytes) }) else { return nil }
        self = .ntlm(message: message)
      case .parameters: return nil
      }
    default: return nil
    }
  }

  package var scheme: AuthSchemes {
    switch self {
    case .basic: .basic
    case .digest: .digest
    case .ntlm: .ntlm
    }
  }

  /// NTLM has none.
  package var realm: [UInt8]? {
    switch self {
    case .basic(let realm): realm
    case .digest(let digest): digest.realm
    case .ntlm: nil
    }
  }

  private var strength: Int {
    switch self {
    case .digest(let digest): digest.algorithm.hash == .sha256 ? 3 : 2
    case .ntlm: 1
    case .basic: 0
    }
  }

  /// The strongest; of equals the first.
  static func strongest(_ offers: [Offer]) -> Offer? {
    offers.reduce(nil) { best, offer in
      guard let best else { return offer }
      return offer.strength > best.strength ? offer : best
    }
  }

  /// Of all lines of WWW-Authenticate, those that can be answered.
  package static func all(in lines: [[UInt8]]) -> [Offer] {
    var challenges: [Challenge] = []
    for line in lines.prefix(ChallengeParser.challengeLimit) { ChallengeParser.parse(line, into: &challenges) }
    return challenges.compactMap { Offer($0) }
  }

  /// Whether `later` is no verdict on credentials that were sent for this: another nonce, realm or scheme.
  func isOutdated(by later: Offer) -> Bool {
    switch (self, later) {
    case (.digest(let sent), .digest(let now)):
      now.isStale || now.nonce != sent.nonce || now.realm != sent.realm || now.algorithm != sent.algorithm
    case (.basic(let sent), .basic(let now)): sent != now
    case (.ntlm, .ntlm): false
    default: true
    }
  }
}
