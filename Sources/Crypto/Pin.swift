/// One thing that an upstream's certificate must match (`proxy_ssl_pin`; trust-and-identity.md §2).
public struct Pin: Sendable, Hashable, CustomStringConvertible {
  public enum Target: Sendable, Hashable {
    /// SHA-256, 32 octets, of a SubjectPublicKeyInfo: a hash or a key file. For `proxy_ssl_pinning public_key`.
    case publicKey([UInt8])
    /// SHA-256, 32 octets, of a whole certificate (`cert:HEX`). For `proxy_ssl_pinning certificate`.
    case certificateDigest([UInt8])
    /// A certificate file: its key, or itself, as the mode has it.
    case certificate(Certificate)
  }

  public enum Scope: Sendable, Hashable {
    /// Only the leaf's key counts.
    case leaf
    /// The key of any certificate of the verified chain counts (`proxy_ssl_pin chain …`).
    case chain
  }

  public let target: Target
  public let scope: Scope

  package init(_ target: Target, scope: Scope = .leaf) {
    self.target = target
    self.scope = scope
  }

  /// The digest that a public key must have; nil for a pin that says nothing of keys.
  package var publicKeyDigest: [UInt8]? {
    switch target {
    case .publicKey(let digest): digest
    case .certificate(let certificate): certificate.spkiSHA256
    case .certificateDigest: nil
    }
  }

  /// The spelling to paste into a configuration: `sha256//BASE64`, or `cert:HEX`.
  public var description: String {
    let text =
      switch target {
      case .publicKey(let digest): Pin.spelling(publicKeyDigest: digest)
      case .certificate(let certificate): Pin.spelling(publicKeyDigest: certificate.spkiSHA256)
      case .certificateDigest(let digest): "cert:\(Pin.hexadecimal(digest))"
      }
    return scope == .chain ? "chain \(text)" : text
  }
}

/// The pins of one upstream: any of them will do.
public struct PinSet: Sendable, Hashable, CustomStringConvertible {
  package let pins: [Pin]
  private let publicKeyDigests: [[UInt8]]

  package init(_ pins: [Pin]) {
    self.pins = pins
    publicKeyDigests = pins.compactMap(\.publicKeyDigest)
  }

  package var isEmpty: Bool { pins.isEmpty }

  /// Whether the leaf's public key is a pinned one (`proxy_ssl_pinning public_key`). An empty set matches nothing.
  package func matches(leaf: Certificate) -> Bool {
    let digest = leaf.spkiSHA256
    return !digest.isEmpty && publicKeyDigests.contains(digest)
  }

  public var description: String { pins.map(\.description).joined(separator: " ") }
}
