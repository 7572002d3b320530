import Audit
import Bytes
import Crypto
import Language
import Observability
import Traffic

/// audit_log, which nginx does not have: who was let in and who was refused, as lines that nobody can change, remove or insert
/// without a trace.
///
/// The folder is the whole feature: the directive and what it sets here, what is told of clients in `AuditWatch`, and the
/// writing in `AuditWriter`. The lines and their check are values of the module Audit; `sallyport audit verify` has the same
/// check.
struct AuditLog: LocationFeature {
  let settings: AuditSettings

  /// What all lines of `http` and `stream` come to, by the path of the file.
  struct Files: BlockPart {
    var all: [String: AuditSettings] = [:]
    /// The SHA-256 of the directives; empty without such a line.
    var digest: [UInt8] = []
  }

  // MARK: Directives

  static let chapter = Chapter.http
  static let kinds: Set<TrafficKind> = [.http, .stream]

  private static let line = DirectiveEntry.value(
    "audit_log", DirectiveContexts([.http, .server]).union(.everyStream),
    .words(1...4, "FILE [key=FILE] [every=TIME] [required] | off"), "off",
    "A file with a JSON line for each handshake that let a client in, each refusal, each revocation, each reload, change by the API, start and stop, with its reason. Each line has the SHA-256 of the one before. `key`: an Ed25519 key that signs the chain `every` so often (60s), at a rotation and at the end. Without room for a line, its loss is told in the log; with `required`, the client's connection is closed instead. `sallyport audit verify` checks the file.",
    example: "audit_log /var/log/sallyport/audit.log key=audit.key every=30s;", trust: .none)

  static let directives = [line]
  static let sharedParts: [any SharedPart.Type] = [AuditLogs.self]

  static func begin(_ scope: Scope, _ main: inout MainSettings, _ builder: inout SettingsBuilder) {
    guard names(line.name, in: scope.directives) else { return }
    var text = ByteBuffer()
    append(scope.directives, to: &text)
    builder[Files.self].digest = Digest.of(Array(text.readable))
  }

  private static func names(_ name: String, in lines: [Directive]) -> Bool {
    lines.contains { $0.name == name || names(name, in: $0.block ?? []) }
  }

  /// Every directive with its words, whatever the file's blanks and comments are.
  private static func append(_ lines: [Directive], to text: inout ByteBuffer) {
    for line in lines {
      text.append(string: line.name)
      for word in line.arguments { text.append(string: "\u{1}\(word.text)") }
      guard let block = line.block else {
        text.append(string: ";\n")
        continue
      }
      text.append(string: "{\n")
      append(block, to: &text)
      text.append(string: "}\n")
    }
  }

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> AuditLog? {
    switch level {
    case .server, .streamServer: break
    case .location, .conditional: return nil
    }
    guard let line = line.line(in: level.scope), line.text(0) != "off" || line.arguments.count > 1 else { return nil }
    guard let settings = AuditSettings.read(line, &builder) else { return nil }
    if let other = builder[Files.self].all[settings.path], other != settings {
      builder.error(
        line.location, "\"\(line.name)\" of \"\(settings.path)\" says something else than another line of this file",
        hint: "one file has one key and one time: write the same line, or another file")
    }
    builder[Files.self].all[settings.path] = settings
    return AuditLog(settings: settings)
  }

  static func logFiles(_ http: HTTPSettings) -> [(path: String, location: SourceLocation?)] {
    http[Files.self].all.values.sorted { $0.path < $1.path }.map { ($0.path, $0.location) }
  }

  static func fileUses(_ http: HTTPSettings) -> [FileUse] {
    http[Files.self].all.values.sorted { $0.path < $1.path }.flatMap { settings in
      [.path(.append, settings.path, at: settings.location)] + FileUse.material([settings.key])
    }
  }

  // MARK: Loading

  /// The keys, by the path of the log.
  struct Keys: GenerationPart {
    var byPath: [String: SignatureKey] = [:]
  }

  private struct KeyUnit: MaterialUnit {
    typealias Content = SignatureKey
    let file: MaterialReference
  }

  static func load(
    _ http: HTTPSettings, _ shared: SharedState, _ loader: inout MaterialLoader, _ parts: inout GenerationParts
  ) {
    for settings in http[Files.self].all.values.sorted(by: { $0.path < $1.path }) {
      if let fault = AuditFile.faultOfContinuing(settings.path) {
        loader.report(
          Diagnostic(
            .error, at: settings.location, "the audit log can't go on in \"\(settings.path)\": \(fault)",
            hint: "move the file away, or name another one: a chain goes on behind its own lines only"))
      }
      guard let file = settings.key else { continue }
      let key = loader.unit(KeyUnit(file: file), UnitFiles(.signingKey, file)) { loader in
        loader.attempt { () throws(MaterialError) in try SignatureKey.load(file, .ed25519, to: .sign) }
      }
      if let key { parts[Keys.self].byPath[settings.path] = key }
    }
  }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    guard parts.isOfServer else { return }
    parts.watches.append(AuditWatch(settings, makers.shared[AuditLogs.self].writer(of: settings.path)))
  }

  func clientPolicy(of server: ServerSettings) -> [(label: String, text: String)] {
    let signing = settings.key.map { ", signed by \($0) each \(settings.every / 1000) s" } ?? ", not signed"
    let without = settings.isRequired ? "; without a line, nobody gets in" : ""
    return [("audit", "\(settings.path)\(signing)\(without)")]
  }
}

/// One line `audit_log`.
struct AuditSettings: Sendable, Hashable {
  let path: String
  /// nil: the chain isn't signed.
  var key: MaterialReference?
  /// Milliseconds.
  var every = 60_000
  /// A client whose line finds no room doesn't get in.
  var isRequired = false
  @NotCompared var location: SourceLocation?

  static func read(_ line: Directive, _ builder: inout SettingsBuilder) -> AuditSettings? {
    guard !line.text(0).isEmpty, !line.hasVariables else {
      builder.error(
        line.place(0), "\"\(line.name)\" takes the name of a file, without variables", hint: "audit_log audit.log;")
      return nil
    }
    var settings = AuditSettings(path: resolve(line.text(0), in: builder.folder), location: line.location)
    for word in line.arguments.dropFirst() {
      switch word.text.splitAtEquals {
      case ("key", let file?) where !file.isEmpty:
        do throws(MaterialError) {
          settings.key = try MaterialReference(parsing: file, relativeTo: builder.folder, location: word.location)
        } catch {
          builder.diagnostics.append(error.diagnostic)
          return nil
        }
      case ("every", let time?):
        guard let time = Quantity.milliseconds(time), (1000...86_400_000).contains(time) else {
          builder.error(word.location, "invalid time \"\(word.text)\"", hint: "every=1s to every=24h")
          return nil
        }
        settings.every = time
      case ("required", nil): settings.isRequired = true
      default:
        builder.refuse(word, hint: "key=FILE, every=TIME and required")
        return nil
      }
    }
    return settings
  }
}
