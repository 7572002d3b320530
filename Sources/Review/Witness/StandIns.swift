import Crypto
import TLS

/// Puts certificates whose keys a trial has in the place of those by which a configuration judges clients.
///
/// Each stand-in says all that the original says: only its key and its signature are others. So nothing that verification
/// looks at is left out, and a trial's client is refused for whatever a real one would be refused for. What can't be stood
/// in for is an error of the server block, which then serves nobody.
final class StandIns {
  /// The serial number that every list revokes.
  static let revokedSerial = "5ACA0B0E000000000000000000000001"

  /// Keys by the SHA-256 of those that they stand in for: two certificates of one key keep having one.
  private var keys: [[UInt8]: PrivateKey] = [:]
  /// By the stand-in's own SHA-256.
  private var pairs: [[UInt8]: CertifiedKey] = [:]
  /// What the configuration pins, and what it pins in a trial; once for each spelling.
  private(set) var pins: [(spelling: String, pair: CertifiedKey, isWhole: Bool)] = []
  private let stranger: CertifiedKey

  init() throws(OpenSSLError) {
    let builder = CertificateBuilder(commonName: "A CA that nobody knows", .authority(pathLength: nil))
    stranger = try builder.selfSigned(key: PrivateKey.generate())
  }

  /// A CA that no configuration trusts.
  var strangeAuthority: CertifiedKey { stranger }

  /// The stand-in with its key; nil for a certificate that is none.
  func pair(of certificate: Certificate) -> CertifiedKey? { pairs[certificate.sha256] }

  // MARK: The trust of a server block

  func replace(_ material: ServerTLSMaterial) throws(TLSSettingsError) -> ServerTLSMaterial {
    do throws(OpenSSLError) { return try stoodIn(material) } catch {
      throw TLSSettingsError("no stand-in can be made of that by which clients are judged: \(error)")
    }
  }

  private func stoodIn(_ material: ServerTLSMaterial) throws(OpenSSLError) -> ServerTLSMaterial {
    let authorities = material.clientCAs + material.trustedCAs
    let known = authorities + (material.clientPins?.certificates ?? [])
    var made: [Certificate: CertifiedKey] = [:]
    for certificate in known where made[certificate] == nil {
      made[certificate] = try standIn(certificate, among: known)
    }
    func certificates(_ originals: [Certificate]) -> [Certificate] { originals.compactMap { made[$0]?.certificate } }
    var stood = material
    stood.clientCAs = certificates(material.clientCAs)
    stood.trustedCAs = certificates(material.trustedCAs)
    stood.revocations = []
    for list in material.revocations {
      // A list that none of the CAs has signed counts for none of them, and would not for a stand-in.
      guard let issuer = authorities.first(where: { list.isSigned(by: $0) }), let key = made[issuer]?.key else {
        stood.revocations.append(list)
        continue
      }
      stood.revocations.append(try list.standIn(revoking: Self.revokedSerial, signedBy: key))
    }
    if let pins = material.clientPins {
      let issuer = authorities.first(where: \.mayIssue).flatMap { made[$0] }
      var stoodPins: [Pin] = []
      for pin in pins.pins { stoodPins.append(try standIn(pin, of: pins, made, issuer)) }
      do throws(PinSet.ModeError) { stood.clientPins = try PinSet(stoodPins, mode: pins.mode) } catch {
        throw OpenSSLError(description: "a pin can't be stood in for")
      }
    }
    return stood
  }

  private func standIn(_ certificate: Certificate, among known: [Certificate]) throws(OpenSSLError) -> CertifiedKey {
    let own = try key(of: certificate)
    let signer =
      if certificate.signed(certificate) {
        own
      } else if let issuer = known.first(where: { $0 != certificate && $0.signed(certificate) }) {
        try key(of: issuer)
      } else {
        // Its issuer is nobody that the server block knows.
        stranger.key
      }
    return try keep(certificate.standIn(for: own, signedBy: signer), own)
  }

  private func keep(_ certificate: Certificate, _ key: PrivateKey) throws(OpenSSLError) -> CertifiedKey {
    guard let pair = CertifiedKey(certificate: certificate, key: key) else { throw OpenSSLError.drain() }
    pairs[certificate.sha256] = pair
    return pair
  }

  private func key(of certificate: Certificate) throws(OpenSSLError) -> PrivateKey {
    try key(for: certificate.spkiSHA256, certificate.keyKind)
  }

  /// The key that stands in for another one, and is as strong: a minimum of the configuration refuses both.
  private func key(for digest: [UInt8], _ kind: KeyKind) throws(OpenSSLError) -> PrivateKey {
    if let known = keys[digest] { return known }
    let made: PrivateKey.Kind =
      switch kind {
      case .rsa(let bits) where bits < 2048: .rsa(bits: UInt32(clamping: bits))
      // 112 bits of security, as those keys have; 192 and 256, as the others.
      case .rsa(let bits) where bits < 3072: .p224
      case .p384: .p384
      case .p521: .p521
      default: .p256
      }
    let key = try PrivateKey.generate(made)
    keys[digest] = key
    return key
  }

  // MARK: Pins

  /// `issuer`: who has to have issued a certificate that is known by its hash alone; nil: itself.
  private func standIn(
    _ pin: Pin, of set: PinSet, _ made: [Certificate: CertifiedKey], _ issuer: CertifiedKey?
  ) throws(OpenSSLError) -> Pin {
    let spelling = set.spelling(of: pin)
    let former = pins.first { $0.spelling == spelling }?.pair
    func tell(_ pair: CertifiedKey, isWhole: Bool) { if former == nil { pins.append((spelling, pair, isWhole)) } }
    func mint(_ digest: [UInt8]) throws(OpenSSLError) -> CertifiedKey {
      let key = try key(for: digest, .p256)
      let builder = CertificateBuilder(commonName: "pinned", .leaf([.clientAuth]))
      guard let issuer else { return try builder.selfSigned(key: key) }
      return try builder.fit(for: issuer).signed(by: issuer, key: key)
    }
    switch pin.target {
    case .certificate(let certificate):
      guard let pair = made[certificate] else { throw OpenSSLError(description: "\(pin) is unknown") }
      tell(pair, isWhole: set.mode == .certificate)
      return Pin(.certificate(pair.certificate), scope: pin.scope)
    case .publicKey(let digest):
      let pair = if let former { former } else { try mint(digest) }
      tell(pair, isWhole: false)
      return Pin(.publicKey(pair.key.spkiSHA256), scope: pin.scope)
    case .certificateDigest(let digest):
      // One for all server blocks that pin it.
      let known = made.first { $0.key.sha256 == digest }?.value ?? former
      let pair = if let known { known } else { try mint(digest) }
      tell(pair, isWhole: true)
      return Pin(.certificateDigest(pair.certificate.sha256), scope: pin.scope)
    }
  }
}

extension CertificateBuilder {
  /// The same for this issuer, whose key a certificate can't name if the issuer itself doesn't.
  func fit(for issuer: CertifiedKey) -> CertificateBuilder {
    var builder = self
    builder.namesIssuerKey = issuer.certificate.hasKeyIdentifier
    return builder
  }
}
