import Glibc

/// Why a log's destination can't be used: what is wrong, what was expected, what to do.
public struct LogDestinationError: Error, Sendable, Hashable, CustomStringConvertible {
  public var message: String
  public var description: String { message }
  public init(_ message: String) { self.message = message }
}

/// The destination of a log, as `error_log` and `access_log` name it. Only a value: nothing is opened.
public enum LogDestination: Sendable, Hashable {
  case stderr
  /// An absolute path, or one relative to the working directory.
  case file(path: String)
  case syslog(SyslogSettings)
  /// systemd's journal, an addition to nginx's destinations.
  case journal

  /// Parses `stderr`, `journal`, `syslog:server=…` or a path, which is resolved against `folder`.
  public init(parsing text: String, relativeTo folder: String) throws(LogDestinationError) {
    if text == "stderr" {
      self = .stderr
    } else if text == "journal" {
      self = .journal
    } else if text.hasPrefix("syslog:") {
      self = .syslog(try SyslogSettings(parsing: text.dropFirst("syslog:".count)))
    } else if text.hasPrefix("memory:") {
      throw LogDestinationError(
        "\"memory:\" is nginx's, but not supported here: give a file, stderr, syslog:server=… or journal")
    } else if text.isEmpty || text.utf8.contains(0) {
      throw LogDestinationError("no log file of this name can be: give a path, stderr, syslog:server=… or journal")
    } else {
      self = .file(path: text.hasPrefix("/") || folder.isEmpty ? text : "\(folder)/\(text)")
    }
  }
}
