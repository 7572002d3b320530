import Bytes
import CLinux
import Dispatch
import Glibc
import Synchronization

/// Lines of one worker on their way to a log file. One side at a time has it: the worker fills it, the file's thread
/// writes and drops it.
// @unchecked: `LogFile.send` takes it over from the worker, which makes another one.
final class LogChunk: @unchecked Sendable {
  var lines: ByteBuffer
  init(capacity: Int) { lines = ByteBuffer(capacity: capacity) }
}

/// How lines reach a file. No call here waits, except on the file's own thread.
extension LogFile {
  /// The most bytes that wait for a file. Further lines are lost and counted, so that a reader who sleeps costs neither
  /// requests nor memory.
  static let mostWaiting = 4 << 20
  /// The most bytes that a pipe which can be written to takes without waiting (pipe(7)).
  private static let pipePart = 4096

  /// Writes whole lines, each with its line feed, at once: for error logs, whose last words count when a process ends. A
  /// line that can't be written without waiting is lost.
  package func write(_ lines: UnsafeRawBufferPointer) { put(lines, .lines, mayWait: false) }

  /// Writes whole lines, and waits for the disk if need be: for a thread that serves logs alone.
  func writeOnThread(_ lines: UnsafeRawBufferPointer) { put(lines, .lines, mayWait: true) }

  /// Compresses lines; nil if that fails.
  typealias Compression = @Sendable (_ lines: UnsafeRawBufferPointer) -> [UInt8]?

  /// What is written at a time.
  private enum Content {
    /// Lines, of which some may be written and others lost.
    case lines
    /// So many lines that are compressed together: of no use in part.
    case block(lines: UInt64)
  }

  /// Writes text, for code that seldom runs.
  package func write(string text: String) {
    var text = text
    text.withUTF8 { write(UnsafeRawBufferPointer($0)) }
  }

  /// Takes over whole lines, and writes them on the file's own thread, which compresses them before, if need be.
  func send(_ chunk: LogChunk, compressedBy compression: Compression? = nil) {
    let count = chunk.lines.count
    let (before, after) = waiting.add(count, ordering: .relaxed)
    // A buffer that is larger than the bound waits alone.
    guard before == 0 || after <= Self.mostWaiting else {
      waiting.subtract(count, ordering: .relaxed)
      return losses.note(countedAs, Self.lineFeeds(chunk.lines.readable), EAGAIN, tellsStandardError: isOurs)
    }
    queue.async { [self] in
      if let compression {
        putCompressed(chunk.lines.readable, compression)
      } else {
        put(chunk.lines.readable, .lines, mayWait: true)
      }
      waiting.subtract(count, ordering: .relaxed)
    }
  }

  /// Waits until the lines that were sent are written, for at most so many milliseconds. Returns whether they are.
  @discardableResult
  package func drain(within milliseconds: Int) -> Bool {
    let done = DispatchSemaphore(value: 0)
    queue.async { done.signal() }
    return done.wait(timeout: .now() + .milliseconds(milliseconds)) == .success
  }

  private func putCompressed(_ lines: UnsafeRawBufferPointer, _ compression: Compression) {
    let count = Self.lineFeeds(lines)
    guard let block = compression(lines) else {
      return losses.note(countedAs, count, ENOMEM, tellsStandardError: isOurs)
    }
    block.withUnsafeBytes { put($0, .block(lines: count), mayWait: true) }
  }

  /// A regular file of ours is written to by one thread at a time, so that what a full disk has cut can be taken back. The
  /// kernel has them wait for each other anyway.
  private func put(_ bytes: UnsafeRawBufferPointer, _ content: Content, mayWait: Bool) {
    let isDone = turn.withLock { turn in
      if turn.takesBack { putParts(bytes, content, mayWait: mayWait, takesBack: true) }
      return turn.takesBack
    }
    if !isDone { putParts(bytes, content, mayWait: mayWait, takesBack: false) }
  }

  private func putParts(_ bytes: UnsafeRawBufferPointer, _ content: Content, mayWait: Bool, takesBack: Bool) {
    guard bytes.count > 0, endTornLine() else { return lose(bytes, content, from: 0, EAGAIN) }
    var done = 0
    while done < bytes.count {
      switch attempt(UnsafeRawBufferPointer(rebasing: bytes[done...])) {
      case .wrote(let count): done += count
      case .failed(EINTR): continue
      case .failed(EAGAIN) where mayWait:
        var wanted = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        _ = poll(&wanted, 1, 1000)
      case .failed(let code):
        return lose(bytes, content, from: takesBack ? takeBack(bytes[..<done], content) : done, code)
      }
    }
    losses.noteSuccess(countedAs)
  }

  /// Ends the line that a failed write has torn, so that the next line is whole.
  private func endTornLine() -> Bool {
    guard isMidLine.load(ordering: .relaxed) else { return true }
    let end: StaticString = "\n"
    guard case .wrote = attempt(UnsafeRawBufferPointer(start: end.utf8Start, count: 1)) else { return false }
    isMidLine.store(false, ordering: .relaxed)
    return true
  }

  /// Cuts the beginning of a line or block off the end of the file, because its reader takes each for whole. Returns how
  /// many of the bytes are left in the file.
  private func takeBack(_ written: Slice<UnsafeRawBufferPointer>, _ content: Content) -> Int {
    var whole = 0
    if case .lines = content, let end = written.lastIndex(of: 0x0A) { whole = end + 1 }
    let torn = off_t(written.count - whole)
    let end = lseek(descriptor, 0, SEEK_CUR)
    var status = stat()
    // Another process, such as the successor of an upgrade, may have written behind it.
    guard torn > 0, fstat(descriptor, &status) == 0, status.st_size == end, end >= torn,
      ftruncate(descriptor, end - torn) == 0
    else { return written.count }
    return whole
  }

  private func lose(_ bytes: UnsafeRawBufferPointer, _ content: Content, from done: Int, _ code: Int32) {
    guard bytes.count > 0 else { return }
    let count: UInt64
    switch content {
    case .lines:
      if done > 0, bytes[done - 1] != 0x0A { isMidLine.store(true, ordering: .relaxed) }
      count = Self.lineFeeds(UnsafeRawBufferPointer(rebasing: bytes[done...]))
    case .block(let lines): count = lines
    }
    losses.note(countedAs, count, code, tellsStandardError: isOurs)
  }

  private enum Attempt {
    case wrote(Int)
    case failed(Int32)
  }

  /// One call that doesn't wait, except for a disk.
  private func attempt(_ bytes: UnsafeRawBufferPointer) -> Attempt {
    let count: Int
    switch kind {
    case .direct: count = Glibc.write(descriptor, bytes.baseAddress, bytes.count)
    case .socket: count = Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
    case .lent:
      return turn.withLock { _ in
        var wanted = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        guard poll(&wanted, 1, 0) > 0 else { return .failed(EAGAIN) }
        let written = Glibc.write(descriptor, bytes.baseAddress, min(bytes.count, Self.pipePart))
        return written > 0 ? .wrote(written) : .failed(written < 0 ? errno : EIO)
      }
    }
    return count > 0 ? .wrote(count) : .failed(count < 0 ? errno : EIO)
  }

  private static func lineFeeds(_ lines: UnsafeRawBufferPointer) -> UInt64 {
    lines.reduce(0) { $1 == 0x0A ? $0 + 1 : $0 }
  }
}
