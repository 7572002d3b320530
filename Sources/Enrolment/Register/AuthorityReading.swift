import Bytes
import Crypto
import Glibc

/// The register as one reading of its files found it, repaired in memory.
struct AuthorityReading: Sendable {
  /// The states of the files before they were read. The reading is valid as long as they stay equal.
  struct Stamps: Sendable, Equatable {
    var index: FileStamp?
    var certificates: FileStamp?
    var list: FileStamp?

    init(_ folder: AuthorityFolder) {
      index = FileStamp(folder.file("index.txt"))
      certificates = FileStamp(folder.file("certs"))
      list = FileStamp(folder.file("crl.pem"))
    }
  }

  var stamps: Stamps
  var index: AuthorityIndex
  /// The current CRL; nil when there is none of this CA.
  let list: RevocationList?
  /// Whether index.txt has fewer entries than `index`, or its last line has no line feed. Then it must be written
  /// again, and no line may be appended.
  let isFileBehind: Bool

  /// Reads everything, in time proportional to the register's size.
  ///
  /// Needs no lock. Adds in memory what a crash, or a program without the lock, left out of the index. Fails closed:
  /// every certificate that the CRL lists is revoked.
  init(_ register: FolderRegister) throws(AuthorityError) {
    let folder = register.folder
    let (stamps, bytes) = try Self.indexBytes(folder)
    let list = try Self.list(folder, of: register.authority)
    let found = try Self.parsed(bytes, folder)
    var index = found.index
    let orphans = try Self.addOrphans(to: &index, register)
    if let fault = found.tailFault, !orphans { throw Self.error(fault, folder) }
    // The name is the last field of a line, so it may have been truncated.
    if found.hasTail, let cut = found.index.entries.last, let certificate = register.certificate(cut.serial) {
      index.rename(cut.serial, certificate.subject.legacy)
    }
    for entry in list?.entries ?? [] { index.revoke(entry.serial, AuthorityIndex.Revocation(date: entry.date)) }
    self.stamps = stamps
    self.index = index
    self.list = list
    isFileBehind = found.hasTail || index != found.index
  }

  /// Reads the index, and the states of the files before that.
  private static func indexBytes(_ folder: AuthorityFolder) throws(AuthorityError) -> (Stamps, [UInt8]) {
    for _ in 0..<20 {
      let stamps = Stamps(folder)
      if let bytes = try folder.read("index.txt") { return (stamps, bytes) }
      // `openssl ca` renames two files, one after the other; between the two renames no index exists.
      usleep(5000)
    }
    throw AuthorityError(
      "\"\(folder.file("index.txt"))\" is missing",
      hint: "take index.txt.old; or make an empty one, and the certificates of certs/ come back as valid ones")
  }

  /// Whether a change that results in `index` must also make a CRL.
  func isListDue(for index: AuthorityIndex) -> Bool {
    guard let list else { return true }
    return isListEnding || !Set(index.revoked.map(\.serial)).isSubset(of: Set(list.entries.map(\.serial)))
  }

  /// Whether the CRL is missing or ends soon.
  var isListEnding: Bool { list?.isEnding ?? true }

  // MARK: Reading

  /// Parses the index. `hasTail`: there is text after the last line feed. It counts if it is a complete line, as an
  /// editor may leave it. Otherwise (`tailFault`) a crash truncated the line, and its certificate is found as an
  /// orphan.
  private static func parsed(
    _ bytes: [UInt8], _ folder: AuthorityFolder
  ) throws(AuthorityError) -> (index: AuthorityIndex, hasTail: Bool, tailFault: AuthorityIndexError?) {
    func parse(_ bytes: ArraySlice<UInt8>) -> Result<AuthorityIndex, AuthorityIndexError> {
      bytes.withUnsafeBytes { raw in
        Result { () throws(AuthorityIndexError) in try AuthorityIndex(parsing: raw) }
      }
    }
    let tail = bytes.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
    let whole = parse(bytes[...])
    switch whole {
    case .success(let index): return (index, tail < bytes.count, nil)
    case .failure(let fault):
      guard tail < bytes.count, case .success(let index) = parse(bytes[..<tail]) else { throw error(fault, folder) }
      return (index, true, fault)
    }
  }

  private static func error(_ fault: AuthorityIndexError, _ folder: AuthorityFolder) -> AuthorityError {
    AuthorityError(
      "\"\(folder.file("index.txt"))\" \(fault)",
      hint: "mend that line, or take index.txt.old; the certificates themselves are in certs/")
  }

  /// Adds an entry for each certificate in certs/ that has none. Returns whether there were any.
  private static func addOrphans(
    to index: inout AuthorityIndex, _ register: FolderRegister
  ) throws(AuthorityError) -> Bool {
    let suffix = ".pem"
    var found = false
    for name in try register.folder.names(in: "certs").sorted() where name.hasSuffix(suffix) {
      let serial = String(name.dropLast(suffix.count))
      guard index[serial: serial] == nil, let orphan = register.certificate(serial), orphan.serial == serial,
        register.authority.issued(orphan), let entry = AuthorityIndex.Entry(orphan)
      else { continue }
      index.add(entry)
      found = true
    }
    return found
  }

  /// `authority`: whose list counts.
  static func list(_ folder: AuthorityFolder, of authority: Certificate) throws(AuthorityError) -> RevocationList? {
    guard let bytes = try folder.read("crl.pem"), !bytes.isEmpty else { return nil }
    let reference = MaterialReference(path: folder.file("crl.pem"))
    do throws(MaterialError) {
      return try RevocationList.loadAll(reference).first { $0.isSigned(by: authority) }
    } catch {
      throw AuthorityError(error.message, hint: "remove the file, and `sallyport ca crl \(folder.path)` makes it anew")
    }
  }
}

extension RevocationList {
  /// Whether the CRL is in the last third of its lifetime: some days before anybody is warned of its end (`ExpiryNotice`).
  var isEnding: Bool {
    // A CRL without nextUpdate never expires.
    guard let end = nextUpdate else { return false }
    guard thisUpdate < end else { return true }
    let (left, isPast) = end.subtractingReportingOverflow(Int64(time(nil)))
    let (life, isEndless) = end.subtractingReportingOverflow(thisUpdate)
    return isPast || left < (isEndless ? .max : life) / 3
  }
}
