package import Crypto
import Enrolment
import Forward
package import Language
import Observability
package import Traffic

/// auth_basic (nginx: ngx_http_auth_basic_module): who has no password in the file doesn't get in.
///
/// The folder is the whole feature: the directives and what they set here, what happens to a request in `PasswordAccess`,
/// and `AuthDelay`, which makes guessing slow.
package struct AuthBasic: LocationFeature {
  /// Where the users are.
  package enum Users: Sendable, Hashable {
    case file(MaterialReference)
    /// A path with variables, relative to `folder` if it doesn't begin with a slash.
    case named(Template, folder: String)
  }

  package let realm: Template
  /// Read with each request, as nginx does.
  package let source: Users
  /// Whether variables name the file, so that nothing says that a request gets to it: it may be missing.
  let mayBeMissing: Bool
  /// Whether the content of the location checks passwords itself.
  let isForContent: Bool

  /// The file; nil if requests name it.
  package var users: MaterialReference? { if case .file(let users) = source { users } else { nil } }

  // MARK: Directives

  package var asksPasswords: Bool { true }

  package static let chapter = Chapter.passwords
  private static let levels = DirectiveContexts.everyHTTP

  static let realmLine = DirectiveEntry.value(
    "auth_basic", levels.union(.limitExcept), .words(1...1, "REALM | off"), "off",
    "Asks clients for a user name and a password.", example: "auth_basic \"Administrators\";", trust: .told)
  private static let fileLine = DirectiveEntry.value(
    "auth_basic_user_file", levels.union(.limitExcept), .words(1...1, "FILE"), "",
    "A file with one `USER:HASH` on each line: crypt(3), bcrypt, `$apr1$`, `{SHA}`, `{SSHA}`. sallyport reads it for each request.",
    example: "auth_basic_user_file htpasswd;", trust: .told)

  package static let directives = [realmLine, fileLine]

  /// Whether a password is asked for at a level.
  static func isOn(_ scope: Scope) -> Bool { realmLine.line(in: scope).map { $0.text(0) != "off" } ?? false }

  package static func read(_ level: Level, _ builder: inout SettingsBuilder) -> AuthBasic? {
    let scope = level.scope
    guard isOn(scope), let line = realmLine.line(in: scope) else { return nil }
    guard let file = fileLine.line(in: scope) else {
      builder.error(
        line.location, "\"auth_basic\" without \"auth_basic_user_file\": no client could log in",
        hint: "auth_basic_user_file FILE; with one USER:HASH on each line")
      return nil
    }
    let realm = builder.template(line, 0), isForContent = EnrolmentSettings.isOn(scope)
    guard file.text(0).contains("$") else {
      return builder.material(file).map {
        AuthBasic(realm: realm, source: .file($0), mayBeMissing: false, isForContent: isForContent)
      }
    }
    guard let path = builder.pathBelowFolder(builder.template(file, 0), at: level) else {
      builder.error(
        file.location, "\"auth_basic_user_file\" begins with a variable: a client could name any file",
        hint: "begin with a folder: auth_basic_user_file users/\(file.text(0));")
      return nil
    }
    if let constant = path.constant, !constant.isEmpty {
      let word = Word(String(decoding: constant, as: UTF8.self), at: file.place(0))
      return builder.reference(file, word, isKey: false).map {
        AuthBasic(realm: realm, source: .file($0), mayBeMissing: true, isForContent: isForContent)
      }
    }
    return AuthBasic(
      realm: realm, source: .named(path, folder: builder.folder), mayBeMissing: true, isForContent: isForContent)
  }

  // MARK: Effect

  package func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    if isForContent { return }
    parts.steps.access.append(
      PasswordAccess(self, limits: makers.generation[GuessLimits.self].limits, makers[LiveStores.self].guesses))
  }

  package static func guardingLine(_ scope: Scope) -> GuardingLine? {
    GuardingLine(scope, unlessOff: realmLine.name, act: "asks for a password")
  }

  package var guardingDirective: String? { Self.realmLine.name }

  package var entryRule: EntryRule? { isForContent ? nil : EntryRule(text: "auth_basic \(source.asWritten)") }

  package var ways: LocationWays {
    LocationWays(conditions: [
      AccessCondition(
        asking: .password, isForContent ? .content : .access, "a user name and password of \(source.asWritten)")
    ])
  }

  package var policy: [(label: String, text: String)] {
    if isForContent { return [] }
    return [("password", users.map { "of \($0)" } ?? "of the file that the request names")]
  }

  package static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    found.flag(
      old == nil, new == nil, opens: "no password is asked for any more",
      closes: "a password is asked for (auth_basic)")
    if let before = old?.source, let after = new?.source, before != after {
      found.other("passwords are those of \(after.asWritten) (were those of \(before.asWritten))")
    }
  }

  package func fileUses(_ location: LocationSettings) -> [FileUse] {
    switch source {
    case .file(let users): FileUse.requestFiles([users])
    case .named(let path, let folder): [FileUse.folder(before: path, in: folder)].compactMap { $0 }
    }
  }

  /// Reads each file once: requests read it again each time, and a fault must show before the first request. A file that
  /// variables name may be missing, as in nginx: a request that needs it then gets 403.
  package static func load(
    _ http: HTTPSettings, _ shared: SharedState, _ loader: inout MaterialLoader, _ parts: inout GenerationParts
  ) {
    http.visitLocations { location in
      guard let settings = location[AuthBasic.self], let users = settings.users else { return }
      loader.tryUnit(.accounts, users) { loader in
        if settings.mayBeMissing, users.isMissing {
          return loader.report(
            Diagnostic(
              .warning, at: users.location, "\"\(users)\" doesn't exist: who is asked for its passwords gets 403",
              hint: "make it with htpasswd; where auth_basic is off, nobody needs it"))
        }
        do throws(MaterialError) { _ = try AccountFile(loading: users) } catch { loader.report(error.diagnostic) }
      }
    }
  }
}

extension AuthBasic.Users {
  fileprivate var asWritten: String {
    switch self {
    case .file(let file): "\(file)"
    case .named(let path, _): path.asWritten
    }
  }
}
