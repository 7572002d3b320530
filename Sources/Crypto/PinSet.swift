/// The pins of one upstream: any of them will do. Never empty, and each fits the mode.
public struct PinSet: Sendable, Hashable {
  /// Why pins make no set.
  package enum Fault: Error, Sendable, Hashable {
    case empty
    /// A pin that says nothing of what the mode compares.
    case unfit(Pin)
  }

  package let mode: PinningMode
  package let pins: [Pin]
  /// Digests of keys, or of whole certificates, as the mode has it.
  private let leafDigests: Set<[UInt8]>
  private let chainDigests: Set<[UInt8]>
  /// Mode `certificate`: those given as files. Each is an anchor of its own.
  package let certificates: [Certificate]

  package init(_ pins: [Pin], mode: PinningMode) throws(Fault) {
    guard !pins.isEmpty else { throw .empty }
    var leafDigests: Set<[UInt8]> = []
    var chainDigests: Set<[UInt8]> = []
    var certificates: [Certificate] = []
    for pin in pins {
      let digest = mode == .publicKey ? pin.publicKeyDigest : pin.certificateDigest
      // A certificate without a key that OpenSSL can write has the empty digest, which must match nothing.
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

  /// Whether the leaf alone is pinned: by its key, or byte for byte.
  package func matches(leaf: Certificate) -> Bool { leafDigests.contains(digest(leaf)) }

  /// The same for another certificate of a verified chain. Ask it of none that was merely sent (CVE-2016-2402).
  package func matches(verified other: Certificate) -> Bool {
    !chainDigests.isEmpty && chainDigests.contains(digest(other))
  }

  /// Mode `certificate`: the leaf is pinned, and by a file: its own dates and usage count.
  package func holdsFile(of leaf: Certificate) -> Bool { certificates.contains(leaf) }

  /// What a pin of this certificate is spelt like in this mode: for messages.
  package func spelling(of certificate: Certificate) -> String {
    switch mode {
    case .publicKey: Pin.spelling(publicKeyDigest: certificate.spkiSHA256)
    case .certificate: Pin.spelling(certificateDigest: certificate.sha256)
    }
  }

  /// A pin's spelling in this mode: a certificate file is its hash.
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
