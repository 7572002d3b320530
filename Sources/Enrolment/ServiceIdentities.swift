import Bytes
import Crypto
import Glibc

/// Certificates of an hour for the services of one machine, each in a folder that only its own sidecar sees: the work of
/// `sallyport compose identities`.
///
/// The authority's folder has its key, and which certificates are valid still. A service that is stopped gets no successor, and
/// the list in each folder names what it has.
package struct ServiceIdentities {
  private let authority: CertifiedKey
  private let folder: String
  private let services: String
  private let names: [String]
  /// Who runs the sidecars, if root writes for them.
  private let owner: UInt32

  package static let seconds: Int64 = 3600
  private static let listDays: Int64 = 1
  private static let authorityDays: Int64 = 3650
  private static let mostBytes = 1 << 20

  private struct Issued: Equatable {
    let serial: String
    let end: Int64
    let name: String
    var isRevoked: Bool
  }

  /// `services`: a folder with one folder for each of `names`.
  package init(in folder: String, services: String, names: [String], owner: UInt32) throws(AuthorityError) {
    self.folder = folder
    self.services = services
    self.names = names
    self.owner = owner
    authority = try Self.authority(in: folder)
    for name in names { try makeFolder("\(services)/\(name)") }
    try makeFolder("\(folder)/stopped", isOwn: true)
  }

  private static func authority(in folder: String) throws(AuthorityError) -> CertifiedKey {
    let path = "\(folder)/ca.pem"
    let place = MaterialReference(path: path)
    if access(path, F_OK) == 0 {
      do throws(MaterialError) {
        return try CertifiedKey.load(certificate: place, key: place, tokens: TokenRefusals())
      } catch { throw AuthorityError(error) }
    }
    do throws(OpenSSLError) {
      let made = try CertificateBuilder(
        commonName: "sallyport compose CA", .authority(pathLength: 0), days: authorityDays
      ).selfSigned(key: .generate())
      let text = SecretBytes(Array(made.certificate.pem.utf8) + (try made.key.pem).withUnsafeBytes { Array($0) })
      var files = IssuedFiles()
      do throws(AuthorityError) {
        try files.stage(text, as: path, mode: 0o600)
        try files.publish()
      } catch { throw OpenSSLError(codes: [], description: "\(error)") }
      return made
    } catch { throw AuthorityError("\(path): \(error)") }
  }

  private func makeFolder(_ path: String, isOwn: Bool = false) throws(AuthorityError) {
    if mkdir(path, 0o700) != 0, errno != EEXIST { throw .system("mkdir", path) }
    if geteuid() == 0, !isOwn, chown(path, owner, owner) != 0 { throw .system("chown", path) }
  }

  // MARK: Stopping

  /// Takes a service's identity away, or gives it a new one. The process that keeps the identities does so within a second.
  package static func set(_ name: String, isStopped: Bool, in folder: String) throws(AuthorityError) {
    guard !name.isEmpty, !name.contains("/"), !name.hasPrefix(".") else {
      throw AuthorityError("\"\(name)\" is no name of a service")
    }
    let path = "\(folder)/stopped/\(name)"
    if isStopped {
      let descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
      guard descriptor >= 0 else { throw .system("open", path) }
      close(descriptor)
    } else if unlink(path) != 0, errno != ENOENT {
      throw .system("unlink", path)
    }
  }

  private func isStopped(_ name: String) -> Bool { access("\(folder)/stopped/\(name)", F_OK) == 0 }

  // MARK: Issuing

  /// Issues what is due, and writes the list if it changed or is half over. Returns what it did, in words.
  package func keepUp(at now: Int64) throws(AuthorityError) -> [String] {
    var issued = try read().filter { $0.end > now }
    let former = issued
    var told: [String] = []
    for index in issued.indices where !issued[index].isRevoked && isStopped(issued[index].name) {
      issued[index].isRevoked = true
      told.append("\(issued[index].name): stopped, certificate \(issued[index].serial) is revoked")
    }
    var made: [(name: String, pem: SecretBytes)] = []
    for name in names where !isStopped(name) {
      let path = "\(services)/\(name)/identity.pem"
      let isGood = issued.contains { $0.name == name && !$0.isRevoked && $0.end - now > Self.seconds / 2 }
      if isGood, access(path, F_OK) == 0 { continue }
      let pair = try make(name, now)
      issued.append(Issued(serial: pair.certificate.serial, end: now + Self.seconds, name: name, isRevoked: false))
      do throws(OpenSSLError) {
        let key = try pair.key.pem.withUnsafeBytes { Array($0) }
        made.append((name, SecretBytes(Array(pair.certificate.pem.utf8) + key)))
      } catch { throw AuthorityError("the key can't be written", error) }
      told.append("\(name): certificate \(pair.certificate.serial), valid for an hour")
    }
    // What is revoked has to be known before its successor is.
    if issued != former { try write(issued) }
    let isListed = names.allSatisfy { access("\(services)/\($0)/crl.pem", F_OK) == 0 }
    if !isListed || issued.filter(\.isRevoked) != former.filter(\.isRevoked) || isListOld(now) {
      try list(issued.filter(\.isRevoked), now)
    }
    for (name, pem) in made { try publish(pem, as: "identity.pem", for: name, mode: 0o600) }
    return told
  }

  private func make(_ name: String, _ now: Int64) throws(AuthorityError) -> CertifiedKey {
    var builder = CertificateBuilder(
      commonName: name, .leaf([.serverAuth, .clientAuth]), names: [.dns(name)], days: 1)
    builder.notBefore = now - 60
    builder.notAfter = now + Self.seconds
    let draft = builder
    do throws(OpenSSLError) { return try draft.signed(by: authority, key: .generate()) } catch {
      throw AuthorityError("the certificate of \(name)", error)
    }
  }

  private func isListOld(_ now: Int64) -> Bool {
    var status = stat()
    guard let first = names.first, stat("\(services)/\(first)/crl.pem", &status) == 0 else { return true }
    let (age, overflow) = now.subtractingReportingOverflow(Int64(status.st_mtim.tv_sec))
    // A list that seems to come from the future is old, too: the clock was set back.
    return overflow || age < 0 || age > Self.listDays * 86_400 / 2
  }

  private func list(_ revoked: [Issued], _ now: Int64) throws(AuthorityError) {
    let entries = revoked.map { RevocationList.Entry(serial: $0.serial, date: now) }
    // A list has to have a higher number than the one before, also within a second.
    var clock = timespec()
    clock_gettime(CLOCK_REALTIME, &clock)
    let number = Int(clock.tv_sec) &* 1_000_000 &+ Int(clock.tv_nsec) / 1000
    let builder = RevocationListBuilder(entries: entries, number: number, days: Self.listDays)
    let text: String
    do throws(OpenSSLError) { text = try builder.pem(signedBy: authority) } catch {
      throw AuthorityError("the revocation list", error)
    }
    for name in names {
      if access("\(services)/\(name)/ca.crt", F_OK) != 0 {
        try publish(SecretBytes(Array(authority.certificate.pem.utf8)), as: "ca.crt", for: name, mode: 0o644)
      }
      try publish(SecretBytes(Array(text.utf8)), as: "crl.pem", for: name, mode: 0o644)
    }
  }

  private func publish(
    _ contents: SecretBytes, as file: String, for name: String, mode: UInt32
  ) throws(AuthorityError) {
    var files = IssuedFiles()
    try files.stage(contents, as: "\(services)/\(name)/\(file)", mode: mode, replacing: .file)
    try files.publish()
  }

  // MARK: What is valid still

  private var record: String { "\(folder)/issued" }

  private func read() throws(AuthorityError) -> [Issued] {
    guard access(record, F_OK) == 0 else { return [] }
    let descriptor = open(record, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw .system("open", record) }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: Self.mostBytes)
    let count = Glibc.read(descriptor, &bytes, bytes.count)
    guard count >= 0, count < bytes.count else {
      throw AuthorityError(
        "\"\(record)\" can't be read whole", hint: "remove it to begin anew, and stop services again")
    }
    bytes.removeLast(bytes.count - count)
    return try String(decoding: bytes, as: UTF8.self).split(separator: "\n").map { (line) throws(AuthorityError) in
      let words = line.split(separator: " ").map(String.init)
      guard words.count == 4, let end = Int64(words[1]) else {
        throw AuthorityError(
          "\"\(record)\": \"\(line.prefix(40))\" is no SERIAL END NAME STATE", hint: "remove the file")
      }
      return Issued(serial: words[0], end: end, name: words[2], isRevoked: words[3] == "revoked")
    }
  }

  private func write(_ issued: [Issued]) throws(AuthorityError) {
    let text = issued.map { "\($0.serial) \($0.end) \($0.name) \($0.isRevoked ? "revoked" : "valid")\n" }.joined()
    var files = IssuedFiles()
    try files.stage(SecretBytes(Array(text.utf8)), as: record, mode: 0o600, replacing: .file)
    try files.publish()
  }
}
