import Bytes
import Crypto
import Glibc

/// A register in the authority's own folder, in the layout of `openssl ca`, and every change of it.
///
///     ca.crt  private/ca.key  index.txt  crl.pem  crlnumber  serial  certs/SERIAL.pem  tokens/DIGEST  openssl.cnf  lock
///
/// A change holds the lock and writes in an order that can be repaired after a crash between any two writes. The next
/// change repairs it. A certificate is written before its line of the index: a certificate without a line gets one. The
/// index is changed before the CRL: a CRL that lacks a revocation is renewed.
///
/// `openssl ca` takes no lock. What it overwrites is recovered in the same way: a certificate without a line, a
/// revocation that only the CRL contains.
struct FolderRegister: CertificateRegister {
  let folder: AuthorityFolder
  /// The CA's certificate.
  let authority: Certificate
  /// This process's cache.
  let known: FolderRegisterCache

  /// How often a change starts again because a program without the lock changed the index.
  private static let attempts = 5

  init(_ folder: AuthorityFolder, _ authority: Certificate, _ known: FolderRegisterCache) {
    self.folder = folder
    self.authority = authority
    self.known = known
  }

  // MARK: Reading

  var words: String { "\(folder.path)/certs" }

  /// Repaired in memory only.
  func index() throws(AuthorityError) -> AuthorityIndex { try AuthorityReading(self).index }

  /// nil: it is not there, or can't be read.
  func certificate(_ serial: String) -> Certificate? {
    guard let bytes = try? folder.read("certs/\(serial).pem") else { return nil }
    return try? Certificate.first(inPEM: String(decoding: bytes, as: UTF8.self))
  }

  func certificates(_ serials: [String]) throws(AuthorityError) -> [String: Certificate] {
    var found: [String: Certificate] = [:]
    for serial in serials { found[serial] = certificate(serial) }
    return found
  }

  func entry(_ serial: String) throws(AuthorityError) -> AuthorityIndex.Entry? { try known.entry(serial, in: self) }

  func held(by name: CommonName, at now: Int64) throws(AuthorityError) -> [HeldCertificate] {
    try known.held(by: name, in: self, at: now)
  }

  func serial(ofToken digest: String) throws(AuthorityError) -> String? {
    try folder.read("tokens/\(digest)").map { String(decoding: $0.prefix { $0 != 0x0A }, as: UTF8.self) }
  }

  // MARK: Changes

  /// If nothing needs repair or renewal, this appends a line to the index, and the work does not grow with the register.
  func register(
    _ issued: Certificate, signer: CertifiedKey, token digest: String?,
    if isWanted: (any CertificateHolders) throws(AuthorityError) -> Bool
  ) throws(AuthorityError) -> Bool {
    if digest != nil, mkdir(folder.file("tokens"), 0o700) != 0, errno != EEXIST {
      throw .system("mkdir", folder.file("tokens"))
    }
    let lock = try AuthorityLock(folder)
    defer { extendLifetime(lock) }
    guard let entry = AuthorityIndex.Entry(issued) else {
      throw AuthorityError("certificate \(issued.serial): its end can't be read, so it can't be registered")
    }
    for _ in 0..<Self.attempts {
      let found = try known.found(self)
      guard try isWanted(self) else { return false }
      var files = FolderChange(folder)
      if let digest {
        try files.stage("tokens/\(digest)", SecretBytes(Array("\(issued.serial)\n".utf8)), mode: 0o600)
      }
      try files.stage("certs/\(issued.serial).pem", SecretBytes(Array(issued.pem.utf8)))
      if case .addable(let stamp) = found, let descriptor = try folder.openedForAppending("index.txt") {
        defer { close(descriptor) }
        let after = try files.publish(appending: entry.line, to: "index.txt", descriptor, unchanged: stamp)
        guard let after else { continue }
        known.add(entry, issued, after, in: self)
        return true
      }
      let reading = try AuthorityReading(self)
      var index = reading.index
      index.add(entry)
      if try publish(index, after: reading, files, signer) { return true }
    }
    throw changedByOthers
  }

  /// Runs `body` on the index under the lock, and writes the result.
  func change(
    _ signer: CertifiedKey, days: Int64, renewsAlways: Bool,
    _ body: (inout AuthorityIndex) throws(AuthorityError) -> Void
  ) throws(AuthorityError) {
    let lock = try AuthorityLock(folder)
    defer { extendLifetime(lock) }
    for name in try folder.names(in: "certs") where name.hasSuffix(".draft") { try folder.remove("certs/\(name)") }
    for _ in 0..<Self.attempts {
      let reading = try AuthorityReading(self)
      var index = reading.index
      try body(&index)
      let files = FolderChange(folder)
      if try publish(index, after: reading, files, signer, days: days, renewsAlways: renewsAlways) { return }
    }
    throw changedByOthers
  }

  /// Writes the index if it differs, then the CRL if it is due. Call it under the lock. Returns false, and changes
  /// nothing, when a program without the lock changed the index meanwhile.
  private func publish(
    _ index: AuthorityIndex, after reading: AuthorityReading, _ files: consuming FolderChange, _ signer: CertifiedKey,
    days: Int64 = AuthorityStore.listDays, renewsAlways: Bool = false
  ) throws(AuthorityError) -> Bool {
    if reading.isFileBehind || index != reading.index {
      try files.stage("index.txt", SecretBytes(Array(index.text.utf8)))
    }
    if renewsAlways || reading.isListDue(for: index) { try stage(index, after: reading.list, signer, days, in: &files) }
    return try files.publish(unchanged: ("index.txt", reading.stamps.index))
  }

  private var changedByOthers: AuthorityError {
    AuthorityError(
      "\"\(folder.file("index.txt"))\" is being changed by a program that does not take the lock",
      hint: "let `openssl ca` take it: flock \(folder.file(AuthorityLock.name)) openssl ca -config …")
  }

  // MARK: The CRL

  /// Stages crlnumber before the CRL: no two CRLs may have the same number.
  private func stage(
    _ index: AuthorityIndex, after old: RevocationList?, _ signer: CertifiedKey, _ days: Int64,
    in files: inout FolderChange
  ) throws(AuthorityError) {
    let next = try NextList(
      of: index.revoked, isKnown: { index[serial: $0] != nil }, after: [old].compactMap { $0 }, number: nextNumber(),
      signer, days, folder)
    try files.stage("crlnumber", SecretBytes(Array(Self.hexadecimal(next.number + 1).utf8)))
    try files.stage("crl.pem", SecretBytes(Array(next.pem.utf8)))
  }

  /// Renews the CRL if it is due. Removes the records of tokens whose certificate is expired or revoked.
  func keepUp(_ signer: CertifiedKey, at now: Int64) throws(AuthorityError) {
    try change(signer, days: AuthorityStore.listDays, renewsAlways: false) { (index) throws(AuthorityError) in
      for name in try folder.names(in: "tokens") where !name.hasPrefix(".") {
        guard let serial = try serial(ofToken: name) else { continue }
        let entry = index[serial: serial]
        if entry?.state != .valid || (entry?.notAfter ?? 0) <= now { try folder.remove("tokens/\(name)") }
      }
    }
  }

  func fetchList() throws(AuthorityError) -> Bool { false }

  private func nextNumber() throws(AuthorityError) -> Int {
    guard let bytes = try folder.read("crlnumber") else { return 1 }
    let text = String(decoding: bytes.prefix { $0 != 0x0A && $0 != 0x0D }, as: UTF8.self)
    guard let number = Int(text, radix: 16), (0..<NextList.numberLimit).contains(number) else {
      throw AuthorityError(
        "\"\(folder.file("crlnumber"))\" holds \"\(text.prefix(40))\"; expected the next list's number, hexadecimal")
    }
    return number
  }

  /// Formats a number as in OpenSSL's serial files.
  static func hexadecimal(_ number: Int) -> String {
    let digits = String(number, radix: 16, uppercase: true)
    return (digits.utf8.count % 2 == 0 ? digits : "0" + digits) + "\n"
  }
}
