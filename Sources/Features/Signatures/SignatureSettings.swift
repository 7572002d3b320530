public import Crypto
public import Observability
public import Signature

/// `message_signature verify` or `sign` for a location, and what goes with it. Locations that inherit the same lines have
/// equal settings.
public struct SignatureSettings: PassPart, RowSettings, Hashable {
  public enum Mode: String, Sendable, Hashable { case verify, sign }

  public struct Key: Sendable, Hashable {
    public var id: [UInt8]
    public var algorithm: SignatureAlgorithm
    public var file: MaterialReference
  }

  public var mode = Mode.verify
  /// At least one; to sign, exactly one. No two have the same id.
  public var keys: [Key] = []
  public var components = standardComponents.compactMap { try? Component(parsing: $0) }
  static let standardComponents = ["@method", "@target-uri", "content-digest"]
  /// Seconds since `created`, to verify.
  public var maxAge = 300
  /// Seconds that a client's clock may be ahead.
  public var skew = 10
  /// Seconds until `expires`, to sign.
  public var lifetime: Int?
  public var hasNonce = false
  /// Where the nonces of all machines are remembered; nil: in this process alone.
  package var nonceStore: StoreUse?
  public var label: [UInt8]?
  /// Files that change are taken up (`ssl_reload`).
  public var reloads = true
  /// The line that turns signatures on.
  public var location = SourceLocation.nowhere

  public init() {}

  /// How long a nonce must be remembered, in milliseconds: as long as a signature with it can be valid.
  var nonceSpan: UInt64 { UInt64(clamping: maxAge) &* 1000 &+ UInt64(clamping: skew) &* 2000 &+ 1000 }
}

/// The loaded keys of all locations. A location whose settings are missing here answers every request with 500.
public struct SignatureMaterial: GenerationPart {
  public var verifiers: [SignatureSettings: SignatureVerifier] = [:]
  public var signers: [SignatureSettings: MessageSigner] = [:]

  public init() {}

  /// The longest span of all locations, because they share one replay window. In milliseconds.
  var nonceSpan: UInt64 { verifiers.keys.map(\.nonceSpan).max() ?? 0 }
}
