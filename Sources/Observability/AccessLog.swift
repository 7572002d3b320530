import Bytes

/// How an access log collects lines: `access_log … buffer=SIZE flush=TIME`.
public struct LogBuffering: Sendable, Hashable {
  /// The bytes that a worker collects before it writes.
  public var capacity: Int
  /// The age in milliseconds at which collected lines are written; nil: only a full buffer is (`buffer=` alone, nginx).
  public var flush: Int?

  public init(capacity: Int, flush: Int?) {
    self.capacity = capacity
    self.flush = flush
  }

  /// Without `buffer=`: a system call for each line would cost more than the line itself. At 64 KiB the file's thread,
  /// which is woken for each buffer, took 5 % of the process's CPU time.
  public static let standard = LogBuffering(capacity: 262_144, flush: 1000)
}

/// One `access_log` destination, shared by all workers.
public final class AccessLog: Sendable {
  let sink: LogSink
  let buffering: LogBuffering

  init(_ sink: LogSink, _ buffering: LogBuffering = .standard) {
    self.sink = sink
    self.buffering = buffering
  }

  /// Makes a worker's writer.
  public func makeWriter() -> AccessLogWriter { AccessLogWriter(self) }

  /// The number of lines that were lost since the start.
  public var failedWrites: UInt64 { sink.failedWrites }
}

/// One worker's buffer in front of an access log. It collects lines and hands them to the file's own thread, so that a
/// slow disk or a pipe that nobody reads never makes the worker wait.
///
/// The worker must call `flush` when it reopens logs and before it ends, and `flushIfOld` once a second. A crash loses at
/// most the buffer. Lines to syslog and to the journal are datagrams and are sent at once. Never share a writer between threads.
public final class AccessLogWriter {
  private let log: AccessLog
  private var chunk: LogChunk?
  /// When the first line came into the buffer; nil while it is empty.
  private var filledAt: UInt64?

  init(_ log: AccessLog) { self.log = log }

  deinit { flush() }

  /// Whether the buffer is empty, so that `flush` has nothing to do.
  public var isEmpty: Bool { chunk?.lines.isEmpty ?? true }

  /// The journal, if the log goes there: its entries have fields beside the line, which the caller sends.
  public var journal: JournalSocket? { if case .journal(let socket) = log.sink { socket } else { nil } }

  /// Adds a line, given without its line feed.
  public func append(_ line: UnsafeRawBufferPointer) {
    switch log.sink {
    case .syslog(let socket):
      socket.write(line, severity: socket.settings.severity)
    case .journal(let socket):
      socket.write(line, severity: UInt8(clamping: LogLevel.info.syslogSeverity))
    case .file:
      let capacity = log.buffering.capacity
      if let chunk, !chunk.lines.isEmpty, chunk.lines.count + line.count >= capacity { flush() }
      let chunk = chunk ?? LogChunk(capacity: min(capacity, LogBuffering.standard.capacity))
      self.chunk = chunk
      chunk.lines.append(line)
      chunk.lines.append("\n")
      if chunk.lines.count >= capacity { flush() }
    }
  }

  /// Hands the buffer over if its first line has come at least so long ago as `flush=` says. `now`: milliseconds of one
  /// monotonic clock.
  public func flushIfOld(now: UInt64) {
    guard !isEmpty, let age = log.buffering.flush else { return }
    // The first call that sees the line dates it. With the standard of one second, that call hands it over.
    guard age > 1000 else { return flush() }
    let since = filledAt ?? now
    filledAt = since
    if now &- since >= UInt64(age) { flush() }
  }

  /// Hands the buffer over. Afterwards the buffer is empty, even if its lines are lost.
  public func flush() {
    filledAt = nil
    guard let full = chunk, !full.lines.isEmpty, case .file(let file) = log.sink else { return }
    chunk = nil
    file.send(full)
  }
}

@available(*, unavailable)
extension AccessLogWriter: Sendable {}
