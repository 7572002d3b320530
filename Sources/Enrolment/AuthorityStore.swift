package import Crypto
import Bytes
import Glibc

/// An authority's directory, in the layout of `openssl ca`, and every change of it.
///
///     ca.crt  private/ca.key  index.txt  crl.pem  crlnumber  serial  certs/SERIAL.pem  openssl.cnf  lock
///
/// A change holds the lock and writes in an order that can be repaired after a crash between any two writes. The next
/// change repairs it. A certificate is written before its line of the index: a certificate without a line gets one. The
/// index is changed before the CRL: a CRL that lacks a revocation is renewed.
///
/// `openssl ca` takes no lock. What it overwrites is recovered in the same way: a certificate without a line, a
/// revocation that only the CRL contains.
package struct AuthorityStore: Sendable {
  package let folder: AuthorityFolder
  /// The CA's certificate.
  package let certificate: Certificate
  /// This process's cache of the register.
  let known: AuthorityRegister
  let tokens: TokenRefusals

  /// The lifetime of a CRL in days.
  package static let listDays: Int64 = 30
  /// CRL numbers are below this limit, so that later CRLs have room to count on.
  private static let numberLimit = 1 << 62
  /// How often a change starts again because a program without the lock changed the index.
  private static let attempts = 5

  /// `state`: the daemon's; each command makes its own.
  package init(
    _ path: String, _ state: EnrolmentState = EnrolmentState(tokens: TokenRefusals()),
    interruption: Interruption? = nil
  ) throws(AuthorityError) {
    folder = try AuthorityFolder(path, interruption: interruption)
    known = state.register(of: folder)
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
  }

  /// Reads the register for display, repaired in memory only.
  package func index() throws(AuthorityError) -> AuthorityIndex { try AuthorityReading(self).index }

  /// Returns the issued certificate of a serial; nil when another program issued it and keeps it elsewhere.
  package func certificate(_ serial: String) -> Certificate? {
    guard let bytes = try? folder.read("certs/\(serial).pem") else { return nil }
    return try? Certificate.first(inPEM: String(decoding: bytes, as: UTF8.self))
  }

  // MARK: Changes

  /// Registers a certificate of this CA. Give nobody a certificate that is not registered.
  package func register(_ issued: Certificate, signer: CertifiedKey) throws(AuthorityError) {
    try register(issued, signer: signer) { () throws(AuthorityError) in true }
  }

  /// Registers a certificate of this CA unless `isWanted` returns false under the lock. Then nothing changes, and the
  /// result is false.
  ///
  /// `extra`: new files of mode 0600 that belong to the certificate. If nothing needs repair or renewal, this appends a
  /// line to the index, and the work does not grow with the register.
  @discardableResult
  func register(
    _ issued: Certificate, signer: CertifiedKey, and extra: [(name: String, contents: SecretBytes)] = [],
    if isWanted: () throws(AuthorityError) -> Bool
  ) throws(AuthorityError) -> Bool {
    let lock = try AuthorityLock(folder)
    defer { extendLifetime(lock) }
    guard let entry = AuthorityIndex.Entry(issued) else {
      throw AuthorityError("certificate \(issued.serial): its end can't be read, so it can't be registered")
    }
    for _ in 0..<Self.attempts {
      let found = try known.found(self)
      guard try isWanted() else { return false }
      var files = FolderChange(folder)
      for file in extra { try files.stage(file.name, file.contents, mode: 0o600) }
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

  /// Revokes these serials and renews the CRL. Returns those that were not revoked before.
  @discardableResult
  package func revoke(
    signer: CertifiedKey, at now: Int64 = Int64(time(nil)),
    _ chosen: (AuthorityIndex) throws(AuthorityError) -> [String]
  ) throws(AuthorityError) -> [String] {
    var revoked: [String] = []
    try change(signer) { (index) throws(AuthorityError) in
      let serials = try chosen(index)
      revoked = serials.filter { index.revoke($0, AuthorityIndex.Revocation(date: now)) }
    }
    return revoked
  }

  /// Renews the CRL, whether or not it is due.
  package func renewList(signer: CertifiedKey, days: Int64 = listDays) throws(AuthorityError) {
    try change(signer, days: days, renewsAlways: true) { _ in }
  }

  /// Runs `body` on the index under the lock, and writes the result.
  func change(
    _ signer: CertifiedKey, days: Int64 = listDays, renewsAlways: Bool = false,
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
    days: Int64 = listDays, renewsAlways: Bool = false
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
    let forgotten = (old?.entries ?? []).filter { index[serial: $0.serial] == nil }
    let former = old?.number.map { $0.value ?? .max } ?? 0
    guard former < Self.numberLimit else {
      throw AuthorityError(
        "\"\(folder.file("crl.pem"))\" has the number \(former), which leaves no room for the numbers of later lists",
        hint: "remove the file, and `sallyport ca crl \(folder.path)` makes it anew")
    }
    let number = max(try nextNumber(), former + 1)
    var builder = RevocationListBuilder(entries: index.revoked + forgotten, number: number, days: days)
    // Not older than the previous CRL, which `openssl ca` may have made a moment ago: verification uses the newest.
    if let old, old.thisUpdate <= builder.thisUpdate + 3600 {
      builder.thisUpdate = max(builder.thisUpdate, old.thisUpdate)
    }
    let pem: String
    do throws(OpenSSLError) { pem = try builder.pem(signedBy: signer) } catch {
      throw AuthorityError("the revocation list could not be signed", error)
    }
    try files.stage("crlnumber", SecretBytes(Array(Self.hexadecimal(number + 1).utf8)))
    try files.stage("crl.pem", SecretBytes(Array(pem.utf8)))
  }

  private func nextNumber() throws(AuthorityError) -> Int {
    guard let bytes = try folder.read("crlnumber") else { return 1 }
    let text = String(decoding: bytes.prefix { $0 != 0x0A && $0 != 0x0D }, as: UTF8.self)
    guard let number = Int(text, radix: 16), (0..<Self.numberLimit).contains(number) else {
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
