package import Logging

/// nginx's levels (`error_log`), from chatter to catastrophe.
///
/// What they mean is nginx's too: a fault of a client is `info`, of an upstream `error`, of ours `alert` or worse.
public enum LogLevel: UInt8, Sendable, Hashable, Comparable, CaseIterable {
  case debug, info, notice, warn, error, crit, alert, emerg

  @inlinable public static func < (left: LogLevel, right: LogLevel) -> Bool { left.rawValue < right.rawValue }

  /// As `error_log` spells it; nil for any other word.
  public init?(name: some StringProtocol) {
    guard let level = Self.allCases.first(where: { $0.name == name }) else { return nil }
    self = level
  }

  /// As `error_log` and the line spell it.
  public var name: String {
    switch self {
    case .debug: "debug"
    case .info: "info"
    case .notice: "notice"
    case .warn: "warn"
    case .error: "error"
    case .crit: "crit"
    case .alert: "alert"
    case .emerg: "emerg"
    }
  }

  /// RFC 3164 §4.1.1 severity: 7 is debug, 0 is emergency.
  public var syslogSeverity: UInt8 { 7 - rawValue }

  /// The nearest of swift-log's levels; `alert` and `emerg` also travel as metadata, see `severityKey`.
  package var loggerLevel: Logger.Level {
    switch self {
    case .debug: .debug
    case .info: .info
    case .notice: .notice
    case .warn: .warning
    case .error: .error
    case .crit, .alert, .emerg: .critical
    }
  }

  /// Where the name of a level above `crit` stands in an event's metadata, for which swift-log has no level.
  package static let severityKey = "severity"

  /// The level of an event, whoever made it.
  package init(_ event: LogEvent) {
    if case .string(let name)? = event.metadata?[Self.severityKey], let level = LogLevel(name: name) {
      self = level
      return
    }
    self =
      switch event.level {
      case .trace, .debug: .debug
      case .info: .info
      case .notice: .notice
      case .warning: .warn
      case .error: .error
      case .critical: .crit
      }
  }
}
