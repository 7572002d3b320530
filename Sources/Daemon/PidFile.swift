import Glibc
import Observability

/// Why the `pid` file can't be written.
package struct PidFileError: Error, Sendable, CustomStringConvertible {
  package let description: String
}

/// The `pid` file. The process opens it before it drops privileges, and writes it once every socket listens.
///
/// A stale file is overwritten. A symbolic link is never followed: in a directory that others may write to, it could
/// name any file. The file is recognised by its inode, so that the file of a later process is not removed.
package final class PidFile: Sendable {
  private let path: String
  private let descriptor: Int32
  private let isFresh: Bool

  /// Opens the file without changing its content: the process that it names may be alive.
  package init(opening path: String) throws(PidFileError) {
    self.path = path
    let flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY
    var opened = open(path, flags | O_CREAT | O_EXCL, 0o644)
    isFresh = opened >= 0
    if opened < 0 && errno == EEXIST { opened = open(path, flags) }
    guard opened >= 0 else { throw Self.fault(path, errno) }
    var status = stat()
    guard fstat(opened, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      close(opened)
      throw Self.isNoFile(path)
    }
    descriptor = opened
  }

  deinit { close(descriptor) }

  /// Finds out whether a start could open the file. Changes nothing.
  static func tryToOpen(_ path: String) throws(PidFileError) {
    var status = stat()
    if lstat(path, &status) == 0 {
      if status.st_mode & S_IFMT == S_IFLNK { throw fault(path, ELOOP) }
      if status.st_mode & S_IFMT != S_IFREG { throw isNoFile(path) }
    }
    if let code = PathTrial.faultOfWriting(path) { throw fault(path, code) }
  }

  private static func fault(_ path: String, _ code: Int32) -> PidFileError {
    PidFileError(
      description: "open() \"\(path)\" failed (\(code): \(String(cString: strerror(code)))): "
        + (code == ELOOP
          ? "a pid file must not be a symbolic link"
          : "its folder must exist, and sallyport must be allowed to write there"))
  }

  private static func isNoFile(_ path: String) -> PidFileError {
    PidFileError(description: "\"\(path)\" is no regular file: name another pid file")
  }

  package func write() throws(PidFileError) {
    let text = Array("\(getpid())\n".utf8)
    guard ftruncate(descriptor, 0) == 0, pwrite(descriptor, text, text.count, 0) == text.count else {
      let code = errno
      throw PidFileError(description: "write() to \"\(path)\" failed (\(code): \(String(cString: strerror(code))))")
    }
  }

  /// Removes the file after a failed start, if this process created it.
  package func abandon() {
    if isFresh && isStillOurs { unlink(path) }
  }

  /// Removes the file at the end of the process. Without privileges, the process may be unable to remove it; then it
  /// empties the file. The open descriptor always refers to what this process wrote, wherever the name leads now.
  package func remove() {
    if isStillOurs, unlink(path) == 0 { return }
    _ = ftruncate(descriptor, 0)
  }

  /// Whether the path still leads to the file that is open here.
  private var isStillOurs: Bool {
    var there = stat()
    var ours = stat()
    return lstat(path, &there) == 0 && fstat(descriptor, &ours) == 0 && there.st_ino == ours.st_ino
      && there.st_dev == ours.st_dev
  }
}
