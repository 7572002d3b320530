import Bytes
package import Crypto
import Glibc

/// A certificate of the authority that gets a successor with the same names and purpose.
package struct CertificateRenewal: Sendable {
  /// The certificate to renew.
  package let old: Certificate
  package let profile: CertificateProfile
  /// The successor's files: `folder`/NAME.crt and `folder`/NAME.key.
  package let certificatePath: String
  package let keyPath: String
  /// The valid certificates with the same subject, alternative names and purpose, `old` among them.
  private let kin: [Certificate]

  /// `which`: a serial, or a common name. A common name must lead to one certificate, or to several with the same
  /// names, such as those of earlier renewals; of these, the one in the file to replace is renewed, otherwise the one that
  /// ends last. `key`: the kind of a new key; nil for that of the old one.
  package init(
    _ which: String, in store: AuthorityStore, folder: String, key: PrivateKey.Kind? = nil, days: Int64? = nil
  ) throws(AuthorityError) {
    let index = try store.index()
    var found: [(certificate: Certificate, notAfter: Int64)] = []
    for serial in try store.chosen(which, in: index) {
      guard let entry = index[serial: serial], let certificate = try store.certificate(serial) else {
        throw AuthorityError(
          "certificate \(serial) is not in \(store.register.words), so its names and key are unknown",
          hint: "its owner makes a request: `sallyport ca sign`")
      }
      if case .revoked = entry.state {
        throw AuthorityError(
          "certificate \(serial) is revoked, and a revoked certificate is not renewed",
          hint: "issue a new one: `sallyport ca issue`")
      }
      found.append((certificate, entry.notAfter))
    }
    guard let last = found.reversed().max(by: { $0.notAfter < $1.notAfter })?.certificate else {
      throw AuthorityError("no certificate to renew")
    }
    let isOne = found.allSatisfy {
      $0.certificate.subjectAltNames == last.subjectAltNames && $0.certificate.usage == last.usage
    }
    guard isOne else {
      throw AuthorityError(
        "\"\(which)\" has \(found.count) valid certificates with different names",
        hint: "give the serial: \(found.map(\.certificate.serial).joined(separator: ", "))")
    }
    let profile = try Self.profile(of: last, key ?? last.keyKind.successor, days)
    self.profile = profile
    certificatePath = "\(folder)/\(profile.name).crt"
    keyPath = "\(folder)/\(profile.name).key"
    let standing = Self.certificate(at: certificatePath)
    old = found.lazy.map(\.certificate).first { $0 == standing } ?? last
    kin = try store.certificates(store.valid(profile.name.text, in: index).map(\.serial)).filter {
      $0.subject.description == last.subject.description && $0.subjectAltNames == last.subjectAltNames
        && $0.usage == last.usage
    }
  }

  private static func certificate(at path: String) -> Certificate? {
    (try? Certificate.loadAll(MaterialReference(path: path)))?.first
  }

  /// What a renewal with a new key leaves if it ends between its two files: the new key beside the old certificate. The
  /// successor is registered, so its file can still be written. nil: the files are not in this state.
  package var interruption: (old: Certificate, successor: Certificate)? {
    guard let standing = Self.certificate(at: certificatePath), kin.contains(standing),
      let keys = try? InspectedObject.loadAll(MaterialReference(path: keyPath), passwords: [])
    else { return nil }
    let written = keys.lazy.compactMap { object in
      if case .privateKey(let key) = object { key.publicKey } else { nil }
    }.first
    guard let written, written != standing.publicKey, let successor = kin.first(where: { $0.publicKey == written })
    else { return nil }
    return (standing, successor)
  }

  private static func profile(
    of old: Certificate, _ key: PrivateKey.Kind, _ days: Int64?
  ) throws(AuthorityError) -> CertificateProfile {
    let hint = "issue a new certificate: `sallyport ca issue`"
    let usage = old.usage
    guard usage.isAuthority != true else {
      throw AuthorityError(
        "certificate \(old.serial) is that of a CA", hint: "make a new intermediate: `sallyport ca init`")
    }
    let role: CertificateProfile.Role
    switch usage.purposes {
    case ["clientAuth"]: role = .client
    case ["serverAuth"]: role = .server
    default:
      throw AuthorityError("certificate \(old.serial) is neither for a client alone nor for a server alone", hint: hint)
    }
    guard let name = old.subject.commonName.sole, old.subject.count == 1 else {
      throw AuthorityError(
        "the subject of certificate \(old.serial) is not one common name: \(old.subject)", hint: hint)
    }
    let names = old.subjectAltNames
    guard !names.isMalformed else {
      throw AuthorityError("the alternative names of certificate \(old.serial) can't be read", hint: hint)
    }
    return try CertificateProfile(
      role, CommonName(bytes: name), names: CertificateBuilder.AlternativeName.list(of: names.all, hint: hint),
      key: key, days: days)
  }

  /// Why a file may not be replaced by the successor's; nil when it may: there is none, or it is the old one.
  package func objection(toReplacing path: String, isKey: Bool) -> AuthorityError? {
    guard access(path, F_OK) == 0 else { return nil }
    let reference = MaterialReference(path: path)
    let isOld: Bool
    if isKey {
      isOld =
        (try? InspectedObject.loadAll(reference, passwords: []))?.contains { object in
          if case .privateKey(let key) = object { key.publicKey == old.publicKey } else { false }
        } ?? false
    } else {
      isOld = (try? Certificate.loadAll(reference))?.first == old
    }
    guard !isOld else { return nil }
    return AuthorityError(
      "\"\(path)\" is not the \(isKey ? "key" : "file") of certificate \(old.serial), so it is not replaced",
      hint: "move it away, or name another folder with --out")
  }
}

extension LocalAuthority {
  /// Gives the authority's own certificate a successor with the same key and name, so that everything it issued stays
  /// valid, and clients that trust the old one trust both until it ends.
  package static func renewed(
    _ authority: LocalAuthority, at now: Int64 = Int64(time(nil))
  ) throws(AuthorityError) -> Certificate {
    let store = authority.store, old = store.certificate
    guard old.isSelfIssued else {
      throw AuthorityError(
        "the certificate of \(store.folder.path) is signed by another authority, which alone can renew it",
        hint: "make a new intermediate beside it: `sallyport ca init NEW-DIR --intermediate-of ROOT`")
    }
    guard let name = old.subject.commonName.sole, old.subject.count == 1 else {
      throw AuthorityError("the authority's subject is not one common name: \(old.subject)")
    }
    let certificate: Certificate
    do throws(OpenSSLError) {
      let length = old.usage.pathLength
      let builder = CertificateBuilder(
        commonName: String(decoding: name, as: UTF8.self), .authority(pathLength: length),
        days: AuthorityStore.authorityDays)
      certificate = try builder.selfSigned(key: authority.signer.key).certificate
    } catch {
      throw AuthorityError("the authority's certificate could not be renewed", error)
    }
    let lock = try AuthorityLock(store.folder)
    defer { extendLifetime(lock) }
    try store.folder.replace("ca.crt", text: certificate.pem)
    return certificate
  }
}
