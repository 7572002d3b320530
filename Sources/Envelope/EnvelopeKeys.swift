public import Bytes
import Crypto

/// The keys of one suite: what seals, and what still opens while keys change.
public struct EnvelopeKeys: Sendable {
  /// A cipher's key and the MAC's that goes with it.
  public struct Pair: Sendable {
    let cipher: CipherKey
    let mac: MACKey?

    /// nil: a key has not the length that it must have, or there is a MAC key where the suite has no MAC, or none where
    /// it has one.
    public init?(_ suite: EnvelopeSuite, cipherKey: SecretBytes, macKey: SecretBytes?) {
      guard let cipher = CipherKey(suite.cipher, cipherKey) else { return nil }
      self.cipher = cipher
      switch (suite.mac, macKey) {
      case (let wanted?, let key?):
        guard let mac = MACKey(wanted.algorithm, key) else { return nil }
        self.mac = mac
      case (nil, nil): mac = nil
      case (nil, _?), (_?, nil): return nil
      }
    }
  }

  public let suite: EnvelopeSuite
  public let current: Pair
  public let previous: Pair?

  public init(_ suite: EnvelopeSuite, current: Pair, previous: Pair? = nil) {
    self.suite = suite
    self.current = current
    self.previous = previous
  }

  /// Octets of a MAC key: below 128 bits it is the part that is guessed.
  public static let macKeyCounts = 16...Int.max
}
