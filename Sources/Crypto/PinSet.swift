/// The pins of one upstream, or of one server block's clients, of which any one may match. The set is never empty, and each
/// pin fits the mode.
public struct PinSet: Sendable, Hashable {
  /// Why pins can't form a set.
  package enum ModeError: Error, Sendable, Hashable {
    case empty
    /// A pin without the digest that the mode compares.
    case unfit(Pin)
  }

  package let mode: PinningMode
  package let pins: [Pin]
  /// Digests of keys or of whole certificates, depending on the mode.
  private let leafDigests: Set<[UInt8]>
  private let chainDigests: Set<[UInt8]>
  /// Mode `certificate`: the pinned certificate files. Each is a trust anchor.
  package let certificates: [Certificate]

  package init(_ pins: [Pin], mode: PinningMode) throws(ModeError) {
    guard !pins.isEmpty else { throw .empty }
    var leafDigests: Set<[UInt8]> = []
    var chainDigests: Set<[UInt8]> = []
    var certificates: [Certificate] = []
    for pin in pins {
      let digest = mode == .publicKey ? pin.publicKeyDigest : pin.certificateDigest
      // If OpenSSL can't encode a certificate's key, the digest is empty; it must match nothing.
      guard let digest, digest.count == 32 else { throw .unfit(pin) }
      leafDigests.insert(digest)
      if mode == .certificate || pin.scope == .chain { chainDigests.insert(digest) }
      if mode == .certificate, case .certificate(let certificate) = pin.target { certificates.append(certificate) }
    }
    self.mode = mode
    self.pins = pins
    self.leafDigests = leafDigests
    self.chainDigests = chainDigests
    self.certificates = certificates
  }

  /// Whether the leaf itself is pinned: by its key, or byte for byte.
  package func matches(leaf: Certificate) -> Bool { leafDigests.contains(digest(leaf)) }

  /// Whether another certificate of a verified chain is pinned. Never pass a certificate that was only sent
  /// (CVE-2016-2402).
  package func matches(verified other: Certificate) -> Bool {
    !chainDigests.isEmpty && chainDigests.contains(digest(other))
  }

  /// Mode `certificate`: whether a file pins the leaf, so that the leaf's own dates and usage apply.
  package func holdsFile(of leaf: Certificate) -> Bool { certificates.contains(leaf) }

  /// Identifies all that the set compares, independent of the order and of how a pin was written.
  package var digest: [UInt8] {
    func sorted(_ digests: Set<[UInt8]>) -> [UInt8] {
      digests.sorted { $0.lexicographicallyPrecedes($1) }.flatMap { $0 }
    }
    // Each part by its own digest, so that none runs into the next.
    let files = sorted(Set(certificates.map(\.sha256)))
    let parts = [Array(mode.rawValue.utf8), sorted(leafDigests), sorted(chainDigests), files]
    return Digest.of(parts.flatMap { Digest.of($0) })
  }

  /// The spelling of a pin of this certificate in this mode, for messages.
  package func spelling(of certificate: Certificate) -> String {
    switch mode {
    case .publicKey: Pin.spelling(publicKeyDigest: certificate.spkiSHA256)
    case .certificate: Pin.spelling(certificateDigest: certificate.sha256)
    }
  }

  /// The spelling of a pin in this mode, in which a certificate file becomes its hash.
  package func spelling(of pin: Pin) -> String {
    if mode == .certificate, let digest = pin.certificateDigest { return Pin.spelling(certificateDigest: digest) }
    return pin.description
  }

  private func digest(_ certificate: Certificate) -> [UInt8] {
    switch mode {
    case .publicKey: certificate.spkiSHA256
    case .certificate: certificate.sha256
    }
  }
}
