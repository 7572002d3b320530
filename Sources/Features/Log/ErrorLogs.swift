import Forward
import Language
import Observability
package import Traffic

/// error_log (nginx: ngx_errlog_module): where messages go.
struct ErrorLogs: FeatureSettings, LocationFeature {
  var lines = [ErrorLogSettings(destination: .stderr, level: .error)]

  // MARK: Directives

  static let chapter = Chapter.main
  static let kinds: Set<TrafficKind> = [.http, .stream]

  static let rows: [Row<ErrorLogs>] = [
    .lines(
      "error_log", [.main, .http, .server, .location, .stream, .streamServer],
      .words(1...2, "FILE | stderr | syslog:… | journal [LEVEL]"), initial: "stderr error",
      "Where the log goes, and from which level on.", example: "error_log /var/log/sallyport/error.log notice;",
      trust: .none
    ) { logs, lines, builder in logs.lines = lines.compactMap { log($0, &builder) } }
  ]

  static func begin(_ scope: Scope, _ main: inout MainSettings, _ builder: inout SettingsBuilder) {
    main.errorLogs = ErrorLogs(scope, &builder).lines
  }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.errorLog = makers.errorLog(lines) }

  private static func log(_ line: Directive, _ builder: inout SettingsBuilder) -> ErrorLogSettings? {
    guard let level = line.arguments.count > 1 ? LogLevel(name: line.text(1)) : .error else {
      builder.error(
        line.place(1), "invalid log level \"\(line.text(1))\"",
        hint: "it must be one of debug, info, notice, warn, error, crit, alert, emerg")
      return nil
    }
    if line.text(0) == "off" {
      builder.warning(
        line.place(0), "\"error_log off\" names a file called \"off\"", hint: "error_log stderr emerg; logs the least")
    }
    return destination(line, &builder).map { ErrorLogSettings(destination: $0, level: level, location: line.place(0)) }
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
