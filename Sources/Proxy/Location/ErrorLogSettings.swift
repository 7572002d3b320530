public import Observability

/// One `error_log` line.
public struct ErrorLogSettings: Sendable, Hashable {
  public var destination: LogDestination
  public var level: LogLevel
  public init(destination: LogDestination, level: LogLevel) {
    self.destination = destination
    self.level = level
  }
}
