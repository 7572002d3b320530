import Bytes

/// One `access_log` destination, shared by all workers.
public final class AccessLog: Sendable {
  let sink: LogSink

  init(_ sink: LogSink) { self.sink = sink }

  /// A worker's way in.
  public func makeWriter() -> AccessLogWriter { AccessLogWriter(self) }

  /// Writes that were lost, since the start.
  public var failedWrites: UInt64 { sink.failedWrites }
}

/// One worker's buffer in front of an access log: lines gather and leave in one write(2).
///
/// Why: a system call a line is dearer than the line. Its worker must call `flush` when it has nothing else to do and
/// before it ends; at most `capacity` bytes are ever lost with a crash. Lines to syslog are datagrams and leave at once.
/// Never shared between threads.
public final class AccessLogWriter {
  /// Bytes that may wait.
  public static let capacity = 65_536

  private let log: AccessLog
  private var lines: ByteBuffer

  init(_ log: AccessLog) {
    self.log = log
    self.lines = ByteBuffer()
  }

  deinit { flush() }

  /// Whether `flush` has something to do.
  public var isEmpty: Bool { lines.isEmpty }

  /// Takes a line without its line feed.
  public func append(_ line: UnsafeRawBufferPointer) {
    switch log.sink {
    case .syslog(let socket):
      socket.write(line, severity: socket.settings.severity)
    case .file:
      if lines.count + line.count >= Self.capacity { flush() }
      if lines.storageSize == 0 { lines.reserve(Self.capacity) }
      lines.append(line)
      lines.append("\n")
      if lines.count >= Self.capacity { flush() }
    }
  }

  /// Writes what waits. Whatever the system says, nothing waits afterwards.
  public func flush() {
    guard !lines.isEmpty, case .file(let file) = log.sink else { return }
    file.write(lines.readable)
    // A line longer than the whole buffer made it grow.
    if lines.storageSize > Self.capacity { lines.release() } else { lines.removeAll() }
  }
}

@available(*, unavailable)
extension AccessLogWriter: Sendable {}
