import Observability
import Proxy

/// A `log_format`: its escaping and its text.
struct LogFormat {
  var escape: LogEscaping
  var text: Template

  static let combined =
    "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\""
}

extension SettingsBuilder {
  /// Builds the error logs. Without `error_log`, the log goes to `stderr` at level `error` and above.
  mutating func errorLogs(_ scope: Scope) -> [ErrorLogSettings] {
    let lines = scope.list("error_log")
    if lines.isEmpty { return [ErrorLogSettings(destination: .stderr, level: .error)] }
    return lines.compactMap { line in
      var level = LogLevel.error
      if line.arguments.count > 1 {
        guard let named = LogLevel(name: line.text(1)) else {
          error(
            line.place(1), "invalid log level \"\(line.text(1))\"",
            hint: "it must be one of debug, info, notice, warn, error, crit, alert, emerg")
          return nil
        }
        level = named
      }
      return destination(line).map { ErrorLogSettings(destination: $0, level: level) }
    }
  }

  private mutating func destination(_ line: Directive) -> LogDestination? {
    if line.name == "error_log", line.text(0) == "off" {
      warning(
        line.place(0), "\"error_log off\" names a file called \"off\"", hint: "error_log stderr emerg; logs the least")
    }
    guard line.name != "access_log" || line.text(0) != "journal" else {
      error(
        line.place(0), "an access log can't go to the journal", hint: "a file, stderr or syslog:server=unix:/dev/log")
      return nil
    }
    guard !line.text(0).contains("$") else {
      error(line.place(0), "variables in the name of a log are not supported yet", hint: "name one file")
      return nil
    }
    do {
      return try LogDestination(parsing: line.text(0), relativeTo: folder)
    } catch {
      self.error(line.place(0), error.message)
      return nil
    }
  }

  mutating func collectFormats(_ scope: Scope) {
    formats["combined"] = LogFormat(escape: .default, text: template(Word(LogFormat.combined, at: .nowhere)))
    for line in scope.own("log_format") {
      let name = line.text(0)
      guard formats[name] == nil else {
        error(line.place(0), "duplicate \"log_format\" name \"\(name)\"", hint: "use another name")
        continue
      }
      var escape = LogEscaping.default
      var words = line.arguments.dropFirst()
      if let first = words.first, first.text.hasPrefix("escape=") {
        words = words.dropFirst()
        guard let named = LogEscaping(rawValue: String(first.text.dropFirst("escape=".count))) else {
          error(first.location, "unknown log format escaping \"\(first.text)\"", hint: "escape=default, json or none")
          continue
        }
        escape = named
      }
      formats[name] = LogFormat(escape: escape, text: Template(words.flatMap { template($0).parts }))
    }
  }

  /// Builds the access logs. Without `access_log`, there is no access log: no folder for logs exists on every system.
  mutating func accessLogs(_ scope: Scope) -> [AccessLogSettings] {
    let lines = scope.list("access_log")
    if lines.contains(where: { $0.text(0) == "off" }) { return [] }
    return lines.compactMap { accessLog($0) }
  }

  private mutating func accessLog(_ line: Directive) -> AccessLogSettings? {
    var format: LogFormat?
    var condition: Template?
    for word in line.arguments.dropFirst() {
      if word.text.hasPrefix("if=") {
        condition = template(Word(String(word.text.dropFirst(3)), at: word.location))
      } else if word.text.hasPrefix("buffer=") || word.text.hasPrefix("flush=") {
        diagnostics.append(
          Diagnostic(
            .notice, at: word.location,
            "\"\(word.text)\" is taken and has no effect: sallyport always buffers 64k or one second of lines"))
      } else if word.text == "gzip" || word.text.hasPrefix("gzip=") {
        error(word.location, "`access_log … gzip` is nginx's, but not supported here: compress when you rotate")
      } else if let named = formats[word.text] {
        format = named
      } else {
        let nearest = Spelling.nearest(to: word.text, among: formats.keys.sorted())
        error(
          word.location, "unknown log format \"\(word.text)\"",
          hint: nearest.map { "did you mean \"\($0)\"?" } ?? "define it: log_format \(word.text) '…';")
      }
    }
    guard let format = format ?? formats["combined"], let destination = destination(line) else { return nil }
    return AccessLogSettings(
      destination: destination, format: format.text, escape: format.escape, condition: condition)
  }
}

extension SourceLocation {
  /// A placeholder location for sallyport's own text, which is in no file.
  static let nowhere = SourceLocation(file: "", line: 0, column: 0)
}
