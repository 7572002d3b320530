public import Logging
public import Synchronization

/// The destination of an error log's lines and its lowest level: one opened `error_log` directive.
public struct ErrorLogSink: Sendable {
  public var level: LogLevel
  public var handler: any LogHandler

  public init(level: LogLevel, handler: any LogHandler) {
    self.level = level
    self.handler = handler
  }
}

/// Writes every message to the operator.
///
/// One comparison decides whether a message is built at all, so a `debug` line costs nothing while `debug` is off. The
/// sinks are swift-log handlers, sallyport's own or a third party's. Logging never throws and never stops a caller: a
/// sink that can't write counts its losses. Messages about a connection begin with `*NUMBER `.
public final class ErrorLog: Sendable {
  /// The lowest level that `error_log` has any sink accept.
  package let threshold: LogLevel
  /// The raw value of the lowest level that any sink accepts now (`ErrorLogLevels`).
  @usableFromInline let lowest: Atomic<UInt8>
  private let sinks: [(level: LogLevel, logger: Logger)]
  private let errors: RecentErrors?

  /// `errors`: what keeps the lines at `error` or above.
  public init(_ sinks: [ErrorLogSink], errors: RecentErrors? = nil) {
    self.errors = errors
    threshold = sinks.map(\.level).min() ?? .emerg
    lowest = Atomic(threshold.rawValue)
    self.sinks = sinks.map { sink in
      var logger = Logger(label: "sallyport") { _ in sink.handler }
      logger.logLevel = .trace
      return (sink.level, logger)
    }
  }

  /// Whether any sink would write a message of this level.
  @inlinable public func takes(_ level: LogLevel) -> Bool { level.rawValue >= lowest.load(ordering: .relaxed) }

  /// Has the log take a level for a time, or what `error_log` says: nil. Of several sinks, those with the most detailed
  /// level get the lines; one that is for graver lines alone, such as a pager's, stays as it is.
  func lower(to level: LogLevel?) {
    guard !sinks.isEmpty else { return }
    lowest.store(min(threshold, level ?? threshold).rawValue, ordering: .relaxed)
  }

  /// Builds and writes the message if a sink accepts its level.
  @inlinable public func log(_ level: LogLevel, _ message: @autoclosure () -> String) {
    guard takes(level) else { return }
    write(level, message())
  }

  /// The same, with fields for the journal. Other destinations have the message alone.
  @inlinable public func log(
    _ level: LogLevel, fields: @autoclosure () -> [JournalField: String], _ message: @autoclosure () -> String
  ) {
    guard takes(level) else { return }
    write(level, message(), fields())
  }

  @inlinable public func debug(_ message: @autoclosure () -> String) { log(.debug, message()) }
  @inlinable public func info(_ message: @autoclosure () -> String) { log(.info, message()) }
  @inlinable public func notice(_ message: @autoclosure () -> String) { log(.notice, message()) }
  @inlinable public func warn(_ message: @autoclosure () -> String) { log(.warn, message()) }
  @inlinable public func error(_ message: @autoclosure () -> String) { log(.error, message()) }
  @inlinable public func crit(_ message: @autoclosure () -> String) { log(.crit, message()) }
  @inlinable public func alert(_ message: @autoclosure () -> String) { log(.alert, message()) }
  @inlinable public func emerg(_ message: @autoclosure () -> String) { log(.emerg, message()) }

  @usableFromInline func write(
    _ level: LogLevel, _ message: String, _ fields: [JournalField: String] = [:]
  ) {
    if level >= .error { errors?.note(level, message) }
    var metadata: Logger.Metadata? = level > .crit ? [LogLevel.severityKey: .string(level.name)] : nil
    for (field, value) in fields { metadata = (metadata ?? [:]).merging([field.key: .string(value)]) { $1 } }
    for sink in sinks where level >= sink.level || sink.level == threshold {
      sink.logger.log(level: level.loggerLevel, "\(message)", metadata: metadata)
    }
  }
}
