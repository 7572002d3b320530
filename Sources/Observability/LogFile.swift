import CLinux
import Dispatch
import Glibc
import Synchronization

/// Opens a log for appending in place of a process that may not, and returns the descriptor.
public typealias LogOpener = @Sendable (_ path: String) throws(LogDestinationError) -> Int32

/// Who writes a log's lines in a way of its own, and must know where one file ends and the next begins.
package protocol LogKeeper: AnyObject, Sendable {
  /// The file is about to be replaced by the one that its path leads to. May wait for the disk.
  func willReopen()
  /// It was replaced, or can't be.
  func didReopen()
}

/// One open log file, shared by every log that names its path.
///
/// Workers write to it at the same time and USR1 reopens it under them; only writers of a regular file wait for each other.
/// The descriptor's number never changes: reopening replaces the file behind it atomically. Each line of an error log is one
/// write(2) with O_APPEND, so lines don't mix. Lines of access logs go to the file's own thread (`LogWriting`), because a disk or the reader of a
/// pipe can be slow. A failed write never stops the daemon: its lines are counted (`LogLosses`).
public final class LogFile: Sendable {
  public let path: String
  /// The name by which its losses are counted.
  let countedAs: String
  package let descriptor: Int32
  /// Whether the file is opened for reading too, where that is allowed.
  private let isRead: Bool
  private let keeper = Mutex<(any LogKeeper)?>(nil)
  /// False for stderr and stdout, which another process owns: they are neither reopened nor closed.
  let isOurs: Bool
  /// Opens the path where this process may not.
  private let opener: LogOpener?
  /// How the descriptor is written to without waiting.
  let kind: Kind
  let losses: LogLosses
  /// The bytes that wait for the file's own thread.
  let waiting = Atomic<Int>(0)
  /// Whether the last write ended within a line.
  let isMidLine = Atomic<Bool>(false)
  let queue: DispatchQueue
  /// Held while a line is written to a pipe of another process, and while lines are written to a regular file of ours. Not
  /// while they are written to a named pipe: its reader can sleep.
  let turn: Mutex<Turn>

  struct Turn: Sendable {
    /// Whether the descriptor leads to a regular file of ours, so that the beginning of a line can be cut off its end.
    let takesBack: Bool

    init(_ descriptor: Int32, isOurs: Bool) {
      var status = stat()
      takesBack = isOurs && fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
    }
  }

  enum Kind: Sendable {
    /// A write doesn't wait, except for the disk; or the description has O_NONBLOCK, which is ours to set.
    case direct
    /// A socket of another process: each call says that it doesn't wait.
    case socket
    /// A pipe or terminal of another process. O_NONBLOCK would change it for that process, too.
    case lent
  }

  public static let standardError = LogFile(standing: STDERR_FILENO, path: "stderr")
  /// Whether stderr leads to systemd's journal, which reads the level of a line from `<N>` before it (systemd.exec(5),
  /// JOURNAL_STREAM).
  public static let isStandardErrorJournal: Bool = {
    guard let stream = getenv("JOURNAL_STREAM").map({ String(cString: $0) }) else { return false }
    var status = stat()
    return fstat(STDERR_FILENO, &status) == 0 && stream == "\(status.st_dev):\(status.st_ino)"
  }()
  static let standardOutput = LogFile(standing: STDOUT_FILENO, path: "stdout")

  private init(standing descriptor: Int32, path: String) {
    self.path = path
    countedAs = path
    self.descriptor = descriptor
    isRead = false
    self.isOurs = false
    opener = nil
    self.losses = LogLosses()
    var status = stat()
    let format = fstat(descriptor, &status) == 0 ? status.st_mode & S_IFMT : S_IFREG
    kind = format == S_IFREG ? .direct : format == S_IFSOCK ? .socket : .lent
    queue = DispatchQueue(label: "sallyport.log.\(path)")
    turn = Mutex(Turn(descriptor, isOurs: false))
  }

  /// Opens the file for appending, and creates it if it is missing (0640 less the umask). `opener`: is asked for what this
  /// process may not open. `isRead`: whoever writes it goes on where the file ends.
  public init(
    opening path: String, losses: LogLosses = LogLosses(), by opener: LogOpener? = nil, isRead: Bool = false
  ) throws(LogDestinationError) {
    self.path = path
    countedAs = path
    self.isRead = isRead
    self.descriptor = try Self.open(path, opener, isRead: isRead)
    self.opener = opener
    self.isOurs = true
    self.losses = losses
    kind = .direct
    queue = DispatchQueue(label: "sallyport.log")
    turn = Mutex(Turn(descriptor, isOurs: true))
  }

  /// Takes over the descriptor of a regular file. `countedAs`: the name by which its losses are counted.
  init(holding descriptor: Int32, path: String, countedAs: String, losses: LogLosses) {
    self.path = path
    self.countedAs = countedAs
    self.descriptor = descriptor
    isRead = false
    opener = nil
    self.isOurs = true
    self.losses = losses
    kind = .direct
    queue = DispatchQueue(label: "sallyport.log")
    turn = Mutex(Turn(descriptor, isOurs: true))
  }

  /// Writes lines for people to stderr. The journal gets them with the level (syslog(3)); without it, it would show a fault
  /// as any other line.
  public static func tell(_ text: String, level: Int) {
    let prefix = isStandardErrorJournal ? "<\(level)>" : ""
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { "\(prefix)\($0)\n" }
    standardError.write(string: lines.joined())
  }

  deinit {
    if isOurs { close(descriptor) }
  }

  /// The number of lines that were lost since the start.
  public var failedWrites: UInt64 { losses.lines(of: countedAs) }

  /// Whether the path leads to no file any more, or to another one. A path that this process may not look at counts as one
  /// if somebody else opens it.
  var isMoved: Bool {
    guard isOurs else { return false }
    var there = stat(), ours = stat()
    guard stat(path, &there) == 0 else { return errno == ENOENT || errno == EACCES && opener != nil }
    return fstat(descriptor, &ours) == 0 && (there.st_ino != ours.st_ino || there.st_dev != ours.st_dev)
  }

  /// From now on, this one is told of a new file.
  package func keep(by other: any LogKeeper) { keeper.withLock { $0 = other } }

  /// Opens the path again, after logrotate moved the file away. If that fails, the old file stays in use.
  public func reopen() throws(LogDestinationError) {
    guard isOurs else { return }
    // The next file is there before the former one ends.
    let fresh = try Self.open(path, opener, isRead: isRead)
    defer { close(fresh) }
    let keeper = keeper.withLock { $0 }
    keeper?.willReopen()
    defer { keeper?.didReopen() }
    try put(fresh)
  }

  /// The same for the log's keeper, who knows that one file ends and another begins.
  package func replace() throws(LogDestinationError) {
    guard isOurs else { return }
    let fresh = try Self.open(path, opener, isRead: isRead)
    defer { close(fresh) }
    try put(fresh)
  }

  private func put(_ fresh: Int32) throws(LogDestinationError) {
    // Not between a line and its end.
    let result = turn.withLock { turn in
      let result = linux_replace_descriptor(fresh, descriptor)
      turn = Turn(descriptor, isOurs: true)
      return result
    }
    guard result >= 0 else {
      throw LogDestinationError("can't put the reopened log file \(path) in place: \(String(cString: strerror(errno)))")
    }
  }

  /// Finds out whether the file could be opened for appending, or made. Changes nothing.
  static func tryToOpen(_ path: String) throws(LogDestinationError) {
    guard let code = PathTrial.faultOfWriting(path) else { return }
    throw fault(path, code)
  }

  private static func fault(_ path: String, _ code: Int32) -> LogDestinationError {
    LogDestinationError(
      "can't open the log file \(path): \(String(cString: strerror(code))): its folder must exist, and the user "
        + "sallyport runs as must be allowed to write there")
  }

  /// O_NONBLOCK does nothing for a file. A named pipe (FIFO) is opened for reading too: without a reader, the open would
  /// wait for one, and a write would fail when the reader restarts.
  private static func open(
    _ path: String, _ opener: LogOpener?, isRead: Bool = false
  ) throws(LogDestinationError) -> Int32 {
    let flags = O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK
    var status = stat()
    let isPipe = stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO
    var descriptor = isPipe || isRead ? Glibc.open(path, flags | O_RDWR | (isPipe ? 0 : O_CREAT), 0o640) : -1
    if descriptor < 0, !isPipe { descriptor = Glibc.open(path, flags | O_WRONLY | O_CREAT, 0o640) }
    guard descriptor >= 0 else {
      let code = errno
      guard code == EACCES || code == EPERM, let opener else { throw fault(path, code) }
      let reason = String(cString: strerror(code))
      do throws(LogDestinationError) {
        return try opener(path)
      } catch {
        throw LogDestinationError("can't open the log file \(path): \(reason); \(error.message)")
      }
    }
    return descriptor
  }
}
