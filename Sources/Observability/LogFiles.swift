public import Logging
import Synchronization

/// The open logs of the process: one descriptor for each path, shared by all its writers.
///
/// It outlives a reload, so that two generations share a file while the old one drains. A file that no log uses any
/// more closes by itself. USR1 reopens every open file.
public final class LogFiles: Sendable {
  private struct Entry { weak var file: LogFile? }

  private struct FolderEntry { weak var folder: LogFolder? }

  private let entries = Mutex<[String: Entry]>([:])
  private let folders = Mutex<[LogFolderSettings: FolderEntry]>([:])
  /// The lines that all logs lost, also of files that are closed.
  public let losses = LogLosses()
  /// What all error logs were told at `error` or above.
  package let errors = RecentErrors()
  /// The level that all error logs take for a time.
  package let levels = ErrorLogLevels()
  private let journal: (@Sendable (JournalSocket) -> any LogHandler)?
  private let journalPath: String
  private let opener: LogOpener?
  private let compressor: LogCompressor?
  private let use: Use

  package enum Use: Sendable {
    case write
    /// Files are neither made nor opened: what is asked for is only tried. Nothing may be written.
    case trial
  }

  /// - Parameter journal: makes the handler of `error_log journal`; the module Systemd provides it. Without it, that
  ///   destination is refused.
  /// - Parameter opener: opens files that this process may not open.
  /// - Parameter compressor: for `access_log … gzip`. Without it, such a log is refused.
  public init(
    journalPath: String = JournalSocket.standardPath, journal: (@Sendable (JournalSocket) -> any LogHandler)? = nil,
    opener: LogOpener? = nil, compressor: LogCompressor? = nil
  ) {
    self.opener = opener
    self.compressor = compressor
    self.journal = journal
    self.journalPath = journalPath
    use = .write
  }

  /// For a trial.
  package init(
    onlyTrying journal: @escaping @Sendable (JournalSocket) -> any LogHandler, compressor: @escaping LogCompressor
  ) {
    self.compressor = compressor
    self.journal = journal
    journalPath = JournalSocket.standardPath
    opener = nil
    use = .trial
  }

  /// Returns the file of a path, and opens it if it is not open. `/dev/stderr` and `/dev/stdout` use the descriptors
  /// themselves, which may be sockets or another user's pipe and so can't be opened by name. `isRead`: whoever writes it goes
  /// on where the file ends.
  public func file(_ path: String, isRead: Bool = false) throws(LogDestinationError) -> LogFile {
    switch path {
    case "/dev/stderr": return .standardError
    case "/dev/stdout": return .standardOutput
    default: break
    }
    if case .trial = use {
      try LogFile.tryToOpen(path)
      return .standardError
    }
    if let open = entries.withLock({ $0[path]?.file }) { return open }
    let fresh = try LogFile(opening: path, losses: losses, by: opener, isRead: isRead)
    return entries.withLock { entries in
      // Another thread may have opened the path first. Its file is used, and this one closes.
      if let open = entries[path]?.file { return open }
      entries = entries.filter { $0.value.file != nil }
      entries[path] = Entry(file: fresh)
      return fresh
    }
  }

  /// Returns the error log's handler for a destination, and opens it.
  public func handler(for destination: LogDestination) throws(LogDestinationError) -> any LogHandler {
    if destination == .journal {
      guard let journal else {
        throw LogDestinationError("there is no journal here: give stderr, a file or syslog:server=…")
      }
      return journal(JournalSocket(path: journalPath, losses: losses))
    }
    return LineLogHandler(try sink(for: destination))
  }

  /// Returns the access log of a destination, and opens it.
  public func accessLog(
    for destination: LogDestination, _ buffering: LogBuffering = .standard
  ) throws(LogDestinationError) -> AccessLog {
    guard let level = buffering.gzipLevel else { return AccessLog(.one(try sink(for: destination)), buffering) }
    guard let compressor else { throw LogDestinationError("lines can't be compressed here: leave out gzip") }
    return AccessLog(.one(try sink(for: destination)), buffering) { compressor($0, level) }
  }

  /// Returns the access log of a destination, and opens it unless requests name its files.
  public func accessLog(
    for destination: AccessLogDestination, _ buffering: LogBuffering = .standard
  ) throws(LogDestinationError) -> AccessLog {
    switch destination {
    case .fixed(let one): try accessLog(for: one, buffering)
    case .folder(let settings): AccessLog(.folder(try folder(settings)))
    }
  }

  private func folder(_ settings: LogFolderSettings) throws(LogDestinationError) -> LogFolder {
    if let known = folders.withLock({ $0[settings]?.folder }) { return known }
    let fresh = try LogFolder(settings, losses: losses)
    return folders.withLock { folders in
      if let known = folders[settings]?.folder { return known }
      folders = folders.filter { $0.value.folder != nil }
      folders[settings] = FolderEntry(folder: fresh)
      return fresh
    }
  }

  private var openFolders: [LogFolder] { folders.withLock { $0.values.compactMap(\.folder) } }

  /// Reopens every file (USR1) and returns the errors. A file that can't be opened stays as it was.
  public func reopenAll() -> [LogDestinationError] {
    for folder in openFolders { folder.reopen() }
    return reopen(open)
  }

  /// Reopens the files that were moved away or removed (HUP), and returns the errors. As in nginx, so that whoever rotates
  /// logs by a reload loses no line.
  public func reopenMoved() -> [LogDestinationError] {
    for folder in openFolders { folder.reopen() }
    let moved = open.filter(\.isMoved)
    return moved.isEmpty ? [] : reopen(moved)
  }

  private func reopen(_ files: [LogFile]) -> [LogDestinationError] {
    // What was sent before belongs to the old files.
    drain(within: 500)
    var errors: [LogDestinationError] = []
    for file in files {
      do { try file.reopen() } catch { errors.append(error) }
    }
    return errors
  }

  private var open: [LogFile] { entries.withLock { entries in entries.values.compactMap(\.file) } }

  /// Waits until the lines that were sent are written, for at most so many milliseconds in all: before the files are
  /// reopened, and at the end of the process.
  public func drain(within milliseconds: Int) {
    let end = MonotonicClock.milliseconds &+ UInt64(max(0, milliseconds))
    for file in open + [LogFile.standardOutput, .standardError] {
      file.drain(within: Int(clamping: LineFolding.age(MonotonicClock.milliseconds, end)))
    }
    for folder in openFolders {
      folder.drain(within: Int(clamping: LineFolding.age(MonotonicClock.milliseconds, end)))
    }
  }

  /// The number of lines that all logs lost since the start, for metrics.
  public var failedWrites: UInt64 { losses.total }

  /// The same by log.
  public var lostLines: [String: UInt64] {
    [LogFile.standardOutput, .standardError].reduce(into: losses.totals) { lines, file in
      if file.failedWrites > 0 { lines[file.path, default: 0] &+= file.failedWrites }
    }
  }

  /// The logs that lose lines now, and why.
  public var losing: [(path: String, reason: String)] {
    losses.current() + [LogFile.standardOutput, .standardError].flatMap { $0.losses.current() }
  }

  private func sink(for destination: LogDestination) throws(LogDestinationError) -> LogSink {
    switch destination {
    case .stderr: .file(.standardError)
    case .file(let path): .file(try file(path))
    case .syslog(let settings): .syslog(try SyslogSocket(settings, losses: losses))
    case .journal: .journal(JournalSocket(path: journalPath, losses: losses))
    }
  }
}
