import Language
import Observability

/// error_log (nginx: ngx_errlog_module): where messages go.
struct ErrorLogs: LocationFeature {
  var lines: [ErrorLogSettings]

  // MARK: Directives

  static let chapter = Chapter.main
  static let kinds: Set<TrafficKind> = [.http, .stream]

  private static let row = DirectiveEntry.list(
    "error_log", [.main, .http, .server, .location, .stream, .streamServer],
    .words(1...2, "FILE | stderr | syslog:… | journal [LEVEL]"),
    "stderr error", "Where the log goes, and from which level on.",
    example: "error_log /var/log/sallyport/error.log notice;", trust: .none)

  static let directives = [row]

  static func begin(_ scope: Scope, _ main: inout MainSettings, _ builder: inout SettingsBuilder) {
    main.errorLogs = lines(scope, &builder)
  }

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> ErrorLogs? {
    ErrorLogs(lines: lines(level.scope, &builder))
  }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.errorLog = makers.errorLog(lines) }

  /// The lines in effect. Without `error_log`, the log goes to `stderr` at level `error` and above.
  fileprivate static func lines(_ scope: Scope, _ builder: inout SettingsBuilder) -> [ErrorLogSettings] {
    let lines = row.lines(in: scope)
    if lines.isEmpty { return [ErrorLogSettings(destination: .stderr, level: .error)] }
    return lines.compactMap { line in
      var level = LogLevel.error
      if line.arguments.count > 1 {
        guard let named = LogLevel(name: line.text(1)) else {
          builder.error(
            line.place(1), "invalid log level \"\(line.text(1))\"",
            hint: "it must be one of debug, info, notice, warn, error, crit, alert, emerg")
          return nil
        }
        level = named
      }
      if line.text(0) == "off" {
        builder.warning(
          line.place(0), "\"error_log off\" names a file called \"off\"",
          hint: "error_log stderr emerg; logs the least")
      }
      return destination(line, &builder).map {
        ErrorLogSettings(destination: $0, level: level, location: line.place(0))
      }
    }
  }

  /// The one log that a line names.
  static func destination(_ line: Directive, _ builder: inout SettingsBuilder) -> LogDestination? {
    guard !line.text(0).contains("$") else {
      builder.error(
        line.place(0), "the name of an \"\(line.name)\" has no variables",
        hint: "name one file; access_log can have variables in the name of a file")
      return nil
    }
    do {
      return try LogDestination(parsing: line.text(0), relativeTo: builder.folder)
    } catch {
      builder.error(line.place(0), error.message)
      return nil
    }
  }

  func fileUses(_ location: LocationSettings) -> [FileUse] {
    lines.compactMap { if case .file(let path) = $0.destination { .path(.append, path) } else { nil } }
  }
}

extension LocationSettings {
  package var errorLogs: [ErrorLogSettings] { self[ErrorLogs.self]?.lines ?? [] }
}
