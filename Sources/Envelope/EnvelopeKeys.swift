public import Bytes
import Crypto

/// The keys of one suite: the current pair seals and opens, the previous pair only opens while keys change.
public struct EnvelopeKeys: Sendable {
  /// A cipher's key and the MAC key that belongs to it.
  public struct Pair: Sendable {
    let cipher: CipherKey
    let mac: MACKey?
    /// Equal for two pairs with the same cipher key, whatever their MAC keys: such pairs share a replay window. A digest,
    /// from which nobody learns the key.
    package let identity: [UInt8]

    /// Returns nil when a key's length is wrong, or when a MAC key is present but the suite has no MAC, or the reverse.
    public init?(_ suite: EnvelopeSuite, cipherKey: SecretBytes, macKey: SecretBytes?) {
      guard let cipher = CipherKey(suite.cipher, cipherKey) else { return nil }
      self.cipher = cipher
      identity = cipherKey.withUnsafeBytes { Digest.of($0) }
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

  package var pairs: [Pair] { previous.map { [current, $0] } ?? [current] }

  /// The allowed lengths of a MAC key in octets. Below 128 bits, guessing the key would be the easiest attack.
  public static let macKeyCounts = 16...Int.max
}
