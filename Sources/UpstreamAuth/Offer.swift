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
  /// `message`: the server's challenge message, not parsed yet; nil before the negotiate message.
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

  /// nil for NTLM, which has no realm.
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

  /// Returns the strongest offer; of equals the first.
  static func strongest(_ offers: [Offer]) -> Offer? {
    offers.reduce(nil) { best, offer in
      guard let best else { return offer }
      return offer.strength > best.strength ? offer : best
    }
  }

  /// Returns the challenges of all WWW-Authenticate lines that can be answered.
  package static func all(in lines: [[UInt8]]) -> [Offer] {
    var challenges: [Challenge] = []
    for line in lines.prefix(ChallengeParser.challengeLimit) { ChallengeParser.parse(line, into: &challenges) }
    return challenges.compactMap { Offer($0) }
  }

  /// Whether `later` is a new challenge (another nonce, realm or scheme) and so does not judge the credentials sent for
  /// this one.
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
