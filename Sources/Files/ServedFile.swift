import CLinux
import Glibc

/// Opens what a `ServedPath` names. The calls block, so no event loop makes them.
public enum ServedFile {
  /// How a path below a folder is opened.
  enum Way: Sendable {
    /// One call of the kernel resolves the whole path (`openat2`).
    case whole
    /// Segment by segment, where the kernel or a container has no `openat2`.
    case stepwise
  }

  /// Looks at a file without opening it for reading.
  public static func look(at path: ServedPath) -> Result<FileFacts, FileFault> {
    look(at: path, .whole)
  }

  static func look(at path: ServedPath, _ way: Way) -> Result<FileFacts, FileFault> {
    open(path, linux_o_path(), way).flatMap { descriptor in
      defer { close(descriptor) }
      return facts(descriptor)
    }
  }

  /// Reads at most `count` bytes from the beginning; anything but a regular file gives its facts and no bytes.
  public static func read(
    _ path: ServedPath, count: Int
  ) -> Result<(facts: FileFacts, bytes: [UInt8]), FileFault> { read(path, count: count, .whole) }

  static func read(
    _ path: ServedPath, count: Int, _ way: Way
  ) -> Result<(facts: FileFacts, bytes: [UInt8]), FileFault> {
    open(path, way) { descriptor, facts in
      var fault: FileFault?
      let bytes = [UInt8](unsafeUninitializedCapacity: wanted(count, of: facts, from: 0)) { buffer, filled in
        fault = fill(UnsafeMutableRawBufferPointer(buffer), &filled, descriptor, from: 0)
      }
      return fault.map { .failure($0) } ?? .success((facts, bytes))
    }
  }

  /// Reads at most `count` bytes from `offset` on into `buffer`, of the file that had these facts at an earlier read. A file
  /// that is another one, or that was written to since, is a fault.
  public static func read(
    _ path: ServedPath, from offset: UInt64, count: Int, into buffer: FileBuffer, continuing known: FileFacts
  ) -> FileFault? { read(path, from: offset, count: count, into: buffer, continuing: known, .whole) }

  static func read(
    _ path: ServedPath, from offset: UInt64, count: Int, into buffer: FileBuffer, continuing known: FileFacts,
    _ way: Way
  ) -> FileFault? {
    let result: Result<Void, FileFault> = open(path, way) { descriptor, facts in
      guard facts == known else { return .failure(.changed) }
      var fault: FileFault?
      let wanted = wanted(count, of: facts, from: offset)
      buffer.fill(wanted) { fault = fill($0, &$1, descriptor, from: offset) }
      let end = offset + UInt64(wanted)
      // Each read opens the file anew, so the kernel doesn't see that the reads follow each other.
      if fault == nil, end < facts.size {
        posix_fadvise(descriptor, off_t(clamping: end), off_t(buffer.capacity), POSIX_FADV_WILLNEED)
      }
      return fault.map { .failure($0) } ?? .success(())
    }
    if case .failure(let fault) = result { return fault }
    return nil
  }

  private static func wanted(_ count: Int, of facts: FileFacts, from offset: UInt64) -> Int {
    guard facts.kind == .regular, offset < facts.size else { return 0 }
    return Int(clamping: min(UInt64(max(0, count)), facts.size - offset))
  }

  private static func open<Value>(
    _ path: ServedPath, _ way: Way, _ read: (Int32, FileFacts) -> Result<Value, FileFault>
  ) -> Result<Value, FileFault> {
    // O_NONBLOCK: a FIFO opens at once, without its writer. O_NOCTTY: a terminal stays without a session.
    open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, way).flatMap { descriptor in
      defer { close(descriptor) }
      return facts(descriptor).flatMap { before in
        read(descriptor, before).flatMap { value in
          // Bytes from before and after a write must not go as one file.
          facts(descriptor).flatMap { before.kind != .regular || $0 == before ? .success(value) : .failure(.changed) }
        }
      }
    }
  }

  /// Fills the buffer. nil: with all that it has room for.
  private static func fill(
    _ buffer: UnsafeMutableRawBufferPointer, _ filled: inout Int, _ descriptor: Int32, from offset: UInt64
  ) -> FileFault? {
    while filled < buffer.count, let base = buffer.baseAddress {
      let count = pread(descriptor, base + filled, buffer.count - filled, off_t(clamping: offset) + off_t(filled))
      if count < 0, errno == EINTR { continue }
      // Without an error, the file has become shorter since it was looked at.
      guard count > 0 else { return count == 0 ? .changed : .system(call: "pread", code: errno) }
      filled += count
    }
    return nil
  }

  private static func facts(_ descriptor: Int32) -> Result<FileFacts, FileFault> {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return .failure(.system(call: "fstat", code: errno)) }
    // A link that was opened itself, in the stepwise way.
    return FileFacts(status).map { .success($0) } ?? .failure(.system(call: "open", code: ELOOP))
  }

  // MARK: Opening

  static func open(_ path: ServedPath, _ flags: Int32, _ way: Way) -> Result<Int32, FileFault> {
    // A path of the configuration's own: its links are the operator's.
    if path.below.isEmpty { return call { linux_openat(AT_FDCWD, $0, flags | O_CLOEXEC) }(path.folder) }
    let folder = call { linux_openat(AT_FDCWD, $0, linux_o_path() | O_DIRECTORY | O_CLOEXEC) }(path.folder)
    return folder.flatMap { folder in
      defer { close(folder) }
      guard case .whole = way else { return walk(folder, path.below, flags) }
      // A rename beside the walk makes the kernel ask for another try.
      for _ in 0..<8 {
        let opened = call { linux_open_beneath(folder, $0, flags | O_CLOEXEC) }(path.below)
        guard case .failure(.system(_, let code)) = opened else { return opened }
        if code == ENOSYS || code == EPERM { return walk(folder, path.below, flags) }
        if code != EAGAIN { return opened }
      }
      return walk(folder, path.below, flags)
    }
  }

  /// Opens one segment after the other, each without following a link. A `ServedPath` has no `..`.
  private static func walk(_ folder: Int32, _ path: [UInt8], _ flags: Int32) -> Result<Int32, FileFault> {
    let segments = path.split(separator: 0x2F).filter { !$0.elementsEqual([0x2E]) }.map { Array($0) }
    guard let last = segments.last else { return call { linux_openat(folder, $0, flags | O_CLOEXEC) }([0x2E]) }
    var current = folder
    var isOwn = false
    defer { if isOwn { close(current) } }
    for segment in segments.dropLast() {
      let next = call { linux_openat(current, $0, linux_o_path() | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) }(segment)
      guard case .success(let descriptor) = next else { return next.telling(ofLink: segment, in: current) }
      if isOwn { close(current) }
      (current, isOwn) = (descriptor, true)
    }
    let isFolder = path.last == 0x2F || path.suffix(2).elementsEqual([0x2F, 0x2E])
    let opened = call { linux_openat(current, $0, flags | O_NOFOLLOW | O_CLOEXEC | (isFolder ? O_DIRECTORY : 0)) }(last)
    return opened.telling(ofLink: last, in: current)
  }

  private static func call(_ open: @escaping (UnsafePointer<CChar>) -> Int32) -> ([UInt8]) -> Result<Int32, FileFault> {
    { path in
      // errno is read before anything is freed, which may change it.
      (path + [0]).withUnsafeBytes { bytes in
        while true {
          let result = bytes.assumingMemoryBound(to: CChar.self).baseAddress.map(open) ?? -1
          if result >= 0 { return .success(result) }
          let code = errno
          if code != EINTR { return .failure(.system(call: "open", code: code)) }
        }
      }
    }
  }
}

extension FileFacts {
  /// nil: a link.
  init?(_ status: stat) {
    guard status.st_mode & S_IFMT != S_IFLNK else { return nil }
    self.init(
      kind: status.st_mode & S_IFMT == S_IFREG ? .regular : status.st_mode & S_IFMT == S_IFDIR ? .folder : .other,
      size: UInt64(clamping: status.st_size), modified: Int64(status.st_mtim.tv_sec))
    identity = Identity(
      device: UInt64(clamping: status.st_dev), number: UInt64(clamping: status.st_ino),
      modified: status.st_mtim.tv_nsec, changed: status.st_ctim.tv_sec &* 1_000_000_000 &+ status.st_ctim.tv_nsec)
  }
}

extension Result<Int32, FileFault> {
  /// Says ELOOP, as the kernel's own walk does, where a folder was expected and a link is.
  fileprivate func telling(ofLink name: [UInt8], in folder: Int32) -> Self {
    guard case .failure(.system(_, ENOTDIR)) = self else { return self }
    var status = stat()
    let result = (name + [0]).withUnsafeBytes { bytes in
      bytes.assumingMemoryBound(to: CChar.self).baseAddress.map { fstatat(folder, $0, &status, AT_SYMLINK_NOFOLLOW) }
        ?? -1
    }
    guard result == 0, status.st_mode & S_IFMT == S_IFLNK else { return self }
    return .failure(.system(call: "open", code: ELOOP))
  }
}
