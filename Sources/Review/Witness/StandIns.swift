import Crypto
import SPIFFE
import TLS
import Traffic

/// Puts certificates whose keys a trial has in the place of those by which a configuration judges clients.
///
/// Each stand-in says all that the original says: only its key and its signature are others. So nothing that verification
/// looks at is left out, and a trial's client is refused for whatever a real one would be refused for. What can't be stood
/// in for is an error of the server block, which then serves nobody.
final class StandIns {
  /// The serial number that every list revokes.
  static let revokedSerial = "5ACA0B0E000000000000000000000001"

  /// What was made of originals. Worlds of configurations that differ by a line share it, so that what both name is one.
  private final class Made {
    /// Keys by the SHA-256 of those that they stand in for: two certificates of one key keep having one.
    var keys: [[UInt8]: PrivateKey] = [:]
    /// By the stand-in's own SHA-256.
    var pairs: [[UInt8]: CertifiedKey] = [:]
    /// By what each is for.
    var named: [String: CertifiedKey] = [:]
    /// By the list's SHA-256, and that of its signer's key.
    var lists: [[UInt8]: RevocationList] = [:]
    let stranger: CertifiedKey
    let leafKey: PrivateKey
    lazy var weakKey = try? PrivateKey.generate(.rsa(bits: 1024))

    init() throws(OpenSSLError) {
      let builder = CertificateBuilder(commonName: "A CA that nobody knows", .authority(pathLength: nil))
      stranger = try builder.selfSigned(key: PrivateKey.generate())
      leafKey = try PrivateKey.generate()
    }
  }

  private let made: Made
  /// What the configuration pins, and what it pins in a trial; once for each spelling.
  private(set) var pins: [(spelling: String, pair: CertifiedKey, isWhole: Bool)] = []

  init() throws(OpenSSLError) { made = try Made() }

  /// Those of a configuration that differs by a line.
  init(beside other: StandIns) { made = other.made }

  /// A CA that no configuration trusts.
  var strangeAuthority: CertifiedKey { made.stranger }

  /// The stand-in with its key; nil for a certificate that is none.
  func pair(of certificate: Certificate) -> CertifiedKey? { made.pairs[certificate.sha256] }

  /// The key of clients; of those with a weak one, nil if OpenSSL makes none.
  func clientKey(isWeak: Bool) -> PrivateKey? { isWeak ? made.weakKey : made.leafKey }

  private func once(
    _ name: String, _ make: () throws(OpenSSLError) -> CertifiedKey
  ) throws(OpenSSLError) -> CertifiedKey {
    if let known = made.named[name] { return known }
    let pair = try make()
    made.pairs[pair.certificate.sha256] = pair
    made.named[name] = pair
    return pair
  }

  // MARK: The trust of a server block

  func replace(_ material: ServerTLSMaterial) throws(TLSSettingsError) -> ServerTLSMaterial {
    do throws(OpenSSLError) { return try stoodIn(material) } catch {
      throw TLSSettingsError("no stand-in can be made of that by which clients are judged: \(error)")
    }
  }

  private func stoodIn(_ material: ServerTLSMaterial) throws(OpenSSLError) -> ServerTLSMaterial {
    let authorities = material.clientCAs + material.trustedCAs
    let known = authorities + (material.clientPins?.certificates ?? [])
    var pairs: [Certificate: CertifiedKey] = [:]
    for certificate in known where pairs[certificate] == nil {
      pairs[certificate] = try standIn(certificate, among: known)
    }
    func certificates(_ originals: [Certificate]) -> [Certificate] { originals.compactMap { pairs[$0]?.certificate } }
    var stood = material
    stood.clientCAs = certificates(material.clientCAs)
    stood.trustedCAs = certificates(material.trustedCAs)
    stood.revocations = []
    for list in material.revocations {
      // A list that none of the CAs has signed counts for none of them, and would not for a stand-in.
      guard let issuer = authorities.first(where: { list.isSigned(by: $0) }), let key = pairs[issuer]?.key else {
        stood.revocations.append(list)
        continue
      }
      stood.revocations.append(try standIn(list, signedBy: key))
    }
    if let pins = material.clientPins {
      let issuer = authorities.first(where: \.mayIssue).flatMap { pairs[$0] }
      var stoodPins: [Pin] = []
      for pin in pins.pins { stoodPins.append(try standIn(pin, of: pins, pairs, issuer)) }
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
        made.stranger.key
      }
    return try once("certificate \(certificate.sha256) \(signer.spkiSHA256)") { () throws(OpenSSLError) in
      let stood = try certificate.standIn(for: own, signedBy: signer)
      guard let pair = CertifiedKey(certificate: stood, key: own) else { throw OpenSSLError.drain() }
      return pair
    }
  }

  private func standIn(_ list: RevocationList, signedBy key: PrivateKey) throws(OpenSSLError) -> RevocationList {
    let name = list.sha256 + key.spkiSHA256
    if let known = made.lists[name] { return known }
    let stood = try list.standIn(revoking: Self.revokedSerial, signedBy: key)
    made.lists[name] = stood
    return stood
  }

  private func key(of certificate: Certificate) throws(OpenSSLError) -> PrivateKey {
    try key(for: certificate.spkiSHA256, certificate.keyKind)
  }

  /// The key that stands in for another one, and is as strong: a minimum of the configuration refuses both.
  private func key(for digest: [UInt8], _ kind: KeyKind) throws(OpenSSLError) -> PrivateKey {
    if let known = made.keys[digest] { return known }
    let like: PrivateKey.Kind =
      switch kind {
      case .rsa(let bits) where bits < 2048: .rsa(bits: UInt32(clamping: bits))
      // 112 bits of security, as those keys have; 192 and 256, as the others.
      case .rsa(let bits) where bits < 3072: .p224
      case .p384: .p384
      case .p521: .p521
      default: .p256
      }
    let key = try PrivateKey.generate(like)
    made.keys[digest] = key
    return key
  }

  // MARK: A SPIFFE agent

  /// The path of a workload of which nothing else is said.
  static let workloadPath = "/workload"
  /// A trust domain that no configuration names: where all of an agent count, one that it federates may.
  static let otherDomain = try? SPIFFEID(parsing: "spiffe://other.invalid\(workloadPath)").trustDomain

  /// What an agent sends to the world of a configuration: the identities and trust domains that the configuration names, the
  /// domains of the workloads that its rules are about, and one other. nil: the configuration asks no agent.
  func workload(for http: HTTPSettings, besides domains: Set<TrustDomain>) throws(OpenSSLError) -> WorkloadMaterial? {
    let policies = http.servers.flatMap { [$0.clientPolicy, $0.clientPolicy?.candidate?.settings] }.compactMap { $0 }
    guard policies.contains(where: { !$0.workloadReferences.isEmpty }) else { return nil }
    var named = domains
    for policy in policies { if case .domain(let domain)? = policy.workloadTrust { named.insert(domain) } }
    for rule in http.clientRules { if let id = rule.workload { named.insert(id.trustDomain) } }
    if let other = Self.otherDomain { named.insert(other) }
    let ids = policies.compactMap { try? $0.workloadIdentity?.workloadID() }
    let own = named.sorted().first.flatMap { try? SPIFFEID(parsing: "\($0)/sallyport") }
    return try workload(named.sorted(), ids + [own].compactMap { $0 })
  }

  /// A CA for each trust domain, and these identities, the default one first. There is no revocation list.
  private func workload(_ domains: [TrustDomain], _ ids: [SPIFFEID]) throws(OpenSSLError) -> WorkloadMaterial? {
    var authorities: [TrustDomain: CertifiedKey] = [:]
    for domain in domains + ids.map(\.trustDomain) where authorities[domain] == nil {
      authorities[domain] = try once("\(domain)") { () throws(OpenSSLError) in
        // OpenSSL takes 64 characters of a common name.
        let builder = CertificateBuilder(
          commonName: String(domain.description.prefix(64)), .authority(pathLength: nil), names: [.uri("\(domain)")])
        return try builder.selfSigned(key: PrivateKey.generate())
      }
    }
    var identities: [(id: SPIFFEID, pair: CertifiedKey)] = []
    for id in ids {
      guard let authority = authorities[id.trustDomain] else { continue }
      let pair = try once("\(id)") { () throws(OpenSSLError) in
        let builder = CertificateBuilder(
          commonName: "sallyport", .leaf([.serverAuth, .clientAuth]), names: [.uri("\(id)")])
        return try builder.signed(by: authority, key: PrivateKey.generate())
      }
      identities.append((id, pair))
    }
    return WorkloadMaterial(identities: identities, authorities: authorities.mapValues { [$0.certificate] })
  }

  // MARK: Pins

  /// `issuer`: who has to have issued a certificate that is known by its hash alone; nil: itself.
  private func standIn(
    _ pin: Pin, of set: PinSet, _ known: [Certificate: CertifiedKey], _ issuer: CertifiedKey?
  ) throws(OpenSSLError) -> Pin {
    let spelling = set.spelling(of: pin)
    func tell(_ pair: CertifiedKey, isWhole: Bool) {
      if !pins.contains(where: { $0.spelling == spelling }) { pins.append((spelling, pair, isWhole)) }
    }
    // One for all server blocks that pin it.
    func mint(_ digest: [UInt8]) throws(OpenSSLError) -> CertifiedKey {
      try once("pin \(spelling)") { () throws(OpenSSLError) in
        let key = try key(for: digest, .p256)
        let builder = CertificateBuilder(commonName: "pinned", .leaf([.clientAuth]))
        guard let issuer else { return try builder.selfSigned(key: key) }
        return try builder.fit(for: issuer).signed(by: issuer, key: key)
      }
    }
    switch pin.target {
    case .certificate(let certificate):
      guard let pair = known[certificate] else { throw OpenSSLError(description: "\(pin) is unknown") }
      tell(pair, isWhole: set.mode == .certificate)
      return Pin(.certificate(pair.certificate), scope: pin.scope)
    case .publicKey(let digest):
      let pair = try mint(digest)
      tell(pair, isWhole: false)
      return Pin(.publicKey(pair.key.spkiSHA256), scope: pin.scope)
    case .certificateDigest(let digest):
      let named = known.first { $0.key.sha256 == digest }?.value
      let pair = if let named { named } else { try mint(digest) }
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
