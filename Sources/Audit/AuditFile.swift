import Glibc
package import Observability

/// The file of an audit log, to which several processes may write: a line is written under a lock, behind whatever stands
/// there. Only the writer's thread has it. Each call may wait for the disk.
///
/// The last line of a file that was moved away is `rotate`, with its signature. Who finds it there goes on in the next file,
/// so that all processes write one chain, whichever of them is told to reopen first.
package struct AuditFile {
  private let file: LogFile
  package private(set) var chain = AuditChain()
  /// The size of the file when its last line was the last of `chain`; nil: nobody has looked yet.
  private var size: Int64?
  /// The octets of that line, with its line feed.
  private var lastCount = 0
  /// The file of `size`.
  private var identity: FileIdentity?

  /// Why nothing could be written.
  package struct Fault: Error {
    package let reason: String
    init(_ reason: String) { self.reason = reason }
    /// The reason of a system call's failure.
    init(code: Int32) { reason = String(cString: strerror(code)) }
  }

  package init(_ file: LogFile) { self.file = file }

  /// Why no chain can go on in a file; nil if one can, or if nobody can look.
  package static func faultOfContinuing(_ path: String) -> String? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return nil }
    guard status.st_mode & S_IFMT == S_IFREG else { return "it is no regular file" }
    let size = Int64(status.st_size), count = min(size, Int64(AuditTail.enough))
    guard let end = read(descriptor, from: size - count, count: Int(count)) else { return nil }
    do throws(AuditFault) {
      _ = try AuditTail(end, isWhole: count == size)
      return nil
    } catch {
      return error.reason
    }
  }

  private static func read(_ descriptor: Int32, from offset: Int64, count: Int) -> [UInt8]? {
    guard count > 0 else { return [] }
    var bytes = [UInt8](repeating: 0, count: count)
    var done = 0
    while done < count {
      let got = bytes.withUnsafeMutableBytes { buffer in
        pread(descriptor, buffer.baseAddress.map { $0 + done }, count - done, off_t(offset + Int64(done)))
      }
      if got < 0, errno == EINTR { continue }
      guard got > 0 else { return nil }
      done += got
    }
    return bytes
  }

  /// Writes the lines that `make` adds to the chain. Nothing is written, and the chain is the former one, if that fails.
  /// Returns why the file isn't what this process has left; nil if it is. `closes`: the lines end the file; nothing is written
  /// if another process has ended it.
  package mutating func append(
    at moment: Int64, process: String, closes: Bool = false, _ make: (inout AuditChain) -> [UInt8]
  ) throws(Fault) -> String? {
    // The path leads to one file after another only if somebody moves them meanwhile.
    isStill = false
    for _ in 0..<Self.mostMoves {
      switch try appendHere(moment, process, make) {
      case .written(let complaint): return complaint
      case .ended(let end):
        let former = FileIdentity(file.descriptor)
        do throws(LogDestinationError) { try file.replace() } catch { throw Fault(error.message) }
        isStill = FileIdentity(file.descriptor) == former
        guard !isStill else { continue }
        chain = end
        fileDidChange()
        if closes { return nil }
      }
    }
    throw Fault("the file is moved away again and again")
  }

  private enum Passage {
    /// The lines are written. The text: why the file isn't what this process has left; nil if it is.
    case written(String?)
    /// Nothing is written: another process has ended the file with this chain.
    case ended(AuditChain)
  }

  /// The file that another process has ended is the one that the path leads to.
  private var isStill = false
  private static let mostMoves = 8

  private mutating func appendHere(
    _ moment: Int64, _ process: String, _ make: (inout AuditChain) -> [UInt8]
  ) throws(Fault) -> Passage {
    let descriptor = file.descriptor
    while flock(descriptor, LOCK_EX) != 0 { if errno != EINTR { throw Fault(code: errno) } }
    defer { flock(descriptor, LOCK_UN) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw Fault(code: errno) }
    let found = Int64(status.st_size)
    var next = chain, bytes: [UInt8] = [], complaint: String?
    if found == 0, size == nil, next.number > 0 {
      bytes = next.line(AuditEvent(.resume, at: moment), by: process)
    } else if found != size {
      switch try follow(descriptor, to: found, &next) {
      case .same: break
      case .ended: guard isStill else { return .ended(next) }
      case .torn(let count):
        // The line that nobody ended gets its end, and the next one says so.
        var event = AuditEvent(.recovered, at: moment)
        event.add("octets", Int64(count))
        bytes = [0x0A] + next.line(event, by: process)
      case .broken(let reason): complaint = reason
      }
    }
    bytes += make(&next)
    guard !bytes.isEmpty else { return .written(complaint) }
    if let code = Self.write(bytes, to: descriptor) {
      // Whatever was written of them: a reader takes each line for whole.
      _ = ftruncate(descriptor, off_t(found))
      throw Fault(code: code)
    }
    chain = next
    size = found + Int64(bytes.count)
    lastCount = bytes.count - (bytes.dropLast().lastIndex(of: 0x0A).map { $0 + 1 } ?? 0)
    identity = FileIdentity(descriptor)
    return .written(complaint)
  }

  private enum Continuation {
    case same
    /// Another process has ended the file.
    case ended
    case torn(Int)
    case broken(String)
  }

  /// Takes the lines into account that stand in the file and that this process has not written: those of a former process, or
  /// of one that it replaces, or that replaces it.
  private func follow(
    _ descriptor: Int32, to found: Int64, _ next: inout AuditChain
  ) throws(Fault) -> Continuation {
    let most = Int64(64 << 20), begin = (size ?? 0) - Int64(lastCount)
    if size == nil, next.number == 0 {
      let count = min(found, Int64(AuditTail.enough))
      guard let end = Self.read(descriptor, from: found - count, count: Int(count)) else { throw Fault(code: errno) }
      do throws(AuditFault) {
        let tail = try AuditTail(end, isWhole: count == found)
        if let last = tail.last { next = AuditChain(number: last.number, hash: last.hash) }
        return tail.torn > 0 ? .torn(tail.torn) : tail.isEnded ? .ended : .same
      } catch {
        return .broken(error.reason)
      }
    }
    // Its own last line must stand where it was, and each line behind it must hang on the one before. The first line of the
    // next file hangs on the last one of the former.
    guard found >= size ?? 0 else { return .broken("its end was cut") }
    guard found - begin <= most else { return .broken("much was added to it") }
    // Nobody knows what to go on from.
    guard let bytes = Self.read(descriptor, from: begin, count: Int(found - begin)) else { throw Fault(code: errno) }
    var lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false).map { Array($0) }[...]
    let torn = lines.removeLast()
    if size != nil {
      guard let own = lines.popFirst(), (try? AuditLine(own))?.hash == next.hash else {
        return .broken("its last line was changed")
      }
    }
    var end = FileEnd()
    for bytes in lines {
      guard let line = try? AuditLine(bytes), line.number == next.number &+ 1, line.prev == next.hash else {
        return .broken("a line was added that does not go on where the one before ends")
      }
      next = AuditChain(number: line.number, hash: line.hash)
      end.take(line)
    }
    return !torn.isEmpty ? .torn(torn.count) : end.isEnded ? .ended : .same
  }

  private static func write(_ bytes: [UInt8], to descriptor: Int32) -> Int32? {
    var done = 0
    while done < bytes.count {
      let count = bytes.withUnsafeBytes {
        Glibc.write(descriptor, $0.baseAddress.map { $0 + done }, bytes.count - done)
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return count < 0 ? errno : ENOSPC }
      done += count
    }
    return nil
  }

  /// Has the disk take what was written.
  package func synchronize() { _ = fdatasync(file.descriptor) }

  /// Another file may follow, to which the chain goes on.
  package mutating func fileDidChange() {
    // Reopened without having been moved, it is the same file.
    if let identity, FileIdentity(file.descriptor) == identity { return }
    (size, lastCount, identity) = (nil, 0, nil)
  }

  /// The path leads to another file than the one that is open, or to none, or nobody may look.
  package var isMoved: Bool {
    var status = stat()
    guard stat(file.path, &status) == 0 else { return true }
    return FileIdentity(status) != FileIdentity(file.descriptor)
  }
}

/// Which file is open: two are the same if device and inode are.
private struct FileIdentity: Equatable {
  private let device: dev_t
  private let inode: ino_t

  init(_ status: stat) { (device, inode) = (status.st_dev, status.st_ino) }

  init?(_ descriptor: Int32) {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return nil }
    self.init(status)
  }
}

/// Whether the last lines of a file end it: `rotate`, and its signature behind it.
struct FileEnd: Sendable, Equatable {
  private(set) var isEnded = false

  mutating func take(_ line: AuditLine) {
    isEnded = line.kind == .rotate || (isEnded && line.kind == .signature)
  }
}
