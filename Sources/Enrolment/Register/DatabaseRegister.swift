import Bytes
import Crypto
import Glibc
import PostgreSQL

/// A register in PostgreSQL, which several machines share: each has the CA's certificate and key in a folder of its own,
/// and a copy of the CRL there.
///
/// A change holds the lock of the authority's row, so there is one at a time, whichever machine makes it. A certificate, a
/// revocation and the CRL are committed before anybody gets them. docs/decisions/0041-register-in-postgresql.md.
struct DatabaseRegister: CertificateRegister {
  let folder: AuthorityFolder
  /// The CA's certificate.
  let authority: Certificate
  let database: RegisterDatabase
  /// The SHA-256 of the CA's public key: a renewed certificate of the CA keeps the register.
  let id: String

  init(_ folder: AuthorityFolder, _ authority: Certificate, _ database: RegisterDatabase) {
    self.folder = folder
    self.authority = authority
    self.database = database
    id = Hex.encode(authority.spkiSHA256)
  }

  var words: String { database.words }

  // MARK: Reading

  func index() throws(AuthorityError) -> AuthorityIndex {
    try reading { (session) throws(AuthorityError) in try index(session) }
  }

  func certificates(_ serials: [String]) throws(AuthorityError) -> [String: Certificate] {
    guard !serials.isEmpty else { return [:] }
    return try reading { (session) throws(AuthorityError) in
      var found: [String: Certificate] = [:]
      // An array of PostgreSQL: serials are hexadecimal digits, so they need no quotes.
      for start in stride(from: 0, to: serials.count, by: 500) {
        let list = serials[start..<min(start + 500, serials.count)].filter(Self.isSerial).joined(separator: ",")
        let rows = try session.run(
          """
          SELECT serial, certificate FROM sallyport_certificate
          WHERE authority = $1 AND serial = ANY ($2::text[]) AND certificate IS NOT NULL
          """, [id, "{\(list)}"])
        for row in rows {
          guard let serial = row[0], let pem = row[1] else { continue }
          found[serial] = try certificate(pem, serial)
        }
      }
      return found
    }
  }

  func entry(_ serial: String) throws(AuthorityError) -> AuthorityIndex.Entry? {
    try reading { (session) throws(AuthorityError) in
      let rows = try session.run("\(Self.selection) AND serial = $2", [id, serial])
      return try rows.first.map { (row) throws(AuthorityError) in try entry(row) }
    }
  }

  func held(by name: CommonName, at now: Int64) throws(AuthorityError) -> [HeldCertificate] {
    try reading { (session) throws(AuthorityError) in
      try Holders(register: self, session: session).held(by: name, at: now)
    }
  }

  func serial(ofToken digest: String) throws(AuthorityError) -> String? {
    try reading { (session) throws(AuthorityError) in
      try session.run("SELECT serial FROM sallyport_certificate WHERE authority = $1 AND token = $2", [id, digest])
        .first?[0]
    }
  }

  private struct Holders: CertificateHolders {
    let register: DatabaseRegister
    let session: RegisterSession

    func held(by name: CommonName, at now: Int64) throws(AuthorityError) -> [HeldCertificate] {
      let rows = try session.run(
        """
        SELECT serial, not_after, certificate FROM sallyport_certificate
        WHERE authority = $1 AND state = 'V' AND not_after >= $2 AND names @> ARRAY[$3]::text[] ORDER BY place
        """, [register.id, "\(now)", Hex.encode(Array(name.text.utf8))])
      return try rows.map { (row) throws(AuthorityError) in
        guard let serial = row[0], let notAfter = row[1].flatMap({ Int64($0) }) else {
          throw register.unreadable(row[0])
        }
        let certificate = try row[2].map { (pem) throws(AuthorityError) in try register.certificate(pem, serial) }
        return HeldCertificate(
          serial: serial, notAfter: notAfter, uris: certificate?.subjectAltNames.uris.map(\.description))
      }
    }
  }

  // MARK: Changes

  func register(
    _ issued: Certificate, signer: CertifiedKey, token digest: String?,
    if isWanted: (any CertificateHolders) throws(AuthorityError) -> Bool
  ) throws(AuthorityError) -> Bool {
    guard let entry = AuthorityIndex.Entry(issued) else {
      throw AuthorityError("certificate \(issued.serial): its end can't be read, so it can't be registered")
    }
    var renewed: NextList?
    let isRegistered = try database.transaction { (session) throws(AuthorityError) in
      let standing = try locked(session)
      guard try isWanted(Holders(register: self, session: session)) else { return false }
      try RegisterRows([(entry, issued, digest)]).insert(into: session, id)
      if standing.list.isEnding {
        renewed = try renew(try index(session), after: [standing.list], signer, AuthorityStore.listDays, session)
      }
      return true
    }
    if let renewed { try publish(renewed.pem) }
    return isRegistered
  }

  /// Fails closed: what the folder's CRL lists is revoked, even if the database is an older one that came from a backup.
  func change(
    _ signer: CertifiedKey, days: Int64, renewsAlways: Bool,
    _ body: (inout AuthorityIndex) throws(AuthorityError) -> Void
  ) throws(AuthorityError) {
    let local = try AuthorityReading.list(folder, of: authority)
    let pem = try database.transaction { (session) throws(AuthorityError) in
      let standing = try locked(session)
      let before = try index(session)
      var index = before
      let lists = [standing.list, local].compactMap { $0 }
      for entry in lists.flatMap(\.entries) { index.revoke(entry.serial, AuthorityIndex.Revocation(date: entry.date)) }
      try body(&index)
      for (old, new) in zip(before.entries, index.entries) where old.state != new.state {
        let marks = new.marks
        try session.run(
          "UPDATE sallyport_certificate SET state = $3, revocation = $4 WHERE authority = $1 AND serial = $2",
          [id, new.serial, marks.letter, marks.revocation])
      }
      let listed = Set(standing.list.entries.map(\.serial))
      let isBehind = !Set(index.revoked.map(\.serial)).isSubset(of: listed) || (local?.order ?? 0) > standing.list.order
      guard renewsAlways || isBehind || standing.list.isEnding else { return standing.pem }
      return try renew(index, after: lists, signer, days, session).pem
    }
    try publish(pem)
  }

  func keepUp(_ signer: CertifiedKey, at now: Int64) throws(AuthorityError) {
    let local = try AuthorityReading.list(folder, of: authority)
    let isDue = try database.transaction { (session) throws(AuthorityError) in
      let standing = try locked(session)
      try session.run(
        """
        UPDATE sallyport_certificate SET token = NULL
        WHERE authority = $1 AND token IS NOT NULL AND (state <> 'V' OR not_after <= $2)
        """, [id, "\(now)"])
      let revoked = try session.run(
        "SELECT serial FROM sallyport_certificate WHERE authority = $1 AND state = 'R'", [id])
      let listed = Set(standing.list.entries.map(\.serial))
      return standing.list.isEnding || (local?.order ?? 0) > standing.list.order
        || !revoked.allSatisfy { $0[0].map(listed.contains) ?? false }
    }
    if isDue { try change(signer, days: AuthorityStore.listDays, renewsAlways: false) { _ in } }
    _ = try fetchList()
  }

  func fetchList() throws(AuthorityError) -> Bool {
    let local = try AuthorityReading.list(folder, of: authority)?.order
    let pem = try database.transaction { (session) throws(AuthorityError) -> String? in
      guard let number = Int(try row(session, "list_number")) else { throw absent }
      if let local, local > number {
        throw AuthorityError(
          "\(words) has the revocation list number \(number), and \"\(folder.file("crl.pem"))\" is number \(local): the database came from a backup",
          hint: "`sallyport ca crl \(folder.path)` revokes in it what the file lists")
      }
      if local == number { return nil }
      return try standing(session, "").pem
    }
    guard let pem else { return false }
    try publish(pem)
    return true
  }

  // MARK: The authority's row

  struct Standing {
    let list: RevocationList
    let pem: String
  }

  /// Takes the lock of the authority, which ends with the transaction.
  func locked(_ session: RegisterSession) throws(AuthorityError) -> Standing { try standing(session, "FOR UPDATE") }

  private func standing(_ session: RegisterSession, _ lock: String) throws(AuthorityError) -> Standing {
    let pem = try row(session, "list", lock)
    return Standing(list: try list(pem), pem: pem)
  }

  /// A column of the authority's row, if the register can be used.
  private func row(_ session: RegisterSession, _ column: String, _ lock: String = "") throws(AuthorityError) -> String {
    let row = try session.run("SELECT format, moved, \(column) FROM sallyport_authority WHERE id = $1 \(lock)", [id])
      .first
    guard let row else { throw absent }
    guard row[0] == RegisterRows.format else {
      throw AuthorityError(
        "\(words) has format \(row[0] ?? "none"); this sallyport knows format \(RegisterRows.format)",
        hint: "use the same version on all machines")
    }
    if let place = row[1] {
      throw AuthorityError(
        "\(words) was moved to the folder \(place)",
        hint: place == LocalAuthority.place(of: folder)
          ? "the move ended in the middle: run `sallyport ca migrate \(folder.path) --to-folder` again"
          : "use that folder; `ca migrate` there can move it back into a database")
    }
    return row[2] ?? ""
  }

  /// Runs `body` in a transaction, if the register can be used.
  private func reading<Result>(
    _ body: (RegisterSession) throws(AuthorityError) -> Result
  ) throws(AuthorityError) -> Result {
    try database.transaction { (session) throws(AuthorityError) in
      _ = try row(session, "id")
      return try body(session)
    }
  }

  private var absent: AuthorityError {
    AuthorityError(
      "\(words) does not have this authority (\(authority.subject), key \(id.prefix(16))…)",
      hint: "`sallyport ca init DIR --store URI` or `ca migrate DIR --store URI` puts it there")
  }

  /// Whoever changes the database can't forge a list: this CA signs it.
  func list(_ pem: String) throws(AuthorityError) -> RevocationList {
    let lists = Array(pem.utf8).withUnsafeBytes { try? RevocationList.all(inPEM: $0) }
    guard let list = lists?.first(where: { $0.isSigned(by: authority) }) else {
      throw AuthorityError("\(words): its revocation list is not signed by \(authority.subject)")
    }
    return list
  }

  func renew(
    _ index: AuthorityIndex, after olds: [RevocationList], _ signer: CertifiedKey, _ days: Int64,
    _ session: RegisterSession
  ) throws(AuthorityError) -> NextList {
    let next = try NextList(
      of: index.revoked, isKnown: { index[serial: $0] != nil }, after: olds, number: 1, signer, days, folder)
    try session.run(
      "UPDATE sallyport_authority SET list = $2, list_number = $3 WHERE id = $1", [id, next.pem, "\(next.number)"])
    return next
  }

  /// Replaces crl.pem in the folder, unless that is as new: a machine's changes may end in another order than they began.
  func publish(_ pem: String) throws(AuthorityError) {
    let list = try list(pem)
    let lock = try AuthorityLock(folder)
    defer { extendLifetime(lock) }
    if let local = try AuthorityReading.list(folder, of: authority), local.order >= list.order { return }
    try folder.replace("crl.pem", text: pem)
  }

  // MARK: Rows

  private static let selection =
    "SELECT state, not_after, revocation, serial, file, subject FROM sallyport_certificate WHERE authority = $1"

  func index(_ session: RegisterSession) throws(AuthorityError) -> AuthorityIndex {
    var index = AuthorityIndex()
    for row in try session.run("\(Self.selection) ORDER BY place", [id]) { index.add(try entry(row)) }
    return index
  }

  private func entry(_ row: PostgresRow) throws(AuthorityError) -> AuthorityIndex.Entry {
    guard let state = row[0], let notAfter = row[1].flatMap({ Int64($0) }), let revocation = row[2],
      let serial = row[3],
      let file = row[4], let subject = row[5]
    else { throw unreadable(row[3]) }
    do throws(AuthorityIndex.Entry.FieldFault) {
      return try AuthorityIndex.Entry(
        letter: state[...], notAfter: notAfter, revocation: revocation[...], serial: serial[...], file: file[...],
        subject: subject[...])
    } catch {
      throw AuthorityError("\(words): certificate \(serial): \(error.reason)")
    }
  }

  private func certificate(_ pem: String, _ serial: String) throws(AuthorityError) -> Certificate {
    guard let certificate = try? Certificate.first(inPEM: pem), certificate.serial == serial,
      authority.issued(certificate)
    else {
      throw AuthorityError(
        "\(words): what it has as certificate \(serial) is not that certificate of \(authority.subject)")
    }
    return certificate
  }

  private func unreadable(_ serial: String?) -> AuthorityError {
    AuthorityError("\(words): the row of certificate \(serial ?? "without a serial") can't be read")
  }

  private static func isSerial(_ text: String) -> Bool { text.utf8.allSatisfy { ASCII.hexValue($0) != nil } }
}
