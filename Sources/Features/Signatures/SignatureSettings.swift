package import Crypto
package import Forward
package import Observability
package import Signature
package import Traffic

/// `message_signature verify` or `sign` for a location, and what goes with it. Locations that inherit the same lines have
/// equal settings.
package struct SignatureSettings: SigningPart, RowSettings, Hashable {
  package enum Mode: String, Sendable, Hashable { case verify, sign }

  package struct Key: Sendable, Hashable {
    package var id: [UInt8]
    package var algorithm: SignatureAlgorithm
    package var file: MaterialReference
  }

  package var mode = Mode.verify
  /// At least one; to sign, exactly one. No two have the same id.
  package var keys: [Key] = []
  package var components = standardComponents.compactMap { try? Component(parsing: $0) }
  static let standardComponents = ["@method", "@target-uri", "content-digest"]
  /// Seconds since `created`, to verify.
  package var maxAge = 300
  /// Seconds that a client's clock may be ahead.
  package var skew = 10
  /// Seconds until `expires`, to sign.
  package var lifetime: Int?
  package var hasNonce = false
  /// Where the nonces of all machines are remembered; nil: in this process alone.
  package var nonceStore: StoreUse?
  package var label: [UInt8]?
  /// Files that change are taken up (`ssl_reload`).
  package var reloads = true
  /// The line that turns signatures on.
  package var location = SourceLocation.nowhere

  package init() {}

  /// How long a nonce must be remembered, in milliseconds: as long as a signature with it can be valid.
  var nonceSpan: UInt64 { UInt64(clamping: maxAge) &* 1000 &+ UInt64(clamping: skew) &* 2000 &+ 1000 }
}

/// The loaded keys of all locations. A location whose settings are missing here answers every request with 500.
package struct SignatureMaterial: GenerationPart {
  package var verifiers: [SignatureSettings: SignatureVerifier] = [:]
  package var signers: [SignatureSettings: MessageSigner] = [:]

  package init() {}

  /// The longest span of all locations, because they share one replay window. In milliseconds.
  var nonceSpan: UInt64 { verifiers.keys.map(\.nonceSpan).max() ?? 0 }
}

extension SignatureSettings {
  package func compile(_ parts: inout PassParts, _ makers: LiveMakers) {
    parts.digestsBodies = true
    guard let signer = makers.generation[SignatureMaterial.self].signers[self] else { return parts.isBroken = true }
    for name in SignatureSigning.signatureFields { parts.replace(name) }
    if signer.coversDigest { parts.replace("Content-Digest") }
    parts.requestHooks.append(SignatureHook(signer))
  }
}
