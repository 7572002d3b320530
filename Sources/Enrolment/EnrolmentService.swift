package import Bytes
public import Crypto
import Glibc
import Observability
import Synchronization

/// The settings of a location with `enrolment on`.
public struct EnrolmentSettings: Sendable, Hashable {
  /// The encryption of the PKCS#12 file (`enrolment_pkcs12`).
  public enum Strength: String, Sendable, Hashable { case modern, legacy }

  /// How clients ask.
  public enum Form: Sendable, Hashable {
    /// `enrolment on`: with a pass phrase in JSON, for a PKCS#12.
    case json
    /// `enrolment est`: with a signing request, by RFC 7030.
    case est
  }

  /// The authority's directory.
  public let authority: MaterialReference
  /// Pass phrases for the authority's key.
  public let passwords: MaterialReference?
  /// The password file of the users who may enrol.
  public let users: MaterialReference
  /// A certificate may be renewed this many seconds before it expires.
  public let renewBefore: Int64
  public let strength: Strength
  public let form: Form
  /// Seconds that a certificate is valid (`enrolment_lifetime`); nil for `CertificateProfile.clientDays`.
  public let lifetime: Int64?
  /// The largest number of one user's devices with a valid certificate.
  public let maxDevices: Int
  /// How many wrong passwords are allowed, and within how many seconds.
  public let failures: Int
  public let failureTime: Int64

  public init(
    authority: MaterialReference, passwords: MaterialReference?, users: MaterialReference, renewBefore: Int64,
    strength: Strength, maxDevices: Int, failures: Int, failureTime: Int64, form: Form = .json, lifetime: Int64? = nil
  ) {
    self.authority = authority
    self.passwords = passwords
    self.users = users
    self.renewBefore = renewBefore
    self.strength = strength
    self.form = form
    self.lifetime = lifetime
    self.maxDevices = maxDevices
    self.failures = failures
    self.failureTime = failureTime
  }

  /// Whether a database keeps the register. Opens a folder, so never ask on an event loop.
  package var hasDatabase: Bool { authority.realPath(RegisterDatabase.file).map { access($0, F_OK) == 0 } ?? false }

  package var failureLimit: FailureWindow.Limit { FailureWindow.Limit(count: failures, time: failureTime) }
}

/// The result of a request for a certificate. The strings are for the log.
package enum EnrolmentOutcome: Sendable {
  /// 201, with this JSON.
  case enrolled(SecretBytes, String)
  /// 401.
  case unauthorized(String)
  /// 403: the password is right, but this user can't have a certificate.
  case refused(String)
  /// 403: the user has certificates for as many devices as `enrolment_max_devices` allows, and this is a further
  /// device.
  case tooManyDevices(limit: Int, String)
  /// 400.
  case malformed(String)
  /// 409.
  case conflict(String)
  /// 409 as well: the number of seconds until the certificate can be renewed.
  case early(wait: Int64, String)
  /// 429: the number of seconds to wait.
  case tooMany(wait: Int64, String)
  /// 503: the database that keeps the register can't be reached.
  case unavailable(String)
  /// 500: the server failed.
  case broken(String)

  init(_ error: AuthorityError) {
    self =
      switch error.kind {
      case .unavailable: .unavailable("\(error)")
      case .fault: .broken("\(error)")
      }
  }
}

/// Answers requests for certificates: authenticates the user, checks the request, and issues the certificate.
///
/// Reads and writes files, hashes passwords and makes keys, so never use it on an event loop.
package struct EnrolmentService: Sendable {
  let settings: EnrolmentSettings
  let state: EnrolmentState

  package init(_ settings: EnrolmentSettings, _ state: EnrolmentState) {
    self.settings = settings
    self.state = state
  }

  /// `address`: the client's, by which failures are counted. `now`: seconds since 1970, for certificates. `tick`: seconds of
  /// the monotonic clock, for failures.
  package func answer(
    _ credentials: ShownCredentials, from address: String, body: UnsafeRawBufferPointer,
    at now: Int64 = Int64(time(nil)), _ tick: Int64 = MonotonicClock.seconds
  ) -> EnrolmentOutcome {
    authenticated(credentials, from: address, at: now, tick) { (user, store) throws(AuthorityError) in
      try answer(user, body, store, at: now)
    }
  }

  /// Calls `answer` with the user whose credentials these are, and counts wrong ones.
  func authenticated(
    _ credentials: ShownCredentials, from address: String, at now: Int64, _ tick: Int64,
    _ answer: (User, AuthorityStore) throws(AuthorityError) -> EnrolmentOutcome
  ) -> EnrolmentOutcome {
    var keys = [FailureWindow.Key.address(address)]
    if case .basic(let user, _) = credentials { keys.append(.user(user)) }
    if let wait = state.failures.withLock({ $0.begin(keys, settings.failureLimit, at: tick) }) {
      return .tooMany(wait: wait, "too many wrong passwords of this user or address")
    }
    do throws(AuthorityError) {
      let store = try AuthorityStore(folder(), state)
      guard let user = try user(credentials, store, at: now) else {
        return .unauthorized("wrong password, or no such user or token")
      }
      state.failures.withLock { $0.forgive(keys, at: tick) }
      return try answer(user, store)
    } catch {
      state.failures.withLock { $0.forgive(keys, at: tick) }
      return EnrolmentOutcome(error)
    }
  }

  /// Answers the request of an authenticated user.
  private func answer(
    _ user: User, _ body: UnsafeRawBufferPointer, _ store: AuthorityStore, at now: Int64
  ) throws(AuthorityError) -> EnrolmentOutcome {
    let name: CommonName
    do throws(AuthorityError) { name = try CommonName(bytes: user.name) } catch { return .refused(error.message) }
    let request: EnrolmentRequest
    do throws(EnrolmentRequest.ParseError) { request = try EnrolmentRequest(parsing: body) } catch {
      return .malformed("the request is malformed: \(error)")
    }
    guard user.device == nil || user.device == request.device else {
      return .unauthorized("the token is of another device")
    }
    return try issue(request, to: name, store, at: now)
  }

  private func issue(
    _ request: EnrolmentRequest, to name: CommonName, _ store: AuthorityStore, at now: Int64
  ) throws(AuthorityError) -> EnrolmentOutcome {
    let uri = Self.prefix + request.device
    // Checks before any work is done; the decisive check follows under the register's lock.
    if let refusal = refusal(of: uri, request.device, name, try store.register.held(by: name, at: now), at: now) {
      return refusal
    }
    let authority = try LocalAuthority(store, passwords: passwords())
    let profile = try CertificateProfile(.client, name, names: [.uri(uri)], lifetime: settings.lifetime)
    let issued = try authority.sign(profile, at: now)
    let file = try authority.bundle(
      issued, name: "\(name) \(request.device)", password: request.passphrase,
      strength: settings.strength == .legacy ? .legacy : .modern)
    guard let token = EnrolmentToken() else { throw AuthorityError("the system gives no random bytes") }
    var refusal: EnrolmentOutcome?
    let isRegistered = try store.register.register(
      issued.certificate, signer: authority.signer, token: token.digest
    ) { (holders) throws(AuthorityError) in
      refusal = self.refusal(of: uri, request.device, name, try holders.held(by: name, at: now), at: now)
      return refusal == nil
    }
    guard isRegistered else { return refusal ?? .broken("the certificate was not registered") }
    var body = ByteBuffer(capacity: Base64.encodedCount(file.count) + 160)
    body.append("{\"token\": \"")
    body.append(string: token.text)
    body.append("\", \"certificate\": \"")
    file.withUnsafeBytes { Base64.encode($0, into: &body) }
    body.append("\", \"expires\": \"")
    body.append(string: AuthorityTime.rfc3339(issued.certificate.notAfter))
    body.append("\"}\n")
    let json = SecretBytes(copying: body.readable)
    body.wipe()
    return .enrolled(
      json, "certificate \(issued.certificate.serial) issued to user \"\(name)\", device \"\(request.device)\"")
  }

  /// Returns why this device gets no certificate besides those that its user holds; nil when it may have one.
  func refusal(
    of uri: String, _ device: String, _ name: CommonName, _ held: [HeldCertificate], at now: Int64
  ) -> EnrolmentOutcome? {
    let (renewable, isLate) = now.addingReportingOverflow(settings.renewBefore)
    let own = held.filter { $0.uris?.contains(uri) == true }
    if !isLate, let lasting = own.first(where: { $0.notAfter > renewable }) {
      let words =
        "user \"\(name)\" has a certificate for device \"\(device)\", valid until "
        + "\(AuthorityTime.rfc3339(lasting.notAfter)), serial \(lasting.serial)"
      return settings.form == .est ? .early(wait: lasting.notAfter - renewable, words) : .conflict(words)
    }
    guard own.isEmpty else { return nil }
    // A certificate that can't be read may belong to a device, so it counts as a device.
    let devices = Set(held.flatMap { $0.uris?.filter { $0.hasPrefix(Self.prefix) } ?? [$0.serial] })
    guard devices.count >= settings.maxDevices else { return nil }
    return .tooManyDevices(
      limit: settings.maxDevices,
      "user \"\(name)\" has certificates for \(devices.count) devices, \"\(device)\" is another one; "
        + "\"enrolment_max_devices\" is \(settings.maxDevices)")
  }

  // MARK: Authentication

  static let prefix = "urn:device:"

  struct User {
    let name: [UInt8]
    /// The only device that a token may enrol; nil for a password.
    var device: String?
  }

  /// Authenticates the user. Returns nil when the credentials are wrong or the user no longer exists.
  private func user(
    _ credentials: ShownCredentials, _ store: AuthorityStore, at now: Int64
  ) throws(AuthorityError) -> User? {
    let users = try accounts()
    switch credentials {
    case .basic(let name, let password): return users.admits(name, password) ? User(name: name) : nil
    case .bearer(let token):
      guard let certificate = try store.holder(of: token, at: now) else { return nil }
      let devices = certificate.subjectAltNames.uris.map(\.description).filter { $0.hasPrefix(Self.prefix) }
      // A user who was removed from the file has no password any more, and so no token in its place. A certificate with
      // several users or devices authenticates nobody.
      guard let device = devices.first, devices.count == 1, let name = certificate.subject.commonName.sole,
        users.contains(name)
      else { return nil }
      return User(name: name, device: String(device.dropFirst(Self.prefix.count)))
    }
  }

  func accounts() throws(AuthorityError) -> AccountFile {
    do throws(MaterialError) { return try AccountFile(loading: settings.users) } catch {
      throw AuthorityError(error.message, hint: error.hint)
    }
  }

  func folder() throws(AuthorityError) -> String {
    do throws(MaterialError) { return try settings.authority.resolvedPath(expecting: .anchors) } catch {
      throw AuthorityError(error.message, hint: error.hint)
    }
  }

  func passwords() throws(AuthorityError) -> [SecretBytes] {
    guard let file = settings.passwords else { return [] }
    do throws(MaterialError) { return try PasswordFile.load(file) } catch {
      throw AuthorityError(error.message, hint: error.hint)
    }
  }

  /// Renews the CRL if it is due, and removes the records of expired tokens. Returns the new CRL's expiry if it was
  /// renewed.
  package func keepUp(at now: Int64 = Int64(time(nil))) throws(AuthorityError) -> String? {
    let authority = try LocalAuthority(AuthorityStore(folder(), state), passwords: passwords())
    return try authority.store.keepUp(signer: authority.signer, at: now).map { AuthorityTime.rfc3339($0) }
  }

  /// Brings crl.pem up to what other machines have changed in a database. Returns whether it was behind.
  package func fetchList() throws(AuthorityError) -> Bool { try AuthorityStore(folder(), state).fetchList() }

  /// Throws why it can't issue certificates: for `check`, a start and a reload.
  package func trial() throws(AuthorityError) {
    _ = try LocalAuthority(AuthorityStore(folder(), state), passwords: passwords())
    do throws(MaterialError) { _ = try AccountFile(loading: settings.users) } catch {
      throw AuthorityError(error.message, hint: error.hint)
    }
  }
}
