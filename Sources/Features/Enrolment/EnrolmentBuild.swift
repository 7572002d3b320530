import Crypto
import Enrolment
import Forward
import Language
import Observability
import Traffic

/// `enrolment`: certificates for who has a password.
extension EnrolmentSettings: ContentFeature {
  static let chapter = Chapter.passwords
  private static let levels = DirectiveContexts.everyHTTP

  /// What lines say, whether or not they are enough for certificates.
  struct Lines: RowSettings {
    var authority: MaterialReference?
    var lifetime: Int64?
    var renewBefore: Int64?
    var strength = Strength.modern
    var maxDevices = 10
    var failures = 10
    var failureTime: Int64 = 60
  }

  private static let enrolment = DirectiveEntry.local(
    "enrolment", .location, .oneOf(["on", "off", "est"]), "off",
    "Whether to issue certificates to users with a password: `on` sends a key with its certificate (POST, JSON), `est` certifies the client's own key by RFC 7030, and renews it for a client that shows its certificate. Not in nginx.",
    example: "enrolment on;")
  private static let authorityRow = Row<Lines>.material(
    "enrolment_authority", levels, \.authority, usage: "DIR", "The folder that `sallyport ca` made. Not in nginx.",
    example: "enrolment_authority ca;")
  static let lifetimeRow = Row<Lines>.line(
    "enrolment_lifetime", levels, .seconds, initial: "365d",
    "How long a certificate is valid, 10m to 365d. Not in nginx.", example: "enrolment_lifetime 24h;"
  ) { $0.lifetime = lifetime($1, &$2) }
  static let renewBeforeRow = Row<Lines>.seconds(
    "enrolment_renew_before", levels, \.renewBefore, initial: "30d, or a third of a shorter lifetime",
    "How long before its end a certificate can be renewed. Not in nginx.", example: "enrolment_renew_before 30d;")

  static let directives = [enrolment] + rows.entries
  private static let rows: [Row<Lines>] = [
    authorityRow, lifetimeRow, renewBeforeRow,
    .choice(
      "enrolment_pkcs12", levels, [.modern, .legacy], \.strength,
      "How to encrypt the PKCS#12; `legacy` uses RC2 and 3DES, for old devices. Not in nginx.",
      example: "enrolment_pkcs12 legacy;"),
    .number(
      "enrolment_max_devices", levels, 1...10_000, \.maxDevices,
      "How many devices of one user can have a valid certificate; a further device gets 403. Not in nginx.",
      example: "enrolment_max_devices 3;"),
    .line(
      "enrolment_failures", levels, .words(1...2, "COUNT [TIME]"), initial: "10 60s",
      "How many wrong passwords of a user or an address are allowed before sallyport responds with 429. Not in nginx.",
      example: "enrolment_failures 5 10m;"
    ) { readFailures($1, &$0, &$2) },
  ]

  /// Whether the level itself issues certificates, and so checks passwords by itself.
  static func isOn(_ scope: Scope) -> Bool {
    line(in: scope).map { ["on", "est"].contains($0.text(0).lowercased()) } ?? false
  }

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> EnrolmentSettings? {
    guard let settings = settings(level, &builder) else { return nil }
    builder.diagnostics += EnrolmentRule.check(level, level.scope, builder.features)
    return settings
  }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    // Without `auth_basic` there are no users, and such a configuration doesn't load.
    let guesses = makers[LiveStores.self].guesses
    parts.content = parts.settings[AuthBasic.self].map { access in
      switch form {
      case .json: PasswordEnrolment(self, realm: access.realm.compiled, guesses)
      case .est: ESTContent(self, realm: access.realm.compiled, guesses)
      }
    }
  }

  var policy: [(label: String, text: String)] {
    let way = form == .est ? ", by EST" : ""
    return [("enrolment", "of \(authority), for users with a password in \(users)\(way)")]
  }

  var ways: LocationWays {
    var ways = LocationWays()
    ways.opens = ["certificates of \(authority) are issued: ways that ask for one of it are open, too"]
    return ways
  }

  func words(_ http: HTTPSettings) -> String { "issues certificates of \(authority)" }

  static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    guard let old, let new else { return }
    if old.authority != new.authority {
      found.other("issues certificates of \(new.authority) (was \(old.authority))")
    }
    if old.form != new.form {
      found.other(
        "issues certificates \(new.form == .est ? "by EST (RFC 7030)" : "with keys of its own making, in PKCS#12")")
    }
    let before = old.lifetime ?? CertificateProfile.clientDays * 86_400
    let after = new.lifetime ?? CertificateProfile.clientDays * 86_400
    if before < after { found.opens("its certificates are valid for \(after) s (was \(before) s)") }
    if before > after { found.closes("its certificates are valid for \(after) s (was \(before) s)") }
    if old.users != new.users { found.other("asks \(new.users) for passwords (was \(old.users))") }
  }
}

extension EnrolmentSettings {
  /// Builds the settings of `enrolment on` in this level itself; nil without it, or when a part of it is missing.
  private static func settings(_ level: Level, _ builder: inout SettingsBuilder) -> EnrolmentSettings? {
    let scope = level.scope
    guard isOn(scope), let line = line(in: scope) else { return nil }
    let lines: Lines = rows.read(scope, &builder)
    if authorityRow.line(in: scope) == nil {
      builder.error(
        line.location, "\"enrolment\" without \"enrolment_authority\": no CA could sign certificates",
        hint: "enrolment_authority DIR; `sallyport ca init DIR` creates one")
    }
    if !AuthBasic.isOn(scope) {
      builder.error(
        line.location, "\"enrolment\" without \"auth_basic\": every client would get a certificate",
        hint: "auth_basic \"…\"; auth_basic_user_file FILE;")
    }
    guard let authority = lines.authority, let access = AuthBasic.read(level, &builder) else { return nil }
    guard let users = access.users else {
      builder.error(
        line.location, "\"enrolment\" with variables in \"auth_basic_user_file\": whom would it enrol?",
        hint: "auth_basic_user_file FILE; without variables")
      return nil
    }
    // A third of the lifetime is left when two thirds are over.
    let renewBefore = min(30 * 86_400, (lines.lifetime ?? CertificateProfile.clientDays * 86_400) / 3)
    return EnrolmentSettings(
      authority: authority, passwords: builder.material(scope.passwordFile), users: users,
      renewBefore: lines.renewBefore ?? renewBefore, strength: lines.strength, maxDevices: lines.maxDevices,
      failures: lines.failures, failureTime: lines.failureTime,
      form: line.text(0).lowercased() == "est" ? .est : .json, lifetime: lines.lifetime)
  }

  private static func lifetime(_ line: Directive, _ builder: inout SettingsBuilder) -> Int64? {
    guard let time = Quantity.seconds(line.text(0)),
      (600...CertificateProfile.clientDays * 86_400).contains(Int64(time))
    else {
      builder.refuse(line, 0, hint: "10m to \(CertificateProfile.clientDays)d, such as 24h")
      return nil
    }
    return Int64(time)
  }

  private static func readFailures(_ line: Directive, _ lines: inout Lines, _ builder: inout SettingsBuilder) {
    if let count = Quantity.number(line.text(0)), (1...1000).contains(count) {
      lines.failures = count
    } else {
      builder.refuse(line, 0, hint: "1 to 1000")
    }
    guard line.arguments.count > 1 else { return }
    if let time = Quantity.seconds(line.text(1)), time > 0 {
      lines.failureTime = Int64(time)
    } else {
      builder.refuse(line, 1, hint: "it must be \(Expected.seconds)")
    }
  }
}
