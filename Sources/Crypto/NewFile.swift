package import Bytes
import Glibc

/// Writes files that must never be half written. A file is complete, synced and has its mode from the first byte, or
/// does not exist. Blocks, so never use it on an event loop.
package enum NewFile {
  /// A failed system call.
  package struct Failure: Error, Sendable, Hashable, CustomStringConvertible {
    package let call: String
    package let path: String
    /// The value of errno.
    package let code: CInt

    package init(_ call: String, _ path: String, _ code: CInt = errno) {
      self.call = call
      self.path = path
      self.code = code
    }

    package var description: String {
      "\(call)() \"\(path)\" failed (\(code): \(String(cString: strerror(code))))"
    }
  }

  /// Writes a file that does not exist yet. Run by root, it gives the file to the owner of `folder`, whose server must
  /// read it.
  ///
  /// `base`: the descriptor of the directory that resolves a relative path.
  package static func write(
    _ contents: SecretBytes, to path: String, in base: CInt = AT_FDCWD, mode: UInt32, ownerOf folder: String? = nil
  ) throws(Failure) {
    let descriptor = openat(base, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 0o600)
    guard descriptor >= 0 else { throw Failure("open", path) }
    defer { close(descriptor) }
    do throws(Failure) {
      try contents.withUnsafeBytes { (bytes) throws(Failure) in try write(bytes, to: descriptor, path) }
      var owner = stat()
      if let folder, geteuid() == 0, stat(folder, &owner) == 0, owner.st_uid != 0 || owner.st_gid != 0 {
        guard fchown(descriptor, owner.st_uid, owner.st_gid) == 0 else { throw Failure("fchown", path) }
      }
      guard fchmod(descriptor, mode) == 0 else { throw Failure("fchmod", path) }
      guard fsync(descriptor) == 0 else { throw Failure("fsync", path) }
    } catch {
      unlinkat(base, path, 0)
      throw error
    }
  }

  /// Writes all of the bytes. `path`: for the error.
  static func write(_ bytes: UnsafeRawBufferPointer, to descriptor: CInt, _ path: String) throws(Failure) {
    var written = 0
    while written < bytes.count, let base = bytes.baseAddress {
      let count = Glibc.write(descriptor, base + written, bytes.count - written)
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { throw Failure("write", path) }
      written += count
    }
  }

  /// Creates or atomically replaces a file: a reader sees the old content or the new content. `isShared`: somebody else
  /// may replace it at the same time, such as the process that this one takes the place of. With one draft for both,
  /// the file could get half of the other's.
  package static func replace(
    _ path: String, _ contents: SecretBytes, mode: UInt32, isShared: Bool = false
  ) throws(Failure) {
    let draft = isShared ? "\(path).\(String(UInt32.random(in: 0 ... .max), radix: 16)).new" : "\(path).new"
    unlink(draft)
    try write(contents, to: draft, mode: mode)
    guard rename(draft, path) == 0 else {
      let failure = Failure("rename", path)
      unlink(draft)
      throw failure
    }
    try sync(folder(of: path))
  }

  /// The seconds after which no process is still writing a draft.
  private static let longestWrite = 60

  /// Removes the drafts of a file that is replaced with `isShared`, which a process has left that ended while it wrote them. A
  /// young one may be that of a process beside this one, and one of another user isn't ours. `now`: seconds since 1970.
  package static func removeDrafts(of path: String, now: Int = time(nil)) {
    let folder = folder(of: path)
    let start = (path.lastIndex(of: "/").map { String(path[path.index(after: $0)...]) } ?? path) + ".", end = ".new"
    for name in (try? namesInDirectory(folder)) ?? []
    where name.hasPrefix(start) && name.hasSuffix(end) && name.utf8.count > start.utf8.count + end.utf8.count {
      let mark = name.dropFirst(start.count).dropLast(end.count), draft = "\(folder)/\(name)"
      var state = stat()
      guard mark.utf8.count <= 10, mark.allSatisfy(\.isHexDigit), lstat(draft, &state) == 0,
        state.st_mode & S_IFMT == S_IFREG, state.st_uid == geteuid(), state.st_mtim.tv_sec < now &- longestWrite
      else { continue }
      unlink(draft)
    }
  }

  private static let mostSetAside = 99

  /// Gives a damaged file another name, `….damaged` or `….damaged.2` and so on, so that what takes its place doesn't replace
  /// it. Returns that name. With 99 of them, the last one is replaced.
  package static func setAside(_ path: String) throws(Failure) -> String {
    let names = ["\(path).damaged"] + (2...mostSetAside).map { "\(path).damaged.\($0)" }
    let name = names.first { access($0, F_OK) != 0 } ?? "\(path).damaged.\(mostSetAside)"
    guard rename(path, name) == 0 else { throw Failure("rename", path) }
    try sync(folder(of: path))
    return name
  }

  /// Syncs a directory's entries to the disk.
  package static func sync(_ folder: String) throws(Failure) {
    let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw Failure("open", folder) }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else { throw Failure("fsync", folder) }
  }

  package static func folder(of path: String) -> String {
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }
}
