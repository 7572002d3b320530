package import Crypto
import Glibc
import PostgreSQL

/// An authority: its folder with its certificate, and its register, which is kept there or in a database.
package struct AuthorityStore: Sendable {
  package let folder: AuthorityFolder
  /// The CA's certificate.
  package let certificate: Certificate
  let register: any CertificateRegister
  let tokens: TokenRefusals

  /// The lifetime of a CRL in days.
  package static let listDays: Int64 = 30

  /// `state`: the daemon's; each command makes its own.
  package init(
    _ path: String, _ state: EnrolmentState = EnrolmentState(tokens: TokenRefusals()),
    interruption: Interruption? = nil
  ) throws(AuthorityError) {
    folder = try AuthorityFolder(path, interruption: interruption)
    tokens = state.tokens
    let file = MaterialReference(path: folder.file("ca.crt"))
    let certificates: [Certificate]
    do throws(MaterialError) {
      certificates = try Certificate.loadAll(file)
    } catch {
      throw AuthorityError(error.message, hint: "`sallyport ca init DIR` makes an authority")
    }
    guard let first = certificates.first else { throw AuthorityError("\"\(folder.file("ca.crt"))\": no certificate") }
    certificate = first
    register =
      if let database = try RegisterDatabase(folder, state) {
        DatabaseRegister(folder, first, database)
      } else {
        FolderRegister(folder, first, state.cache(of: folder))
      }
  }

  /// Files that are opened for each session with the database that keeps the register of a folder; none without one.
  package static func databaseFiles(of path: String) -> [String] {
    let state = EnrolmentState(tokens: TokenRefusals())
    let database = try? RegisterDatabase(AuthorityFolder(path), state)
    return database?.address.files ?? []
  }

  /// Reads the register for display.
  package func index() throws(AuthorityError) -> AuthorityIndex { try register.index() }

  /// Returns the issued certificate of a serial; nil when another program issued it and keeps it elsewhere.
  package func certificate(_ serial: String) throws(AuthorityError) -> Certificate? {
    try register.certificates([serial])[serial]
  }

  /// The issued certificates of these serials, as far as the register has them.
  func certificates(_ serials: [String]) throws(AuthorityError) -> [Certificate] {
    let found = try register.certificates(serials)
    return serials.compactMap { found[$0] }
  }

  /// Registers a certificate of this CA. Give nobody a certificate that is not registered.
  package func register(_ issued: Certificate, signer: CertifiedKey) throws(AuthorityError) {
    _ = try register.register(issued, signer: signer, token: nil) { _ in true }
  }

  /// Revokes these serials and renews the CRL. Returns those that were not revoked before.
  @discardableResult
  package func revoke(
    signer: CertifiedKey, at now: Int64 = Int64(time(nil)),
    _ chosen: (AuthorityIndex) throws(AuthorityError) -> [String]
  ) throws(AuthorityError) -> [String] {
    var revoked: [String] = []
    try register.change(signer, days: Self.listDays, renewsAlways: false) { (index) throws(AuthorityError) in
      let serials = try chosen(index)
      revoked = serials.filter { index.revoke($0, AuthorityIndex.Revocation(date: now)) }
    }
    return revoked
  }

  /// Renews the CRL, whether or not it is due.
  package func renewList(signer: CertifiedKey, days: Int64 = listDays) throws(AuthorityError) {
    try register.change(signer, days: days, renewsAlways: true) { _ in }
  }

  /// Renews the CRL if it is due, and then returns its expiry. Forgets tokens whose certificate is expired or revoked.
  package func keepUp(signer: CertifiedKey, at now: Int64) throws(AuthorityError) -> Int64? {
    let before = try list()?.nextUpdate
    try register.keepUp(signer, at: now)
    let after = try list()?.nextUpdate
    return after == before ? nil : after
  }

  /// Brings crl.pem up to what other machines have changed in a database. Returns whether it was behind.
  package func fetchList() throws(AuthorityError) -> Bool { try register.fetchList() }

  /// The CRL of the folder; nil when there is none of this CA.
  func list() throws(AuthorityError) -> RevocationList? { try AuthorityReading.list(folder, of: certificate) }
}
