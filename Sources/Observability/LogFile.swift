import CLinux
import Glibc
import Synchronization

/// One open log file, shared by every log that names its path.
///
/// Workers write to it at the same time and USR1 reopens it under them, without a lock. The descriptor's number never
/// changes: reopening replaces the file behind it atomically. Each line is one write(2) with O_APPEND, so lines don't
/// mix. A failed write never stops the daemon: it is counted, and reported to stderr once until the next reopening.
public final class LogFile: Sendable {
  public let path: String
  let descriptor: Int32
  /// False for stderr and stdout, which another process owns: they are neither reopened nor closed.
  private let isOurs: Bool
  private let failures = Atomic<UInt64>(0)
  private let complained = Atomic<Bool>(false)

  public static let standardError = LogFile(standing: STDERR_FILENO, path: "stderr")
  static let standardOutput = LogFile(standing: STDOUT_FILENO, path: "stdout")

  private init(standing descriptor: Int32, path: String) {
    self.path = path
    self.descriptor = descriptor
    self.isOurs = false
  }

  /// Opens the file for appending, and creates it if it is missing (0640 less the umask).
  public init(opening path: String) throws(LogDestinationError) {
    self.path = path
    self.descriptor = try Self.open(path)
    self.isOurs = true
  }

  deinit {
    if isOurs { close(descriptor) }
  }

  /// The number of writes that failed since the start.
  public var failedWrites: UInt64 { failures.load(ordering: .relaxed) }

  /// Opens the path again, after logrotate moved the file away. If that fails, the old file stays in use.
  public func reopen() throws(LogDestinationError) {
    guard isOurs else { return }
    let fresh = try Self.open(path)
    defer { close(fresh) }
    guard linux_replace_descriptor(fresh, descriptor) >= 0 else {
      throw LogDestinationError("can't put the reopened log file \(path) in place: \(String(cString: strerror(errno)))")
    }
    complained.store(false, ordering: .relaxed)
  }

  /// Writes whole lines, each with its line feed, with one call.
  package func write(_ lines: UnsafeRawBufferPointer) {
    guard let base = lines.baseAddress, lines.count > 0 else { return }
    var done = 0
    while done < lines.count {
      let written = Glibc.write(descriptor, base + done, lines.count - done)
      if written < 0 {
        let code = errno
        if code == EINTR { continue }
        noteFailure(code)
        return
      }
      if written == 0 { return noteFailure(EIO) }
      done += written
    }
  }

  /// Writes text, for code that seldom runs.
  package func write(string text: String) {
    var text = text
    text.withUTF8 { write(UnsafeRawBufferPointer($0)) }
  }

  private func noteFailure(_ code: Int32) {
    failures.wrappingAdd(1, ordering: .relaxed)
    guard isOurs, !complained.exchange(true, ordering: .relaxed) else { return }
    var text =
      "sallyport: can't write to the log file \(path): \(String(cString: strerror(code))); "
      + "lines are lost until this is fixed; this message appears once\n"
    text.withUTF8 { _ = Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }

  private static func open(_ path: String) throws(LogDestinationError) -> Int32 {
    let descriptor = Glibc.open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0o640)
    guard descriptor >= 0 else {
      throw LogDestinationError(
        "can't open the log file \(path): \(String(cString: strerror(errno))): its folder must exist, and the user "
          + "sallyport runs as must be allowed to write there")
    }
    return descriptor
  }
}
