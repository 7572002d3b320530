public import Observability

/// One `error_log` line.
public struct ErrorLogSettings: Sendable, Hashable {
  public var destination: LogDestination
  public var level: LogLevel
  /// Of the destination; nil for the default.
  @NotCompared public private(set) var location: SourceLocation?
  public init(destination: LogDestination, level: LogLevel, location: SourceLocation? = nil) {
    self.destination = destination
    self.level = level
    self.location = location
  }
}
