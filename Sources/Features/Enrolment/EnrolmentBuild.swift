import Crypto
import Enrolment
import Observability
import Language

/// `enrolment`: certificates for who has a password.
extension EnrolmentSettings: ContentFeature {
  static let chapter = Chapter.passwords
  private static let levels = DirectiveContexts.everyHTTP

  static let directives: [DirectiveEntry] = [
    .local(
      "enrolment", .location, .oneOf(["on", "off", "est"]), "off",
      "Whether to issue certificates to users with a password: `on` sends a key with its certificate (POST, JSON), `est` certifies the client's own key by RFC 7030, and renews it for a client that shows its certificate. Not in nginx.",
      example: "enrolment on;"),
    .value(
      "enrolment_authority", levels, .words(1...1, "DIR"), "", "The folder that `sallyport ca` made. Not in nginx.",
      example: "enrolment_authority ca;"),
    .value(
      "enrolment_lifetime", levels, .seconds, "365d",
      "How long a certificate is valid, 10m to 365d. Not in nginx.", example: "enrolment_lifetime 24h;"),
    .value(
      "enrolment_renew_before", levels, .seconds, "30d, or a third of a shorter lifetime",
      "How long before its end a certificate can be renewed. Not in nginx.", example: "enrolment_renew_before 30d;"),
    .value(
      "enrolment_pkcs12", levels, .oneOf(["modern", "legacy"]), "modern",
      "How to encrypt the PKCS#12; `legacy` uses RC2 and 3DES, for old devices. Not in nginx.",
      example: "enrolment_pkcs12 legacy;"),
    .value(
      "enrolment_max_devices", levels, .number(1...10_000), "10",
      "How many devices of one user can have a valid certificate; a further device gets 403. Not in nginx.",
      example: "enrolment_max_devices 3;"),
    .value(
      "enrolment_failures", levels, .words(1...2, "COUNT [TIME]"), "10 60s",
      "How many wrong passwords of a user or an address are allowed before sallyport responds with 429. Not in nginx.",
      example: "enrolment_failures 5 10m;"),
  ]

  static func line(in scope: Scope) -> Directive? { scope.own("enrolment").first }

  /// Whether the level itself issues certificates, and so checks passwords by itself.
  static func isOn(_ scope: Scope) -> Bool {
    line(in: scope).map { ["on", "est"].contains($0.text(0).lowercased()) } ?? false
  }

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> EnrolmentSettings? {
    guard let settings = builder.enrolment(level) else { return nil }
    builder.diagnostics += EnrolmentRule.check(level, level.scope, builder.features)
    return settings
  }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    // Without `auth_basic` there are no users, and such a configuration doesn't load.
    let guesses = makers[LiveStores.self].guesses
    parts.content = parts.settings[AuthBasic.self].map { access in
      switch form {
      case .json: EnrolmentContent(self, realm: access.realm.compiled, guesses)
      case .est: ESTContent(self, realm: access.realm.compiled, guesses)
      }
    }
  }

  var policy: [(label: String, text: String)] {
    let way = form == .est ? ", by EST" : ""
    return [("enrolment", "of \(authority), for users with a password in \(users)\(way)")]
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

extension SettingsBuilder {
  /// Builds the settings of `enrolment on` in this level itself; nil without it, or when a part of it is missing.
  mutating func enrolment(_ level: Level) -> EnrolmentSettings? {
    let scope = level.scope
    guard EnrolmentSettings.isOn(scope), let line = EnrolmentSettings.line(in: scope) else { return nil }
    let authority = material(scope.value("enrolment_authority"))
    if scope.value("enrolment_authority") == nil {
      error(
        line.location, "\"enrolment\" without \"enrolment_authority\": no CA could sign certificates",
        hint: "enrolment_authority DIR; `sallyport ca init DIR` creates one")
    }
    if !AuthBasic.isOn(scope) {
      error(
        line.location, "\"enrolment\" without \"auth_basic\": every client would get a certificate",
        hint: "auth_basic \"…\"; auth_basic_user_file FILE;")
    }
    let failures = failureLimit(scope)
    guard let authority, let access = AuthBasic.read(level, &self) else { return nil }
    guard let users = access.users else {
      error(
        line.location, "\"enrolment\" with variables in \"auth_basic_user_file\": whom would it enrol?",
        hint: "auth_basic_user_file FILE; without variables")
      return nil
    }
    let lifetime = lifetime(scope)
    // A third of the lifetime is left when two thirds are over.
    let renewBefore = min(30 * 86_400, (lifetime ?? CertificateProfile.clientDays * 86_400) / 3)
    return EnrolmentSettings(
      authority: authority, passwords: material(scope.passwordFile), users: users,
      renewBefore: scope.seconds("enrolment_renew_before").map { Int64($0) } ?? renewBefore,
      strength: scope.text("enrolment_pkcs12")
        .flatMap { EnrolmentSettings.Strength(rawValue: $0.lowercased()) } ?? .modern,
      maxDevices: scope.number("enrolment_max_devices") ?? 10, failures: failures.count, failureTime: failures.time,
      form: line.text(0).lowercased() == "est" ? .est : .json, lifetime: lifetime)
  }

  private mutating func lifetime(_ scope: Scope) -> Int64? {
    guard let line = scope.value("enrolment_lifetime") else { return nil }
    guard let time = Quantity.seconds(line.text(0)),
      (600...CertificateProfile.clientDays * 86_400).contains(Int64(time))
    else {
      error(
        line.place(0), "invalid value \"\(line.text(0))\" in \"enrolment_lifetime\" directive",
        hint: "10m to \(CertificateProfile.clientDays)d, such as 24h")
      return nil
    }
    return Int64(time)
  }

  private mutating func failureLimit(_ scope: Scope) -> (count: Int, time: Int64) {
    var limit: (count: Int, time: Int64) = (10, 60)
    guard let line = scope.value("enrolment_failures") else { return limit }
    if let count = Quantity.number(line.text(0)), (1...1000).contains(count) {
      limit.count = count
    } else {
      error(
        line.place(0), "invalid value \"\(line.text(0))\" in \"enrolment_failures\" directive", hint: "1 to 1000")
    }
    guard line.arguments.count > 1 else { return limit }
    if let time = Quantity.seconds(line.text(1)), time > 0 {
      limit.time = Int64(time)
    } else {
      error(
        line.place(1), "invalid value \"\(line.text(1))\" in \"enrolment_failures\" directive",
        hint: "it must be \(Expected.seconds)")
    }
    return limit
  }
}
