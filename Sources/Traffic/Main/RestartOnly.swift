package import Observability

/// Settings of the main context that take effect only at a start.
package enum RestartOnly {
  /// Returns a warning for each of these settings that differs.
  package static func differences(from old: MainSettings, to new: MainSettings) -> [Diagnostic] {
    let changed: [(name: String, differs: Bool)] = [
      ("worker_processes", old.workers != new.workers),
      ("worker_connections", old.workerConnections != new.workerConnections),
      ("worker_rlimit_nofile", old.openFiles != new.openFiles),
      ("worker_rlimit_core", old.coreSize != new.coreSize),
      ("user", old.servingUser != new.servingUser || old.group != new.group),
      ("sandbox", old.sandbox != new.sandbox),
      ("pid", old.pidFile != new.pidFile),
    ]
    return changed.filter(\.differs).map {
      Diagnostic(.warning, at: nil, "\($0.name) is taken at start: restart to change it")
    }
  }
}
