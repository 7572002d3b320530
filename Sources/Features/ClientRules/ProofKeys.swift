import Bytes
import Crypto
import Observability
import Signature
import Synchronization
package import Traffic

/// A key that signs who clients are, and its public half as verifiers get it.
final class ProofKey: Sendable {
  let signing: SignatureKey
  /// The thumbprint of the public key (RFC 7638), in base64url.
  let id: String
  /// A JSON Web Key without blanks.
  let published: String

  /// Throws for a key that isn't Ed25519 or ECDSA P-256.
  init(_ key: PrivateKey) throws(CryptoError) {
    let algorithm: SignatureAlgorithm
    switch key.kind {
    case .ed25519: algorithm = .ed25519
    case .p256: algorithm = .ecdsaP256
    default: throw .absent("a key of \(key.kind), but client_identity signed needs Ed25519 or ECDSA P-256")
    }
    let web = try JSONWebKey(key)
    signing = try SignatureKey(signing: key, algorithm)
    id = Base64.encodeURL(web.thumbprint)
    published =
      "{\"alg\":\"\(web.algorithm.rawValue)\",\"kid\":\"\(id)\",\"use\":\"sig\"," + web.publicText.dropFirst()
  }
}

/// The keys of the process over generations. A key that signs no more stays published for a while: an upstream may still
/// verify a request that it signed, and an old generation may still serve.
package final class ProofKeys: SharedPart {
  /// Seconds for which a key is published after it has signed for the last generation.
  static let retirement: UInt64 = 3600
  /// Keys that sign no more. The last ones count.
  static let mostRetired = 16

  struct State {
    /// Made when a line without `key=` asks first.
    var own: ProofKey?
    var current: [ProofKey] = []
    var retired: [(key: ProofKey, until: UInt64)] = []

    /// These keys sign from now on.
    mutating func take(_ keys: [ProofKey], at now: UInt64) {
      let ids = Set(keys.map(\.id))
      retired += current.filter { !ids.contains($0.id) }.map { ($0, now + ProofKeys.retirement) }
      retired.removeAll { ids.contains($0.key.id) || $0.until <= now }
      retired.removeFirst(max(0, retired.count - ProofKeys.mostRetired))
      current = keys
    }

    /// The keys by which signatures may be verified. `keys`: those of the generation that is asked.
    func published(_ keys: [ProofKey], at now: UInt64) -> [ProofKey] {
      var seen: Set<String> = []
      return (keys + current + retired.filter { $0.until > now }.map(\.key)).filter { seen.insert($0.id).inserted }
    }
  }

  private let state = Mutex(State())

  package required init(_ shared: SharedState) {}

  package func serve(_ generation: Generation) {
    state.withLock { $0.take(generation[ProofMaterial.self].keys, at: Self.now) }
  }

  /// The key that the process has made for itself.
  func own() throws -> ProofKey {
    try state.withLock { state in
      if let own = state.own { return own }
      let own = try ProofKey(PrivateKey.generate(.ed25519))
      state.own = own
      return own
    }
  }

  /// The JSON Web Key Set (RFC 7517 §5) of a generation.
  func text(_ generation: Generation) -> String {
    let material = generation[ProofMaterial.self]
    let keys = state.withLock { $0.published(material.keys + material.next, at: Self.now) }
    return "{\"keys\":[" + keys.map(\.published).joined(separator: ",") + "]}\n"
  }

  private static var now: UInt64 { UInt64(clamping: MonotonicClock.seconds) }
}

/// What signs for the lines of a configuration.
struct ProofMaterial: GenerationPart {
  var signers: [SignedIdentitySettings: MessageSigner] = [:]
  /// Each key once.
  var keys: [ProofKey] = []
  /// Keys that sign nothing yet.
  var next: [ProofKey] = []
}
