import ACME
import Crypto
import Features
import Forward
import Glibc
import Observability
import Synchronization
import TLS
import Traffic

/// One look at a certificate of ACME, and the order of its successor if that is due. Runs on the pool, and blocks.
struct CertificateOrder: Sendable {
  /// What came of it.
  struct Outcome: Sendable {
    var record: RenewalRecord
    /// nil: there is no certificate of these names.
    var notAfter: Int64?
    /// Seconds since 1970: when to look again.
    var lookAt: Int64
    /// There is a new certificate.
    var isNew = false
    /// Why the certificate that serves can't be written; nil: it is on the disk, or there is none.
    var unwritten: String?
  }

  let settings: ACMECertificateSettings
  let shared: SharedState
  /// Runs the program of dns-01.
  let hook: ChallengeHook?
  let log: ErrorLog
  /// An operator asks for a new certificate now.
  let isForced: Bool
  let giveUp: GiveUp
  /// What came of the last look. The disk may not have it.
  let remembered: RenewalRecord?

  /// Whether an order is to be given up: the process ends, or has another configuration.
  final class GiveUp: Sendable {
    private let flag = Atomic(false)
    var isSet: Bool { flag.load(ordering: .relaxed) }
    func set() { flag.store(true, ordering: .relaxed) }
  }

  /// Seconds after which another look is taken at the latest, and after which one is taken while another process orders.
  private static let latestLook: Int64 = 3600
  private static let busyLook: Int64 = 5
  /// Seconds between attempts to write a certificate that is in memory alone.
  private static let writing: Int64 = 5

  private var name: String { settings.fileName }
  private var words: String { "acme_issuer \(settings.issuer.name): \(settings)" }

  func run(at now: Int64) -> Outcome {
    let folder = StateFolder(settings.issuer.stateFolder)
    var record = remembered ?? RenewalRecord()
    do throws(ACMEError) {
      try folder.prepare()
      // Held until the end: two processes that replace one another must not order the same certificate.
      guard let lock = try folder.lock() else {
        return Outcome(
          record: known(in: folder), notAfter: present?.notAfter.seconds, lookAt: now + Self.busyLook,
          unwritten: unwritten)
      }
      defer { _ = lock }
      record = known(in: folder)
      writeUnkept(in: folder)
      let certificate = present
      if let certificate { askForWindow(of: certificate, &record, in: folder, at: now) }
      let due = isForced ? now : due(certificate, record)
      guard due <= now else {
        return Outcome(
          record: record, notAfter: certificate?.notAfter.seconds, lookAt: nextLook(due, at: now), unwritten: unwritten)
      }
      if certificate == nil, let fault {
        log.error(
          "\(words): the certificate in \"\(settings.path)\" is damaged, so a new one is ordered: \(fault.message)")
      }
      return try order(certificate, &record, in: folder, at: now)
    } catch {
      return failed(error, &record, in: folder, at: now)
    }
  }

  /// What is known of the renewal: by the disk, or by memory if the disk could not take it. Another process that orders
  /// here, such as the one that this one replaces, has counted more attempts.
  private func known(in folder: StateFolder) -> RenewalRecord {
    let kept = folder.record(of: name)
    guard let remembered, remembered.attempts >= kept.attempts else { return kept }
    return remembered
  }

  /// The leaf of the certificate that serves, if it has the names and the kind of key that are asked for.
  private var present: Certificate? {
    if let unkept = shared[UnkeptCertificates.self].certificate(at: settings.path) { return unkept.pair.certificate }
    guard access(settings.path, F_OK) == 0 else { return nil }
    return (try? AwaitedCertificate.load(MaterialReference(path: settings.path), shared.tokens))?.certificate
  }

  /// What is wrong with a file that has no certificate; nil: it has one, or there is no file.
  private var fault: MaterialError? {
    guard access(settings.path, F_OK) == 0 else { return nil }
    do throws(MaterialError) {
      _ = try AwaitedCertificate.load(MaterialReference(path: settings.path), shared.tokens)
      return nil
    } catch { return error }
  }

  // MARK: A certificate in memory alone

  private var unwritten: String? {
    shared[UnkeptCertificates.self].certificate(at: settings.path) == nil
      ? nil : "\"\(settings.path)\" can't be written"
  }

  private func writeUnkept(in folder: StateFolder) {
    guard let unkept = shared[UnkeptCertificates.self].certificate(at: settings.path) else { return }
    do throws(ACMEError) {
      try folder.keep(unkept, as: name)
      shared[UnkeptCertificates.self].drop(at: settings.path)
      log.notice("\(words): the certificate is written now")
    } catch {
      log.info("\(words): the certificate is still in memory alone: \(error)")
    }
  }

  private func nextLook(_ due: Int64, at now: Int64) -> Int64 {
    min(due, now + (unwritten == nil ? Self.latestLook : Self.writing))
  }

  /// Seconds since 1970.
  private func due(_ certificate: Certificate?, _ record: RenewalRecord) -> Int64 {
    let earliest = record.failures > 0 ? record.nextTry : 0
    guard let certificate, let begin = certificate.notBefore.seconds, let end = certificate.notAfter.seconds else {
      return earliest
    }
    // The same for each look at this certificate, and another one for each certificate.
    let share = certificate.sha256.prefix(4).reduce(0.0) { ($0 + Double($1)) / 256 }
    if let window = record.window, record.windowOf == certificate.renewalIdentifier {
      return max(
        earliest, min(RenewalTime.within(window, share: share), RenewalTime.latest(notBefore: begin, notAfter: end)))
    }
    return max(earliest, RenewalTime.standard(notBefore: begin, notAfter: end, share: share))
  }

  // MARK: When (RFC 9773)

  /// Asks the server when it would have the certificate renewed, if it is time to ask. Nothing depends on an answer.
  private func askForWindow(
    of certificate: Certificate, _ record: inout RenewalRecord, in folder: StateFolder, at now: Int64
  ) {
    guard let identifier = certificate.renewalIdentifier else { return }
    if record.windowOf != identifier { (record.window, record.windowOf, record.askWindowAt) = (nil, identifier, 0) }
    guard record.askWindowAt <= now else { return }
    record.askWindowAt = now + Self.latestLook
    defer { keep(record, in: folder) }
    do throws(ACMEError) {
      let client = ACMEClient(context: try IssuerMaterial.context(settings.issuer))
      if let window = try RenewalWindow.ask(client, settings.issuer.directory, identifier) {
        record.window = window
        record.askWindowAt = now + window.askAgain
      } else {
        // The server has no such answers: it may have some after an update.
        record.askWindowAt = now + 24 * Self.latestLook
      }
    } catch {
      log.info("\(words): the server does not tell when to renew: \(error)")
    }
  }

  // MARK: The order

  private func order(
    _ old: Certificate?, _ record: inout RenewalRecord, in folder: StateFolder, at now: Int64
  ) throws(ACMEError) -> Outcome {
    let issuer = settings.issuer
    let accountKey = try IssuerMaterial.accountKey(issuer.accountKey, in: folder) { fault in
      log.error("\(words): the key of the account is damaged, so a new account is made: \(fault)")
    }
    var file = try folder.room(for: name)
    let client = ACMEClient(context: try IssuerMaterial.context(issuer))
    let key: PrivateKey
    do throws(OpenSSLError) {
      key = try PrivateKey.generate(settings.key.kind)
    } catch {
      throw ACMEError("OpenSSL makes no key: \(error)", cure: .change)
    }
    var request = IssuanceRequest(
      directory: issuer.directory, names: settings.names, method: issuer.challenge.method, accountKey: accountKey,
      certificateKey: key)
    request.contacts = issuer.contacts
    request.acceptsTerms = issuer.acceptsTerms
    request.externalAccount = try issuer.externalAccount.map { (account) throws(ACMEError) in
      try IssuerMaterial.externalAccount(account)
    }
    request.profile = issuer.profile.map { ($0.name, $0.isRequired) }
    request.preferredChain = issuer.preferredChain
    request.replaces = old?.renewalIdentifier
    request.accountURL = folder.accountURL(at: issuer.directory, of: accountKey)
    log.info("\(words): a certificate is asked for")
    let ending = run(request, with: client)
    for notice in ending.notices { log.notice("\(words): \(notice)") }
    if let url = ending.accountURL, url != request.accountURL {
      // The CA tells it again by the key.
      do throws(ACMEError) { try folder.keep(accountURL: url, at: issuer.directory, of: accountKey) } catch {
        log.info("\(words): the account's URL can't be kept: \(error)")
      }
    }
    let issued = try ending.outcome.get()
    do throws(ACMEError) {
      try folder.keep(issued, in: &file)
      shared[UnkeptCertificates.self].drop(at: settings.path)
    } catch {
      shared[UnkeptCertificates.self].keep(issued, at: settings.path)
      log.error(
        "\(words): the certificate can't be written, so it serves from memory, and a restart orders another one: \(error)"
      )
    }
    let attempts = record.attempts &+ 1
    record = RenewalRecord()
    record.attempts = attempts
    record.attemptedAt = now
    let certificate = issued.pair.certificate
    record.nextTry = due(certificate, record)
    keep(record, in: folder)
    log.notice("\(words): a certificate was issued, valid until \(certificate.notAfterWords)")
    return Outcome(
      record: record, notAfter: certificate.notAfter.seconds, lookAt: nextLook(record.nextTry, at: now),
      isNew: true, unwritten: unwritten)
  }

  private func run(_ request: IssuanceRequest, with client: ACMEClient) -> IssuanceRun.Ending {
    let owner = UInt64.random(in: 0 ... .max)
    let run = IssuanceRun(client) { (answers) throws(ACMEError) in
      try publish(answers, owner)
    } withdraw: {
      withdraw(owner)
    } isGivenUp: { [giveUp] in
      giveUp.isSet
    }
    return run(request)
  }

  private func publish(_ answers: [ChallengeAnswer], _ owner: UInt64) throws(ACMEError) {
    shared[ChallengeTokens.self].add(answers.filter { $0.method == .http01 }, owner: owner)
    var certificates: [(serverName: String, pair: CertifiedKey)] = []
    do {
      for answer in answers where answer.method == .tlsALPN01 {
        certificates.append((answer.identifier.serverName, try answer.certificate()))
      }
      if !certificates.isEmpty { try shared.challengeCertificates.add(certificates, owner: owner) }
    } catch {
      throw ACMEError("OpenSSL makes no certificate for the challenge: \(error)", cure: .change)
    }
    guard case .dns01(let program) = settings.issuer.challenge else { return }
    guard let hook else {
      throw ACMEError("no process runs \(program): it could not be made at the start", hint: "restart", cure: .change)
    }
    for answer in answers {
      if giveUp.isSet { throw ACMEError("the attempt was given up: the process ends or has another configuration") }
      let permission = ChallengeHook.Permission(program: program, name: answer.identifier.description)
      try hook.present(permission, answer.recordText, owner: owner)
      log.info("\(words): \(program) has set the record of \(answer.identifier)")
    }
  }

  private func withdraw(_ owner: UInt64) {
    shared[ChallengeTokens.self].remove(owner: owner)
    shared.challengeCertificates.remove(owner: owner)
    for error in hook?.cleanUp(owner: owner) ?? [] { log.warn("\(words): a record may be left: \(error)") }
  }

  private func failed(
    _ error: ACMEError, _ record: inout RenewalRecord, in folder: StateFolder, at now: Int64
  ) -> Outcome {
    let share = Double.random(in: 0...1)
    if !giveUp.isSet {
      record.failures = min(record.failures, 1000) + 1
      record.attempts &+= 1
      record.attemptedAt = now
      record.lastError = error.description
      record.nextTry = now + RenewalTime.pause(failures: record.failures, retryAfter: error.retryAfter, share: share)
      keep(record, in: folder)
      log.error(
        "\(words): no certificate was issued, the next attempt is in \(record.nextTry - now) s: \(error)")
    }
    return Outcome(
      record: record, notAfter: present?.notAfter.seconds, lookAt: min(record.nextTry, now + Self.latestLook),
      unwritten: unwritten)
  }

  /// Memory has the record too, so that a full disk makes no attempt come earlier.
  private func keep(_ record: RenewalRecord, in folder: StateFolder) {
    do throws(ACMEError) { try folder.keep(record, of: name) } catch {
      log.info("\(words): what is known of the renewal is in memory alone: \(error)")
    }
  }
}
