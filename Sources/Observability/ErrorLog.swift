public import Logging

/// Where an error log's lines go, and from which level on: one `error_log` line brought to life.
public struct ErrorLogSink: Sendable {
  public var level: LogLevel
  public var handler: any LogHandler

  public init(level: LogLevel, handler: any LogHandler) {
    self.level = level
    self.handler = handler
  }
}

/// The front door of everything that is told to the operator.
///
/// Why: one comparison decides whether a message is built at all, so a `debug` line costs nothing while nobody asked
/// for it. Behind it stand swift-log handlers, ours or a third party's. It never throws and never stops a caller: a
/// sink that can't write counts what it lost. Messages begin with `*NUMBER ` where they speak of a connection.
public final class ErrorLog: Sendable {
  /// The lowest level that any sink takes.
  public let threshold: LogLevel
  private let sinks: [(level: LogLevel, logger: Logger)]

  public init(_ sinks: [ErrorLogSink]) {
    self.threshold = sinks.map(\.level).min() ?? .emerg
    self.sinks = sinks.map { sink in
      var logger = Logger(label: "sallyport") { _ in sink.handler }
      logger.logLevel = .trace
      return (sink.level, logger)
    }
  }

  /// Whether a message of this level would be written anywhere.
  @inlinable public func takes(_ level: LogLevel) -> Bool { level >= threshold }

  /// Builds and writes the message if a sink takes its level.
  @inlinable public func log(_ level: LogLevel, _ message: @autoclosure () -> String) {
    guard level >= threshold else { return }
    write(level, message())
  }

  @inlinable public func debug(_ message: @autoclosure () -> String) { log(.debug, message()) }
  @inlinable public func info(_ message: @autoclosure () -> String) { log(.info, message()) }
  @inlinable public func notice(_ message: @autoclosure () -> String) { log(.notice, message()) }
  @inlinable public func warn(_ message: @autoclosure () -> String) { log(.warn, message()) }
  @inlinable public func error(_ message: @autoclosure () -> String) { log(.error, message()) }
  @inlinable public func crit(_ message: @autoclosure () -> String) { log(.crit, message()) }
  @inlinable public func alert(_ message: @autoclosure () -> String) { log(.alert, message()) }
  @inlinable public func emerg(_ message: @autoclosure () -> String) { log(.emerg, message()) }

  @usableFromInline func write(_ level: LogLevel, _ message: String) {
    let metadata: Logger.Metadata? = level > .crit ? [LogLevel.severityKey: .string(level.name)] : nil
    for sink in sinks where level >= sink.level {
      sink.logger.log(level: level.loggerLevel, "\(message)", metadata: metadata)
    }
  }
}
