import Bytes
import Crypto
import Glibc

/// The register as one reading of its files found it, mended in memory.
struct AuthorityReading: Sendable {
  /// How the files looked before they were read: while they look the same, the reading holds.
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
  /// The list in force; nil when there is none of this CA.
  let list: RevocationList?
  /// index.txt says less than the index here, or its last line has no end: it must be written anew, nothing may be added.
  let isFileBehind: Bool

  /// Reads all of it: the time that it takes grows with the register.
  ///
  /// Needs no lock. What a crash, or somebody without the lock, has left out of the index is mended here, in memory. Fails
  /// closed: what the list names is revoked.
  init(_ store: AuthorityStore) throws(AuthorityError) {
    let folder = store.folder
    let (stamps, bytes) = try Self.indexBytes(folder)
    let list = try Self.list(store)
    let found = try Self.parsed(bytes, folder)
    var index = found.index
    let orphans = try Self.addOrphans(to: &index, store)
    if let fault = found.tailFault, !orphans { throw Self.error(fault, folder) }
    // The name stands last in a line, and may have been cut.
    if found.hasTail, let cut = found.index.entries.last, let certificate = store.certificate(cut.serial) {
      index.rename(cut.serial, certificate.subject.legacy)
    }
    for entry in list?.entries ?? [] { index.revoke(entry.serial, AuthorityIndex.Revocation(date: entry.date)) }
    self.stamps = stamps
    self.index = index
    self.list = list
    isFileBehind = found.hasTail || index != found.index
  }

  /// The index, and how the files looked before it was read.
  private static func indexBytes(_ folder: AuthorityFolder) throws(AuthorityError) -> (Stamps, [UInt8]) {
    for _ in 0..<20 {
      let stamps = Stamps(folder)
      if let bytes = try folder.read("index.txt") { return (stamps, bytes) }
      // `openssl ca` renames two files, one after the other: between them there is no index.
      usleep(5000)
    }
    throw AuthorityError(
      "\"\(folder.file("index.txt"))\" is missing",
      hint: "take index.txt.old; or make an empty one, and the certificates of certs/ come back as valid ones")
  }

  /// Whether a revocation list must be made for `index`, which follows from the one that was read.
  func isListDue(for index: AuthorityIndex) -> Bool {
    guard let list else { return true }
    return isListEnding || !Set(index.revoked.map(\.serial)).isSubset(of: Set(list.entries.map(\.serial)))
  }

  /// In the last quarter of its time, or there is none.
  var isListEnding: Bool {
    guard let list else { return true }
    // A list without an end ends for nobody.
    guard let end = list.nextUpdate else { return false }
    guard list.thisUpdate < end else { return true }
    let (left, isPast) = end.subtractingReportingOverflow(Int64(time(nil)))
    let (life, isEndless) = end.subtractingReportingOverflow(list.thisUpdate)
    return isPast || left < (isEndless ? .max : life) / 4
  }

  // MARK: Reading

  /// `hasTail`: there is something behind the last end of a line. It counts where it is a whole line, as an editor may
  /// leave it; what is none (`tailFault`) is a line that a crash cut, and its certificate is found without a line.
  private static func parsed(
    _ bytes: [UInt8], _ folder: AuthorityFolder
  ) throws(AuthorityError) -> (index: AuthorityIndex, hasTail: Bool, tailFault: AuthorityIndexFault?) {
    func parse(_ bytes: ArraySlice<UInt8>) -> Result<AuthorityIndex, AuthorityIndexFault> {
      bytes.withUnsafeBytes { raw in
        Result { () throws(AuthorityIndexFault) in try AuthorityIndex(parsing: raw) }
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

  private static func error(_ fault: AuthorityIndexFault, _ folder: AuthorityFolder) -> AuthorityError {
    AuthorityError(
      "\"\(folder.file("index.txt"))\" \(fault)",
      hint: "mend that line, or take index.txt.old; the certificates themselves are in certs/")
  }

  /// Gives each certificate of certs/ that has no line one; true when there were any.
  private static func addOrphans(
    to index: inout AuthorityIndex, _ store: AuthorityStore
  ) throws(AuthorityError) -> Bool {
    let suffix = ".pem"
    var found = false
    for name in try store.folder.names(in: "certs").sorted() where name.hasSuffix(suffix) {
      let serial = String(name.dropLast(suffix.count))
      guard index[serial: serial] == nil, let orphan = store.certificate(serial), orphan.serial == serial,
        store.certificate.issued(orphan), let entry = AuthorityIndex.Entry(orphan)
      else { continue }
      index.add(entry)
      found = true
    }
    return found
  }

  static func list(_ store: AuthorityStore) throws(AuthorityError) -> RevocationList? {
    let folder = store.folder
    guard let bytes = try folder.read("crl.pem"), !bytes.isEmpty else { return nil }
    let reference = MaterialReference(path: folder.file("crl.pem"))
    do throws(MaterialError) {
      return try RevocationList.loadAll(reference).first { $0.isSigned(by: store.certificate) }
    } catch {
      throw AuthorityError(error.message, hint: "remove the file, and `sallyport ca crl \(folder.path)` makes it anew")
    }
  }
}
