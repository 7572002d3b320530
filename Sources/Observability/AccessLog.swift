import Bytes

/// One `access_log` destination, shared by all workers.
public final class AccessLog: Sendable {
  let sink: LogSink

  init(_ sink: LogSink) { self.sink = sink }

  /// Makes a worker's writer.
  public func makeWriter() -> AccessLogWriter { AccessLogWriter(self) }

  /// The number of writes that were lost since the start.
  public var failedWrites: UInt64 { sink.failedWrites }
}

/// One worker's buffer in front of an access log. It collects lines and writes them with one write(2).
///
/// A system call for each line would cost more than the line itself. The worker must call `flush` when it is idle and
/// before it ends. A crash loses at most `capacity` bytes. Lines to syslog are datagrams and are sent at once. Never
/// share a writer between threads.
public final class AccessLogWriter {
  /// The largest number of bytes in the buffer.
  public static let capacity = 65_536

  private let log: AccessLog
  private var lines: ByteBuffer

  init(_ log: AccessLog) {
    self.log = log
    self.lines = ByteBuffer()
  }

  deinit { flush() }

  /// Whether the buffer is empty, so that `flush` has nothing to do.
  public var isEmpty: Bool { lines.isEmpty }

  /// Adds a line, given without its line feed.
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

  /// Writes the buffer. Afterwards the buffer is empty, even if the write failed.
  public func flush() {
    guard !lines.isEmpty, case .file(let file) = log.sink else { return }
    file.write(lines.readable)
    // A line longer than the whole buffer had made it grow.
    if lines.storageSize > Self.capacity { lines.release() } else { lines.removeAll() }
  }
}

@available(*, unavailable)
extension AccessLogWriter: Sendable {}
