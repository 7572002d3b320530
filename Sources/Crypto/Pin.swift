/// One condition that a peer's certificate must match: an upstream's (`proxy_ssl_pin`; docs/SECURITY.md, *Trust in
/// upstreams*), or a client's (`ssl_client_pin`; docs/SECURITY.md, *Pinned clients*).
public struct Pin: Sendable, Hashable, CustomStringConvertible {
  public enum Target: Sendable, Hashable {
    /// SHA-256, 32 octets, of a SubjectPublicKeyInfo: a hash or a key file. For mode `public_key`.
    case publicKey([UInt8])
    /// SHA-256, 32 octets, of a whole certificate (`cert:HEX`). For mode `certificate`.
    case certificateDigest([UInt8])
    /// A certificate file: the mode decides whether its key or the whole certificate is pinned.
    case certificate(Certificate)
  }

  public enum Scope: Sendable, Hashable {
    /// The pin applies to the leaf's key only.
    case leaf
    /// The pin applies to the key of any certificate of the verified chain (`proxy_ssl_pin chain …`, `ssl_client_pin chain …`).
    case chain
  }

  public let target: Target
  public let scope: Scope

  package init(_ target: Target, scope: Scope = .leaf) {
    self.target = target
    self.scope = scope
  }

  /// The digest that a public key must have; nil for a pin of a whole certificate by its hash.
  package var publicKeyDigest: [UInt8]? {
    switch target {
    case .publicKey(let digest): digest
    case .certificate(let certificate): certificate.spkiSHA256
    case .certificateDigest: nil
    }
  }

  /// The digest that a whole certificate must have; nil for a pin of a key.
  package var certificateDigest: [UInt8]? {
    switch target {
    case .publicKey: nil
    case .certificate(let certificate): certificate.sha256
    case .certificateDigest(let digest): digest
    }
  }

  /// The spelling to paste into a configuration: `sha256//BASE64`, or `cert:HEX`.
  public var description: String {
    let text =
      switch target {
      case .publicKey(let digest): Pin.spelling(publicKeyDigest: digest)
      case .certificate(let certificate): Pin.spelling(publicKeyDigest: certificate.spkiSHA256)
      case .certificateDigest(let digest): Pin.spelling(certificateDigest: digest)
      }
    return scope == .chain ? "chain \(text)" : text
  }
}

/// What pins compare (`proxy_ssl_pinning`, `ssl_client_pinning`). Without pins there is no mode.
public enum PinningMode: String, Sendable, Hashable {
  /// The key of the leaf, or of the verified chain for a pin of that scope.
  case publicKey = "public_key"
  /// A certificate of the verified chain, byte for byte.
  case certificate
}
