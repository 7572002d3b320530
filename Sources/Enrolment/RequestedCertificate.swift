package import Crypto
import Glibc

/// What the authority is asked to certify by a signing request, after every check: a sound key whose owner signed the
/// request, and names that can stand in a certificate. No extension of the request gets further than this.
package struct RequestedCertificate: Sendable {
  package let key: PublicKey
  package let profile: CertificateProfile
  /// What the request asks for and does not get, in words.
  package let leftOut: [String]

  /// The most alternative names of one certificate.
  package static let nameLimit = 100

  /// `name`, `names`: replace the names of the request; nil takes those of the request.
  package init(
    _ request: SigningRequest, _ role: CertificateProfile.Role, name: CommonName? = nil,
    names: [CertificateBuilder.AlternativeName]? = nil, days: Int64? = nil, lifetime: Int64? = nil
  ) throws(AuthorityError) {
    try Self.check(request)
    key = request.publicKey
    let name = if let name { name } else { try Self.name(of: request) }
    let alternatives = if let names { names } else { try Self.names(of: request) }
    guard alternatives.count <= Self.nameLimit else {
      throw AuthorityError("\(alternatives.count) alternative names; expected at most \(Self.nameLimit)")
    }
    profile = try CertificateProfile(role, name, names: alternatives, days: days, lifetime: lifetime)
    leftOut =
      (request.subjectCount > 1 ? ["of the subject everything but the common name: \(request.subject)"] : [])
      + request.otherExtensions.map { "the extension \($0)" }
  }

  /// Throws what is wrong with the key of a request or with the proof that its owner has it.
  static func check(_ request: SigningRequest) throws(AuthorityError) {
    guard request.keyKind.isIssuable else {
      throw AuthorityError(
        "the request's key is \(request.keyKind); expected \(KeyKind.issuable)",
        hint: "the owner makes a new key and a new request")
    }
    guard !request.signatureAlgorithm.isWeak else {
      throw AuthorityError(
        "the request is signed with \(request.signatureAlgorithm), whose hash is too weak to prove anything",
        hint: "the owner makes the request again: openssl req -new -sha256 …")
    }
    guard request.isSigned else {
      throw AuthorityError(
        "the request's signature is not of its key, so nobody has proven to have the private key",
        hint: "the file is damaged or was changed; ask the owner for the request again")
    }
    guard request.publicKey.isSound else {
      throw AuthorityError("the request's key is not sound: its numbers are not those of a real key")
    }
  }

  private static func name(of request: SigningRequest) throws(AuthorityError) -> CommonName {
    guard case .one(let bytes) = request.commonName else {
      throw AuthorityError(
        request.commonName == .absent
          ? "the request has no common name"
          : "the request's common name is not one plain text, so that programs would read different names in it",
        hint: "say the name yourself: --name NAME")
    }
    return try CommonName(bytes: bytes)
  }

  private static func names(
    of request: SigningRequest
  ) throws(AuthorityError) -> [CertificateBuilder.AlternativeName] {
    let hint = "say the names yourself: --san DNS:…,IP:…; or --no-san"
    let asked = request.alternativeNames
    guard !asked.isMalformed else {
      throw AuthorityError("the request's alternative names can't be read", hint: hint)
    }
    guard asked.others == 0 else {
      throw AuthorityError(
        "the request asks for \(asked.others) alternative names that are no DNS name, IP address, URI or email address",
        hint: hint)
    }
    guard asked.names.count <= nameLimit else {
      throw AuthorityError(
        "the request asks for \(asked.names.count) alternative names; expected at most \(nameLimit)", hint: hint)
    }
    return try CertificateBuilder.AlternativeName.list(of: asked.names, hint: hint)
  }
}

extension CertificateBuilder.AlternativeName {
  /// Returns names of another certificate or request, if all can stand in one that the authority makes.
  static func list(
    of names: [SubjectAlternativeName], hint: String
  ) throws(AuthorityError) -> [CertificateBuilder.AlternativeName] {
    var list: [CertificateBuilder.AlternativeName] = []
    for name in names {
      guard name.isWellFormed, let made = Self(name.kind.label[...], name.description[...]) else {
        throw AuthorityError("\"\(name.kind.label):\(name)\" is no name for a certificate", hint: hint)
      }
      list.append(made)
    }
    return list
  }

  /// As `list` reads it: `DNS:localhost`.
  package var spelling: String {
    switch self {
    case .dns(let text): "DNS:\(text)"
    case .uri(let text): "URI:\(text)"
    case .email(let text): "email:\(text)"
    case .ip(let text): "IP:\(text)"
    case .raw(let kind, let bytes): "\(SubjectAlternativeName(kind: kind, bytes: bytes))"
    }
  }
}

extension LocalAuthority {
  /// Makes a certificate for a key whose private half stays with its owner. It is not yet registered, so the caller must
  /// not give it to anybody.
  package func sign(
    _ profile: CertificateProfile, for key: PublicKey, at now: Int64 = Int64(time(nil))
  ) throws(AuthorityError) -> Certificate {
    guard key != store.certificate.publicKey else {
      throw AuthorityError("the key is the authority's own; a certificate of it would let its owner be anybody")
    }
    let builder = profile.builder(at: now, authorityEnds: try end(at: now))
    do throws(OpenSSLError) { return try builder.signed(by: signer, for: key) } catch {
      throw AuthorityError("the certificate could not be made", error)
    }
  }

  package func register(_ issued: Certificate) throws(AuthorityError) { try store.register(issued, signer: signer) }

  /// The end of the authority's certificate. Throws when it has ended.
  func end(at now: Int64) throws(AuthorityError) -> Int64 {
    guard let end = store.certificate.notAfter.seconds, end > now else {
      throw AuthorityError(
        "the authority's certificate has ended on \(store.certificate.notAfterWords)",
        hint: "renew it: `sallyport ca renew \(store.folder.path) --ca`, or make a new authority: `sallyport ca init`")
    }
    return end
  }

  /// The authorities between a certificate of this one and the root, as a server sends them with it.
  package var intermediates: [Certificate] { ([signer.certificate] + signer.chain).filter { !$0.isSelfIssued } }

  /// The content of a certificate's file: the certificate, and the authorities between it and the root.
  package func pem(of issued: Certificate) -> String { ([issued] + intermediates).map(\.pem).joined() }
}
