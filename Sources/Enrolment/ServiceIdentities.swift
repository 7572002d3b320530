import Bytes
import Crypto
import Glibc

/// Certificates of an hour for services, each for a key that the service's sidecar made: the work of
/// `sallyport compose identities`.
///
/// A sidecar joins with a token. The first key that comes with a token is the only one that it admits. A service that is
/// stopped gets no successor, and the list that all sidecars get names what it has.
package struct ServiceIdentities {
  private let authority: CertifiedKey
  private let folder: String
  private let tokens: [String: JoinToken]
  private var record = Record()
  private var list: List?
  /// When it was kept up last: once a second is often enough, however many datagrams come.
  private var keptUp = Int64.min
  /// The last answer to each service, by the question's number: who asks the same again has not got it.
  private var answers: [String: (number: String, bytes: [UInt8])] = [:]
  /// Why services got no certificate, so that it is told once until they get one.
  private var refusals: [String: Set<String>] = [:]

  package static let seconds: Int64 = 3600
  /// How many valid certificates a service may have: two, and two for sidecars that ended before they had theirs.
  private static let mostCertificates = 4
  private static let listDays: Int64 = 1
  private static let authorityDays: Int64 = 3650

  /// The revocation list as all sidecars get it.
  private struct List {
    let pem: String
    let date: Int64
    let revoked: [String]
  }

  /// `folder`: the authority's. It gets its key, and the record of what is valid still.
  package init(in folder: String, tokens: [String: JoinToken]) throws(AuthorityError) {
    self.folder = folder
    self.tokens = tokens
    for path in [folder, "\(folder)/stopped"] where mkdir(path, 0o700) != 0 && errno != EEXIST {
      throw .system("mkdir", path)
    }
    authority = try Self.authority(in: folder)
    record = try Record(in: folder)
  }

  /// What can't be looked at isn't missing: to begin anew would forget who is stopped and which keys have joined.
  fileprivate static func isThere(_ path: String) throws(AuthorityError) -> Bool {
    if access(path, F_OK) == 0 { return true }
    guard errno == ENOENT else { throw .system("access", path) }
    return false
  }

  private static func authority(in folder: String) throws(AuthorityError) -> CertifiedKey {
    let path = "\(folder)/ca.pem"
    let place = MaterialReference(path: path)
    if try isThere(path) {
      do throws(MaterialError) {
        return try CertifiedKey.load(certificate: place, key: place, tokens: TokenRefusals())
      } catch { throw AuthorityError(error) }
    }
    let made: CertifiedKey
    let text: SecretBytes
    do throws(OpenSSLError) {
      made = try CertificateBuilder(
        commonName: "sallyport compose CA", .authority(pathLength: 0), days: authorityDays
      ).selfSigned(key: .generate())
      text = SecretBytes(Array(made.certificate.pem.utf8) + (try made.key.pem).withUnsafeBytes { Array($0) })
    } catch { throw AuthorityError(path, error) }
    var files = IssuedFiles()
    try files.stage(text, as: path, mode: 0o600)
    try files.publish()
    return made
  }

  // MARK: Stopping

  /// 1 to 40 of `a-z 0-9 -`, as for `ComposeService`.
  package static func isName(_ text: some StringProtocol) -> Bool {
    (1...40).contains(text.utf8.count)
      && text.utf8.allSatisfy { (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2D }
  }

  /// Takes a service's identity away, or gives it a new one. The process that keeps the identities does so within a second.
  package static func set(_ name: String, isStopped: Bool, in folder: String) throws(AuthorityError) {
    guard isName(name) else { throw AuthorityError("\"\(name)\" is no name of a service") }
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

  /// Revokes what stopped services have, and forgets what has ended. Returns what it did, in words.
  package mutating func keepUp(at now: Int64) throws(AuthorityError) -> [String] {
    guard now != keptUp else { return [] }
    var told: [String] = []
    var next = record
    next.issued.removeAll { $0.end <= now }
    for name in tokens.keys.sorted() where isStopped(name) {
      for serial in next.revoke(name) { told.append("\(name): stopped, certificate \(serial) is revoked") }
    }
    try keep(next)
    keptUp = now
    return told
  }

  private mutating func keep(_ next: Record) throws(AuthorityError) {
    guard next != record else { return }
    try next.write(in: folder)
    record = next
  }

  // MARK: Answering

  /// Answers the questions of a second, or what is left of it after the last call. Returns what it did, in words.
  package mutating func serve(_ socket: JoinSocket, at now: Int64) throws(AuthorityError) -> [String] {
    var told = try keepUp(at: now)
    if let (question, sender) = socket.receive(within: 1000), let (bytes, more) = try answer(question, at: now) {
      socket.send(bytes, to: sender)
      told += more
    }
    return told
  }

  /// Returns the answer to a sidecar's question, and what it did, in words. Who has no token gets no answer (nil).
  package mutating func answer(
    _ datagram: [UInt8], at now: Int64
  ) throws(AuthorityError) -> (bytes: [UInt8], told: [String])? {
    guard let texts = JoinMessage.open(datagram, .question, tokens), let token = tokens[texts[0]] else { return nil }
    let (name, number, held, request) = (texts[0], texts[1], texts[2], texts[3])
    var told = try keepUp(at: now)
    if let last = answers[name], last.number == number { return (last.bytes, told) }
    var (certificate, refusal) = ("", "")
    if isStopped(name) {
      refusal = "the service is stopped: `sallyport compose start \(name)` gives it a new identity"
    } else {
      switch try admit(name, token, request, at: now, &told) {
      case .failure(let found): refusal = found.words
      case .success(let key):
        if record.issued.contains(where: { $0.serial == held && $0.name == name && $0.isGood(at: now) }) { break }
        if record.issued.count(where: { $0.name == name && !$0.isRevoked }) >= Self.mostCertificates {
          refusal = "the service has \(Self.mostCertificates) certificates of the last hour"
          break
        }
        let made = try make(name, for: key, now)
        var next = record
        next.issued.append(Issued(serial: made.serial, end: now + Self.seconds, name: name, isRevoked: false))
        try keep(next)
        certificate = made.pem
        told.append("\(name): certificate \(made.serial), valid for an hour")
      }
    }
    if !certificate.isEmpty { refusals[name] = nil }
    if !refusal.isEmpty, refusals[name]?.count ?? 0 < 8, refusals[name, default: []].insert(refusal).inserted {
      told.append("\(name) gets no certificate: \(refusal)")
    }
    let answer = [name, number, certificate, authority.certificate.pem, try revocations(at: now), refusal]
    let bytes = JoinMessage.seal(.answer, answer, by: token)
    guard bytes.count <= JoinMessage.mostBytes else {
      throw AuthorityError("the revocation list is too long for an answer", hint: "wait until what it names has ended")
    }
    answers[name] = (number, bytes)
    return (bytes, told)
  }

  private struct Refusal: Error { let words: String }

  /// Returns the key of a request, if it is the token's. A new token's key takes the place of the one before, whose
  /// certificates are revoked.
  private mutating func admit(
    _ name: String, _ token: JoinToken, _ text: String, at now: Int64, _ told: inout [String]
  ) throws(AuthorityError) -> Result<PublicKey, Refusal> {
    guard let der = try? Base64.decode(text), let request = try? der.withUnsafeBytes({ try SigningRequest(der: $0) })
    else {
      return .failure(Refusal(words: "its request is malformed"))
    }
    do throws(AuthorityError) { try RequestedCertificate.check(request) } catch {
      return .failure(Refusal(words: error.message))
    }
    let holder = Holder(token: token.digest, key: Hex.encode(request.publicKey.sha256))
    guard let former = record.holders[name], former != holder else {
      if record.holders[name] == nil { try bind(name, to: holder, &told) }
      return .success(request.publicKey)
    }
    guard former.token != holder.token else {
      return .failure(
        Refusal(
          words: "another key has used its token: if it is a stranger's, run `sallyport compose override` again, "
            + "for new tokens, and `docker compose up`"))
    }
    try bind(name, to: holder, &told)
    return .success(request.publicKey)
  }

  private mutating func bind(_ name: String, to holder: Holder, _ told: inout [String]) throws(AuthorityError) {
    var next = record
    let former = next.holders.updateValue(holder, forKey: name)
    if let former, former.key != holder.key {
      for serial in next.revoke(name) { told.append("\(name): replaced, certificate \(serial) is revoked") }
    }
    try keep(next)
    told.append("\(name): joined with key \(holder.key.prefix(16))")
  }

  private func make(_ name: String, for key: PublicKey, _ now: Int64) throws(AuthorityError) -> Certificate {
    var builder = CertificateBuilder(
      commonName: name, .leaf([.serverAuth, .clientAuth]), names: [.dns(name)], days: 1)
    builder.notBefore = now - 60
    builder.notAfter = now + Self.seconds
    let draft = builder
    do throws(OpenSSLError) { return try draft.signed(by: authority, for: key) } catch {
      throw AuthorityError("the certificate of \(name)", error)
    }
  }

  /// Returns the list; makes one if what it names has changed, or half of its time is over.
  private mutating func revocations(at now: Int64) throws(AuthorityError) -> String {
    let revoked = record.issued.filter(\.isRevoked).map(\.serial)
    if let list, list.revoked == revoked, !Self.isOld(listOf: list.date, at: now) { return list.pem }
    // A list has to have a higher number than the one before, also within a second.
    var clock = timespec()
    clock_gettime(CLOCK_REALTIME, &clock)
    let number = Int(clock.tv_sec) &* 1_000_000 &+ Int(clock.tv_nsec) / 1000
    let entries = revoked.map { RevocationList.Entry(serial: $0, date: now) }
    let builder = RevocationListBuilder(entries: entries, number: number, days: Self.listDays)
    do throws(OpenSSLError) {
      let pem = try builder.pem(signedBy: authority)
      list = List(pem: pem, date: now, revoked: revoked)
      return pem
    } catch { throw AuthorityError("the revocation list", error) }
  }

  /// A list of the future is old, too: the clock was set back, and nobody gets in by such a list.
  static func isOld(listOf date: Int64, at now: Int64) -> Bool {
    let (age, overflow) = now.subtractingReportingOverflow(date)
    return overflow || age < 0 || age > listDays * 43_200
  }

  // MARK: What is valid still

  fileprivate struct Issued: Equatable {
    let serial: String
    let end: Int64
    let name: String
    var isRevoked: Bool

    /// One that ends later than an hour from now isn't valid yet: the clock was set back.
    func isGood(at now: Int64) -> Bool {
      let (left, overflow) = end.subtractingReportingOverflow(now), whole = ServiceIdentities.seconds
      return !isRevoked && !overflow && left > whole / 2 && left <= whole
    }
  }

  /// Which key a token has admitted. Digests of both.
  fileprivate struct Holder: Equatable {
    let token: String
    let key: String
  }

  /// Lines of four words: `SERIAL END NAME STATE`, and `holder NAME TOKEN KEY`.
  fileprivate struct Record: Equatable {
    var issued: [Issued] = []
    var holders: [String: Holder] = [:]
    private static let mostBytes = 1 << 20

    init() {}

    /// Revokes what a service has. Returns the serials.
    mutating func revoke(_ name: String) -> [String] {
      var serials: [String] = []
      for index in issued.indices where issued[index].name == name && !issued[index].isRevoked {
        issued[index].isRevoked = true
        serials.append(issued[index].serial)
      }
      return serials
    }

    private static func path(in folder: String) -> String { "\(folder)/issued" }

    init(in folder: String) throws(AuthorityError) {
      let path = Self.path(in: folder)
      guard try ServiceIdentities.isThere(path) else { return }
      let descriptor = open(path, O_RDONLY | O_CLOEXEC)
      guard descriptor >= 0 else { throw .system("open", path) }
      defer { close(descriptor) }
      var bytes = [UInt8](repeating: 0, count: Self.mostBytes)
      let count = Glibc.read(descriptor, &bytes, bytes.count)
      let hint = "remove it to begin anew, make new tokens by `sallyport compose override`, and stop services again"
      guard count >= 0, count < bytes.count else { throw AuthorityError("\"\(path)\" can't be read whole", hint: hint) }
      for line in String(decoding: bytes[..<count], as: UTF8.self).split(separator: "\n") {
        let words = line.split(separator: " ").map(String.init)
        if words.count == 4, words[0] == "holder" {
          holders[words[1]] = Holder(token: words[2], key: words[3])
        } else if words.count == 4, let end = Int64(words[1]) {
          issued.append(Issued(serial: words[0], end: end, name: words[2], isRevoked: words[3] == "revoked"))
        } else {
          throw AuthorityError("\"\(path)\": \"\(line.prefix(40))\" is no SERIAL END NAME STATE", hint: hint)
        }
      }
    }

    func write(in folder: String) throws(AuthorityError) {
      let lines =
        issued.map { "\($0.serial) \($0.end) \($0.name) \($0.isRevoked ? "revoked" : "valid")\n" }
        + holders.sorted { $0.key < $1.key }.map { "holder \($0.key) \($0.value.token) \($0.value.key)\n" }
      var files = IssuedFiles()
      try files.stage(
        SecretBytes(Array(lines.joined().utf8)), as: Self.path(in: folder), mode: 0o600, replacing: .file)
      try files.publish()
    }
  }
}
