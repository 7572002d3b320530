import Bytes
import Glibc
package import Logging

/// A destination of finished lines.
package enum LogSink: Sendable {
  case file(LogFile)
  case syslog(SyslogSocket)
  case journal(JournalSocket)

  package var failedWrites: UInt64 {
    switch self {
    case .file(let file): file.failedWrites
    case .syslog(let socket): socket.failedWrites
    case .journal(let socket): socket.failedWrites
    }
  }
}

/// The error log's handler for sallyport's own sinks: formats nginx's line and writes it at once.
package struct LineLogHandler: LogHandler {
  package let sink: LogSink
  package var logLevel = Logger.Level.trace
  package var metadata: Logger.Metadata = [:]

  package init(_ sink: LogSink) { self.sink = sink }

  package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  package func log(event: LogEvent) {
    var line = ByteBuffer(capacity: 256)
    ErrorLogLine.append(event.adding(metadata), at: time(nil), to: &line)
    switch sink {
    case .file(let file):
      line.append("\n")
      file.write(line.readable)
    case .syslog(let socket):
      socket.write(line.readable, severity: LogLevel(event))
    case .journal(let socket):
      socket.write(line.readable, severity: UInt8(clamping: LogLevel(event).syslogSeverity))
    }
  }
}
