import Observability

extension LogLosses {
  /// Logs which logs lose lines, and which take them again.
  func tell(_ log: ErrorLog) {
    for change in changes() {
      switch change {
      case .began(let path, let reason): log.crit("the log \(path) loses lines: \(reason)")
      case .ended(let path, let lines, let seconds, let reason):
        log.crit("the log \(path) takes lines again: \(lines) were lost in \(seconds) s: \(reason)")
      }
    }
  }
}

extension ErrorLog {
  /// Logs what a start or reload has found, without the notices.
  func log(_ diagnostics: [Diagnostic]) {
    for diagnostic in diagnostics where diagnostic.severity != .notice {
      let place = diagnostic.location.map { "\($0): " } ?? ""
      let hint = diagnostic.hint.map { " (\($0))" } ?? ""
      let level: LogLevel = diagnostic.severity == .error ? .emerg : diagnostic.isOutage ? .crit : .warn
      log(level, "\(place)\(diagnostic.message)\(hint)")
    }
  }
}
