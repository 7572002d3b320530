package import Bytes
package import Crypto
import Glibc
import PostgreSQL

extension AuthorityStore {
  /// The lifetime of a CA in days.
  package static let authorityDays: Int64 = 3650

  /// Makes an authority in an empty or missing directory. Writes the certificate last: without it, the directory is not
  /// an authority.
  ///
  /// `place`: who signs the new authority's certificate, and whether it may sign those of other authorities. `uri`: of the
  /// database that keeps the register; nil: the directory keeps it.
  package static func create(
    in path: String, name: CommonName, key kind: PrivateKey.Kind, password: SecretBytes?,
    place: AuthorityPlace = .alone, database uri: String? = nil
  ) throws(AuthorityError) -> AuthorityStore {
    let database = try uri.map { (uri) throws(AuthorityError) in
      RegisterDatabase(try LocalAuthority.address(uri), DatabaseSessions())
    }
    if mkdir(path, 0o755) != 0 && errno != EEXIST { throw .system("mkdir", path) }
    let folder = try AuthorityFolder(path)
    let present = try folder.names(in: "").filter { $0 != "." && $0 != ".." }
    guard present.isEmpty else {
      throw AuthorityError(
        present.contains("ca.crt")
          ? "\"\(path)\" holds an authority already" : "\"\(path)\" is not empty: it holds \(present.sorted()[0])",
        hint: "name a folder that is empty or not there yet")
    }
    let (pair, pem) = try made(name, kind, password, place)
    if case .below = place, pair.certificate.isSelfIssued {
      throw AuthorityError("the intermediate has its root's name, \(name)", hint: "give another: --name NAME")
    }
    for (name, mode) in [("certs", mode_t(0o755)), ("private", 0o700)] where name != "certs" || database == nil {
      guard mkdir(folder.file(name), mode) == 0 else { throw .system("mkdir", folder.file(name)) }
    }
    try folder.replace("private/ca.key", pem, mode: 0o600)
    if let database {
      let register = DatabaseRegister(folder, pair.certificate, database)
      try database.transaction { (session) throws(AuthorityError) in
        try RegisterRows.makeTables(session)
        _ = try register.take([], after: nil, pair, session)
      }
      try folder.replace(RegisterDatabase.file, text: database.address.uri + "\n", mode: 0o600)
    } else {
      for (name, text) in try registerFiles(folder, listNumber: 1) { try folder.replace(name, text: text) }
    }
    if case .below(let parent) = place {
      try folder.replace("root.crt", text: parent.root.pem)
      // Registered before it exists anywhere, as every certificate.
      try parent.register(pair.certificate)
    }
    try folder.replace("ca.crt", text: ([pair.certificate] + pair.chain).map(\.pem).joined())
    let store = try AuthorityStore(path)
    try store.renewList(signer: pair)
    return store
  }

  /// The files of a register without certificates. `listNumber`: the next CRL's.
  static func registerFiles(
    _ folder: AuthorityFolder, listNumber: Int
  ) throws(AuthorityError) -> [(name: String, text: String)] {
    [
      ("index.txt", ""), ("index.txt.attr", "unique_subject = no\n"),
      ("crlnumber", FolderRegister.hexadecimal(listNumber)), ("serial", try firstSerial() + "\n"),
      ("openssl.cnf", try OpenSSLConfiguration(folder.path).text),
    ]
  }

  private static func made(
    _ name: CommonName, _ kind: PrivateKey.Kind, _ password: SecretBytes?, _ place: AuthorityPlace
  ) throws(AuthorityError) -> (CertifiedKey, SecretBytes) {
    let now = Int64(time(nil))
    let parentEnd: Int64? = if case .below(let parent) = place { try parent.endOfChild(at: now) } else { nil }
    do throws(OpenSSLError) {
      let key = try PrivateKey.generate(kind)
      var builder = CertificateBuilder(
        commonName: name.text, .authority(pathLength: place.pathLength), days: authorityDays)
      if let parentEnd { builder.notAfter = min(builder.notAfter, parentEnd) }
      let pem = if let password { try key.pem(password: password) } else { try key.pem }
      guard case .below(let parent) = place else { return (try builder.selfSigned(key: key), pem) }
      let certificate = try builder.signed(by: parent.signer, for: key.publicKey)
      let chain = [parent.signer.certificate] + parent.signer.chain
      guard let pair = CertifiedKey(certificate: certificate, chain: chain, key: key) else {
        throw OpenSSLError.drain()
      }
      return (pair, pem)
    } catch {
      throw AuthorityError("the authority could not be made", error)
    }
  }

  /// Returns the serial file's first number, for `openssl ca` with a configuration that counts serials. It is
  /// unpredictable.
  private static func firstSerial() throws(AuthorityError) -> String {
    guard var bytes = SystemRandom.bytes(16) else { throw AuthorityError("the system gives no random bytes") }
    bytes[0] &= 0x7F
    bytes[0] |= 0x40
    return Hex.encode(bytes, .upper)
  }
}

/// An authority with its signing key. The key is read once and then kept in memory.
package struct LocalAuthority: Sendable {
  package let store: AuthorityStore
  package let signer: CertifiedKey

  /// `passwords` are tried in order.
  package init(_ store: AuthorityStore, passwords: [SecretBytes] = []) throws(AuthorityError) {
    self.store = store
    do throws(MaterialError) {
      signer = try CertifiedKey.load(
        certificate: MaterialReference(path: store.folder.file("ca.crt")),
        key: MaterialReference(path: store.folder.file("private/ca.key")), passwords: passwords,
        tokens: store.tokens)
    } catch {
      throw AuthorityError(error)
    }
  }

  /// Makes a certificate for a new key. It is not yet registered, so the caller must not give it to anybody.
  package func sign(
    _ profile: CertificateProfile, at now: Int64 = Int64(time(nil))
  ) throws(AuthorityError) -> CertifiedKey {
    let end = try end(at: now)
    do throws(OpenSSLError) {
      let builder = profile.builder(at: now, authorityEnds: end)
      return try builder.signed(by: signer, key: .generate(profile.key))
    } catch {
      throw AuthorityError("the certificate could not be made", error)
    }
  }

  package func register(_ issued: CertifiedKey) throws(AuthorityError) {
    try store.register(issued.certificate, signer: signer)
  }

  /// Encodes a certificate with its key and the CA's certificate as PKCS#12.
  package func bundle(
    _ issued: CertifiedKey, name: String, password: SecretBytes, strength: PKCS12.Strength
  ) throws(AuthorityError) -> SecretBytes {
    let chain = [signer.certificate] + signer.chain
    guard let whole = CertifiedKey(certificate: issued.certificate, chain: chain, key: issued.key) else {
      throw AuthorityError("the PKCS#12 could not be made: the key is not the certificate's")
    }
    do throws(OpenSSLError) {
      return try PKCS12.encode(whole, name: name, password: password, strength: strength)
    } catch {
      throw AuthorityError("the PKCS#12 could not be made", error)
    }
  }
}
