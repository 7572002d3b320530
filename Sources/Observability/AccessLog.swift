import Bytes

/// How an access log collects lines: `access_log … buffer=SIZE flush=TIME`.
public struct LogBuffering: Sendable, Hashable {
  /// The bytes that a worker collects before it writes.
  public var capacity: Int
  /// The age in milliseconds at which collected lines are written; nil: only a full buffer is (`buffer=` alone, nginx).
  public var flush: Int?
  /// The level at which gzip compresses each buffer, 1 to 9 (`gzip=LEVEL`); nil: the lines are written as they are.
  public var gzipLevel: Int?

  public init(capacity: Int, flush: Int?, gzipLevel: Int? = nil) {
    self.capacity = capacity
    self.flush = flush
    self.gzipLevel = gzipLevel
  }

  /// Without `buffer=`: a system call for each line would cost more than the line itself. At 64 KiB the file's thread,
  /// which is woken for each buffer, took 5 % of the process's CPU time.
  public static let standard = LogBuffering(capacity: 262_144, flush: 1000)
}

/// Makes one gzip member of lines; nil if that fails. The level is 1 to 9.
public typealias LogCompressor = @Sendable (_ lines: UnsafeRawBufferPointer, _ level: Int) -> [UInt8]?

/// One `access_log` destination, shared by all workers.
public final class AccessLog: Sendable {
  enum Sink: Sendable {
    case one(LogSink)
    case folder(LogFolder)
  }

  let sink: Sink
  let buffering: LogBuffering
  /// nil: lines are written as they are.
  let compression: LogFile.Compression?

  init(_ sink: Sink, _ buffering: LogBuffering = .standard, compression: LogFile.Compression? = nil) {
    self.sink = sink
    self.buffering = buffering
    self.compression = compression
  }

  /// Makes a worker's writer.
  public func makeWriter() -> AccessLogWriter { AccessLogWriter(self) }

  /// The number of lines that were lost since the start.
  public var failedWrites: UInt64 {
    switch sink {
    case .one(let sink): sink.failedWrites
    case .folder(let folder): folder.failedWrites
    }
  }
}

/// One worker's buffer in front of an access log. It collects lines and hands them to the file's own thread, so that a
/// slow disk or a pipe that nobody reads never makes the worker wait.
///
/// The worker must call `flush` when it reopens logs and before it ends, and `flushIfOld` once a second. A crash loses at
/// most the buffer. Lines to syslog and to the journal are datagrams and are sent at once. Never share a writer between threads.
public final class AccessLogWriter {
  private let log: AccessLog
  private var chunk: LogChunk?
  /// The same for files that requests name.
  private var named: NamedLogLines?
  /// When the first line came into the buffer; nil while it is empty.
  private var filledAt: UInt64?

  init(_ log: AccessLog) { self.log = log }

  deinit { flush() }

  /// Whether the buffer is empty, so that `flush` has nothing to do.
  public var isEmpty: Bool { (chunk?.lines.isEmpty ?? true) && named == nil }

  /// The journal, if the log goes there: its entries have fields beside the line, which the caller sends.
  public var journal: JournalSocket? { if case .one(.journal(let socket)) = log.sink { socket } else { nil } }

  /// Adds a line, given without its line feed.
  public func append(_ line: UnsafeRawBufferPointer) {
    switch log.sink {
    case .one(.syslog(let socket)):
      socket.write(line, severity: socket.settings.severity)
    case .one(.journal(let socket)):
      socket.write(line, severity: UInt8(clamping: LogLevel.info.syslogSeverity))
    // Such a line has the name of its file beside it.
    case .folder: break
    case .one(.file):
      let capacity = log.buffering.capacity
      if let chunk, !chunk.lines.isEmpty, chunk.lines.count + line.count >= capacity { flush() }
      let chunk = chunk ?? LogChunk(capacity: min(capacity, LogBuffering.standard.capacity))
      self.chunk = chunk
      chunk.lines.append(line)
      chunk.lines.append("\n")
      if chunk.lines.count >= capacity { flush() }
    }
  }

  /// Adds a line, given without its line feed, for a file whose name `LogFileName` admits.
  public func append(_ line: UnsafeRawBufferPointer, to name: UnsafeRawBufferPointer) {
    guard case .folder = log.sink else { return }
    let lines = named ?? NamedLogLines()
    named = lines
    lines.append(name, line)
    if lines.count >= log.buffering.capacity { flush() }
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
    switch log.sink {
    case .one(.file(let file)):
      guard let full = chunk, !full.lines.isEmpty else { return }
      chunk = nil
      file.send(full, compressedBy: log.compression)
    case .folder(let folder):
      guard let full = named.take() else { return }
      folder.send(full)
    case .one: break
    }
  }
}

@available(*, unavailable)
extension AccessLogWriter: Sendable {}
