import Bytes
import CLinux
import Dispatch
import Glibc
import Synchronization

/// How many files of an `access_log` with variables stay open (nginx: `open_log_file_cache`).
public struct OpenLogCache: Sendable, Hashable {
  /// The largest number of open files; 0: each is closed after its lines are written.
  public var max: Int
  /// Milliseconds without a line after which a file is closed.
  public var inactive: Int
  /// Milliseconds after which sallyport looks whether the name still leads to the file; 0: whenever it writes.
  public var valid: Int
  /// A file with fewer writes than this in a row stays open no longer than `off` lets it.
  public var leastUses: Int

  public init(max: Int, inactive: Int, valid: Int, leastUses: Int) {
    self.max = max
    self.inactive = inactive
    self.valid = valid
    self.leastUses = leastUses
  }

  /// Without the directive.
  public static let standard = OpenLogCache(max: 64, inactive: 10_000, valid: 0, leastUses: 1)
  /// `off`
  public static let off = OpenLogCache(max: 0, inactive: 0, valid: 0, leastUses: 1)
}

/// The folder of an `access_log` with variables, whose files requests name.
public struct LogFolderSettings: Sendable, Hashable {
  /// What stands before the first variable, up to its last slash: absolute, or relative to the working directory.
  public var folder: String
  /// The path as the configuration has it, for messages and counts: a client chooses the names of the files.
  public var text: String
  public var cache: OpenLogCache

  public init(folder: String, text: String, cache: OpenLogCache) {
    self.folder = folder
    self.text = text
    self.cache = cache
  }
}

/// Where an `access_log` writes.
public enum AccessLogDestination: Sendable, Hashable {
  case fixed(LogDestination)
  case folder(LogFolderSettings)
}

/// The name of a file below the folder of an `access_log`. Only a name that stays below the folder is one.
public enum LogFileName {
  /// Whether bytes of a variable may become part of a name. A slash would choose another folder.
  public static func admits(_ value: UnsafeRawBufferPointer) -> Bool {
    value.allSatisfy { $0 >= 0x20 && $0 != 0x7F && $0 != 0x2F }
  }

  /// Whether the whole name leads to a file below the folder, if `admits` holds for its values.
  public static func isBelow(_ name: UnsafeRawBufferPointer) -> Bool {
    var start = 0
    for index in 0...name.count {
      guard index == name.count || name[index] == 0x2F else { continue }
      let part = UnsafeRawBufferPointer(rebasing: name[start..<index])
      if part.equals(".") || part.equals("..") { return false }
      if index == name.count { return !part.isEmpty }
      start = index + 1
    }
    return false
  }
}

/// Lines of one worker with the names of their files, on their way to the folder's thread.
// @unchecked: `LogFolder.send` takes it over from the worker, which makes another one.
final class NamedLogLines: @unchecked Sendable {
  /// For each line its file's name, then the line with its line feed.
  private(set) var bytes = ByteBuffer(capacity: LogBuffering.standard.capacity)
  private var counts: [(name: Int, line: Int)] = []

  var count: Int { bytes.count }
  var lineCount: UInt64 { UInt64(counts.count) }

  func append(_ name: UnsafeRawBufferPointer, _ line: UnsafeRawBufferPointer) {
    bytes.append(name)
    bytes.append(line)
    bytes.append("\n")
    counts.append((name.count, line.count + 1))
  }

  /// The lines of each file, in their order.
  func byFile() -> [(name: [UInt8], lines: [UInt8])] {
    var files: [(name: [UInt8], lines: [UInt8])] = []
    var places: [[UInt8]: Int] = [:]
    var at = 0
    for (nameCount, lineCount) in counts {
      let name = Array(bytes.readable[at..<at + nameCount])
      at += nameCount
      let place = places[name] ?? files.count
      if place == files.count {
        places[name] = place
        files.append((name, []))
      }
      files[place].lines += bytes.readable[at..<at + lineCount]
      at += lineCount
    }
    return files
  }
}

/// The files of one `access_log` with variables, shared by all workers and generations that have such a line.
///
/// All files are opened and written on the folder's own thread, so no worker waits for a disk. No file outside the folder
/// is opened: neither a name with `..` nor a symbolic link leads out of it. The number of open files is bounded, because
/// clients choose the names.
public final class LogFolder: Sendable {
  let settings: LogFolderSettings
  private let losses: LogLosses
  private let queue: DispatchQueue
  private let waiting = Atomic<Int>(0)
  /// Used on `queue` only, and so never waited for.
  private let open = Mutex<[[UInt8]: OpenFile]>([:])
  private let isSweeping = Atomic<Bool>(false)

  private struct OpenFile: Sendable {
    var file: LogFile
    var usedAt: UInt64
    var lookedAt: UInt64
    var uses = 0
  }

  init(_ settings: LogFolderSettings, losses: LogLosses) throws(LogDestinationError) {
    var status = stat()
    let isThere = stat(settings.folder, &status) == 0
    guard isThere, status.st_mode & S_IFMT == S_IFDIR else {
      let reason = String(cString: strerror(isThere ? ENOTDIR : errno))
      throw LogDestinationError(
        "can't use \"\(settings.folder)\", the folder of the log \(settings.text): \(reason): it must exist, and the user "
          + "sallyport runs as must be allowed to write there")
    }
    self.settings = settings
    self.losses = losses
    queue = DispatchQueue(label: "sallyport.log.folder")
  }

  var failedWrites: UInt64 { losses.lines(of: settings.text) }

  /// The number of open files.
  var openCount: Int { open.withLock { $0.count } }

  func send(_ lines: NamedLogLines) {
    let count = lines.count
    let (before, after) = waiting.add(count, ordering: .relaxed)
    guard before == 0 || after <= LogFile.mostWaiting else {
      waiting.subtract(count, ordering: .relaxed)
      return losses.note(settings.text, lines.lineCount, EAGAIN, tellsStandardError: true)
    }
    queue.async { [self] in
      for file in lines.byFile() { write(file.lines, to: file.name) }
      waiting.subtract(count, ordering: .relaxed)
      close()
    }
  }

  /// Closes all files, so that the next line opens them by name: after logrotate moved them (USR1, HUP).
  func reopen() { queue.async { [self] in open.withLock { $0 = [:] } } }

  /// Waits until the lines that were sent are written, for at most so many milliseconds.
  func drain(within milliseconds: Int) {
    let done = DispatchSemaphore(value: 0)
    queue.async { done.signal() }
    _ = done.wait(timeout: .now() + .milliseconds(milliseconds))
  }

  // MARK: On the folder's thread

  private func write(_ lines: [UInt8], to name: [UInt8]) {
    let now = MonotonicClock.milliseconds
    var entry = open.withLock { $0[name] }
    if let known = entry, LineFolding.age(known.lookedAt, now) >= UInt64(clamping: settings.cache.valid) {
      entry = known.file.isMoved ? nil : known
      entry?.lookedAt = now
    }
    var used: OpenFile
    do throws(OpenFault) {
      if let entry { used = entry } else { used = try openFile(name, now) }
    } catch {
      let count = UInt64(lines.count { $0 == 0x0A })
      return losses.note(settings.text, count, error.code, tellsStandardError: true)
    }
    lines.withUnsafeBytes { used.file.writeOnThread($0) }
    used.usedAt = now
    used.uses += 1
    open.withLock { $0[name] = used }
  }

  private func openFile(_ name: [UInt8], _ now: UInt64) throws(OpenFault) -> OpenFile {
    makeRoom()
    let descriptor = try Self.open(name, below: settings.folder)
    let path = settings.folder + String(decoding: name, as: UTF8.self)
    let file = LogFile(holding: descriptor, path: path, countedAs: settings.text, losses: losses)
    return OpenFile(file: file, usedAt: now, lookedAt: now)
  }

  struct OpenFault: Error { let code: Int32 }

  /// Opens segment by segment, so that no link that somebody has made in the folder leads elsewhere.
  private static func open(_ name: [UInt8], below folder: String) throws(OpenFault) -> Int32 {
    var at = linux_openat(AT_FDCWD, folder, linux_o_path() | O_DIRECTORY | O_CLOEXEC)
    guard at >= 0 else { throw OpenFault(code: errno) }
    let parts = name.split(separator: 0x2F).map { String(decoding: $0, as: UTF8.self) }
    for part in parts.dropLast() {
      let next = linux_openat(at, part, linux_o_path() | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
      let code = errno
      Glibc.close(at)
      guard next >= 0 else { throw OpenFault(code: code) }
      at = next
    }
    defer { Glibc.close(at) }
    guard let last = parts.last else { throw OpenFault(code: EINVAL) }
    let flags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK
    let descriptor = openat(at, last, flags, 0o640)
    guard descriptor >= 0 else { throw OpenFault(code: errno) }
    var status = stat()
    // A pipe that nobody reads would hold up the lines for all files.
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      Glibc.close(descriptor)
      throw OpenFault(code: EINVAL)
    }
    return descriptor
  }

  /// Closes the file that was used least of late, if there are as many as may be.
  private func makeRoom() {
    open.withLock { open in
      guard open.count >= max(1, settings.cache.max) else { return }
      if let least = open.min(by: { $0.value.usedAt < $1.value.usedAt }) { open[least.key] = nil }
    }
  }

  /// Closes what `open_log_file_cache` doesn't let stay open, now and when its time has come.
  private func close() {
    let cache = settings.cache, now = MonotonicClock.milliseconds
    let isEmpty = open.withLock { open in
      open = open.filter { _, file in
        cache.max > 0 && file.uses >= cache.leastUses
          && LineFolding.age(file.usedAt, now) < UInt64(clamping: cache.inactive)
      }
      return open.isEmpty
    }
    guard !isEmpty, !isSweeping.exchange(true, ordering: .relaxed) else { return }
    queue.asyncAfter(deadline: .now() + .milliseconds(max(100, cache.inactive))) { [weak self] in
      guard let self else { return }
      isSweeping.store(false, ordering: .relaxed)
      close()
    }
  }
}
