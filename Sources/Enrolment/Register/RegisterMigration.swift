import Bytes
import Crypto
import Glibc
import PostgreSQL

/// Moves a register between an authority's folder and a database.
extension LocalAuthority {
  /// Moves the register of the folder into a database. The folder's own files of it get the suffix `.moved`. Returns how many
  /// certificates there are.
  ///
  /// If it ends in the middle, it can be run again: what is in the database already is the same.
  package func moveRegister(to uri: String) throws(AuthorityError) -> Int {
    guard let register = store.register as? FolderRegister else { return try completedMove(to: uri) }
    let database = RegisterDatabase(try Self.address(uri), DatabaseSessions())
    let target = DatabaseRegister(store.folder, store.certificate, database)
    let moved = try moved(register, to: target)
    try target.publish(moved.list)
    return moved.count
  }

  /// Sets the folder's files aside, if a move ended before it did.
  private func completedMove(to uri: String) throws(AuthorityError) -> Int {
    let folder = store.folder
    let left = Self.filesOfRegister.filter { name in
      access(folder.file(name), F_OK) == 0
    }
    guard let register = store.register as? DatabaseRegister, register.database.address.uri == uri, !left.isEmpty else {
      throw AuthorityError("the register of \(folder.path) is in a database already")
    }
    let count = try register.index().entries.count
    for name in left { try folder.setAside(name) }
    return count
  }

  /// Under the folder's lock, which `DatabaseRegister.publish` takes, too.
  private func moved(
    _ register: FolderRegister, to target: DatabaseRegister
  ) throws(AuthorityError) -> (count: Int, list: String) {
    let folder = register.folder
    let lock = try AuthorityLock(folder)
    defer { extendLifetime(lock) }
    let reading = try AuthorityReading(register)
    let certificates = try register.certificates(reading.index.entries.map(\.serial))
    var tokens: [String: String] = [:]
    for name in try folder.names(in: "tokens") where !name.hasPrefix(".") {
      if let serial = try register.serial(ofToken: name) { tokens[serial] = name }
    }
    let rows = reading.index.entries.map { ($0, certificates[$0.serial], tokens[$0.serial]) }
    let list = try target.database.transaction { (session) throws(AuthorityError) in
      try RegisterRows.makeTables(session)
      return try target.take(rows, after: reading.list, signer, session)
    }
    // Until now the folder counts, and from now on the database.
    try folder.replace(RegisterDatabase.file, text: target.database.address.uri + "\n", mode: 0o600)
    for name in Self.filesOfRegister { try folder.setAside(name) }
    return (rows.count, list)
  }

  /// Moves the register from a database into the folder. Other machines can't use the database's any more. Returns how many
  /// certificates there are.
  package func moveRegisterToFolder() throws(AuthorityError) -> Int {
    let folder = store.folder
    guard let register = store.register as? DatabaseRegister else {
      throw AuthorityError("the register of \(folder.path) is in the folder already")
    }
    let lock = try AuthorityLock(folder)
    defer { extendLifetime(lock) }
    let count = try register.database.transaction { (session) throws(AuthorityError) in
      let place = Self.place(of: folder)
      try session.run("UPDATE sallyport_authority SET moved = NULL WHERE id = $1 AND moved = $2", [register.id, place])
      let standing = try register.locked(session)
      let index = try register.index(session)
      for (name, mode) in [("certs", mode_t(0o755)), ("tokens", 0o700)] where mkdir(folder.file(name), mode) != 0 {
        guard errno == EEXIST else { throw .system("mkdir", folder.file(name)) }
      }
      let rows = try session.run(
        "SELECT serial, certificate, token FROM sallyport_certificate WHERE authority = $1", [register.id])
      for row in rows {
        guard let serial = row[0], index[serial: serial] != nil else { continue }
        if let pem = row[1] { try folder.replace("certs/\(serial).pem", text: pem) }
        if let token = row[2], token.utf8.allSatisfy({ ASCII.hexValue($0) != nil }) {
          try folder.replace("tokens/\(token)", text: "\(serial)\n", mode: 0o600)
        }
      }
      try folder.replace("crl.pem", text: standing.pem)
      let (following, _) = standing.list.order.addingReportingOverflow(1)
      for (name, text) in try AuthorityStore.registerFiles(folder, listNumber: following) {
        try folder.replace(name, text: name == "index.txt" ? index.text : text)
      }
      try session.run("UPDATE sallyport_authority SET moved = $2 WHERE id = $1", [register.id, place])
      return index.entries.count
    }
    // Until now the database counts, and from now on the folder.
    try folder.remove(RegisterDatabase.file)
    return count
  }

  static func address(_ uri: String) throws(AuthorityError) -> PostgresAddress {
    do throws(PostgresError) { return try PostgresAddress(uri) } catch {
      throw AuthorityError(error.message, hint: error.hint)
    }
  }

  private static let filesOfRegister = [
    "index.txt", "index.txt.attr", "serial", "crlnumber", "openssl.cnf", "certs", "tokens",
  ]

  /// For people of all machines.
  static func place(of folder: AuthorityFolder) -> String {
    var name = [CChar](repeating: 0, count: 256)
    guard gethostname(&name, name.count - 1) == 0 else { return folder.path }
    let host = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return "\(folder.path) of \(host)"
  }
}

extension DatabaseRegister {
  /// Puts the authority and these certificates into the database, with a new CRL. Returns the CRL.
  func take(
    _ rows: [RegisterRows.Row], after old: RevocationList?, _ signer: CertifiedKey, _ session: RegisterSession
  ) throws(AuthorityError) -> String {
    let standing = try session.run("SELECT list, moved FROM sallyport_authority WHERE id = $1 FOR UPDATE", [id]).first
    if let place = standing?[1], place != LocalAuthority.place(of: folder) {
      throw AuthorityError("\(words) was moved to the folder \(place)", hint: "move it back from there")
    }
    let lists = try [old, standing?[0].map { (pem) throws(AuthorityError) in try list(pem) }].compactMap { $0 }
    if standing == nil {
      try session.run(
        "INSERT INTO sallyport_authority (id, format, certificate, list, list_number) VALUES ($1, $2, $3, '', 0)",
        [id, RegisterRows.format, authority.pem])
    } else {
      try session.run("UPDATE sallyport_authority SET moved = NULL WHERE id = $1", [id])
    }
    try RegisterRows(rows).merge(into: session, id)
    return try renew(try index(session), after: lists, signer, AuthorityStore.listDays, session).pem
  }
}

extension AuthorityFolder {
  /// Renames a file or a subdirectory to NAME.moved, or NAME.moved.2 and so on if that is there. Nothing happens if it does
  /// not exist.
  func setAside(_ name: String) throws(AuthorityError) {
    for number in 1...1000 {
      let other = number == 1 ? "\(name).moved" : "\(name).moved.\(number)"
      let outcome = try inside(name) { (place, leaf) throws(AuthorityError) -> CInt in
        if faccessat(place, other, F_OK, AT_SYMLINK_NOFOLLOW) == 0 { return EEXIST }
        return renameat(place, leaf, place, other) == 0 ? 0 : errno
      }
      if outcome == 0 || outcome == ENOENT { return }
      guard outcome == EEXIST else { throw .system("rename", file(name), outcome) }
    }
    throw AuthorityError("\"\(file(name)).moved\" and a thousand others are there already")
  }
}
