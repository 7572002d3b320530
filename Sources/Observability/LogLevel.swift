package import Logging

/// nginx's levels (`error_log`), from least to most severe.
///
/// Their meaning is nginx's, too: a client's fault is `info`, an upstream's `error`, and one of the proxy itself
/// `alert` or worse.
public enum LogLevel: UInt8, Sendable, Hashable, Comparable, CaseIterable {
  case debug, info, notice, warn, error, crit, alert, emerg

  @inlinable public static func < (left: LogLevel, right: LogLevel) -> Bool { left.rawValue < right.rawValue }

  /// Parses the spelling of `error_log`; nil for any other word.
  public init?(name: some StringProtocol) {
    guard let level = Self.allCases.first(where: { $0.name == name }) else { return nil }
    self = level
  }

  /// The spelling in `error_log` and in a line.
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

  /// The severity of RFC 3164 §4.1.1: 7 is debug, 0 is emergency.
  public var syslogSeverity: UInt8 { 7 - rawValue }

  /// The nearest of swift-log's levels. Metadata carries `alert` and `emerg` besides, see `severityKey`.
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

  /// The metadata key for the name of a level above `crit`, which swift-log lacks.
  package static let severityKey = "severity"

  /// Reads the level of an event from any source.
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
