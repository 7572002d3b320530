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
  package func write(_ lines: UnsafeRawBufferPointer) { put(lines, mayWait: false) }

  /// Writes whole lines, and waits for the disk if need be: for a thread that serves logs alone.
  func writeOnThread(_ lines: UnsafeRawBufferPointer) { put(lines, mayWait: true) }

  /// Writes text, for code that seldom runs.
  package func write(string text: String) {
    var text = text
    text.withUTF8 { write(UnsafeRawBufferPointer($0)) }
  }

  /// Takes over whole lines, and writes them on the file's own thread.
  func send(_ chunk: LogChunk) {
    let count = chunk.lines.count
    let (before, after) = waiting.add(count, ordering: .relaxed)
    // A buffer that is larger than the bound waits alone.
    guard before == 0 || after <= Self.mostWaiting else {
      waiting.subtract(count, ordering: .relaxed)
      return losses.note(countedAs, Self.lineFeeds(chunk.lines.readable), EAGAIN, tellsStandardError: isOurs)
    }
    queue.async { [self] in
      put(chunk.lines.readable, mayWait: true)
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

  /// A regular file of ours is written to by one thread at a time, so that what a full disk has cut can be taken back. The
  /// kernel has them wait for each other anyway.
  private func put(_ lines: UnsafeRawBufferPointer, mayWait: Bool) {
    let isDone = turn.withLock { turn in
      if turn.takesBack { putParts(lines, mayWait: mayWait, takesBack: true) }
      return turn.takesBack
    }
    if !isDone { putParts(lines, mayWait: mayWait, takesBack: false) }
  }

  private func putParts(_ lines: UnsafeRawBufferPointer, mayWait: Bool, takesBack: Bool) {
    guard lines.count > 0, endTornLine() else { return lose(lines, from: 0, EAGAIN) }
    var done = 0
    while done < lines.count {
      switch attempt(UnsafeRawBufferPointer(rebasing: lines[done...])) {
      case .wrote(let count): done += count
      case .failed(EINTR): continue
      case .failed(EAGAIN) where mayWait:
        var wanted = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        _ = poll(&wanted, 1, 1000)
      case .failed(let code): return lose(lines, from: takesBack ? takeBack(lines[..<done]) : done, code)
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

  /// Cuts the beginning of a line off the end of the file, because its reader takes each line for whole. Returns how many
  /// bytes of the lines are left in the file.
  private func takeBack(_ written: Slice<UnsafeRawBufferPointer>) -> Int {
    let whole = written.lastIndex(of: 0x0A).map { $0 + 1 } ?? 0
    let torn = off_t(written.count - whole)
    let end = lseek(descriptor, 0, SEEK_CUR)
    var status = stat()
    // Another process, such as the successor of an upgrade, may have written behind it.
    guard torn > 0, fstat(descriptor, &status) == 0, status.st_size == end, end >= torn,
      ftruncate(descriptor, end - torn) == 0
    else { return written.count }
    return whole
  }

  private func lose(_ lines: UnsafeRawBufferPointer, from done: Int, _ code: Int32) {
    guard lines.count > 0 else { return }
    if done > 0, lines[done - 1] != 0x0A { isMidLine.store(true, ordering: .relaxed) }
    losses.note(
      countedAs, Self.lineFeeds(UnsafeRawBufferPointer(rebasing: lines[done...])), code, tellsStandardError: isOurs)
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
