import Glibc

/// The state of a file at one time. While the state stays equal, the file need not be read again.
package struct FileStamp: Sendable, Equatable {
  package let isDirectory: Bool
  private let device: UInt64
  private let inode: UInt64
  private let size: Int64
  /// Seconds and nanoseconds.
  private let changed: [Int]
  private let modified: [Int]

  /// Returns nil when stat(2) fails, with its errno. Blocks if the file system does.
  package init?(_ path: String) {
    var status = stat()
    if stat(path, &status) == 0 {
      self.init(status)
      return
    }
    switch PrivilegedFiles.instead(of: errno, path) {
    case .success(let descriptor):
      defer { close(descriptor) }
      self.init(descriptor: descriptor)
    case .failure(let refusal):
      errno = refusal.code
      return nil
    }
  }

  /// Reads the state of an open file.
  package init?(descriptor: CInt) {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return nil }
    self.init(status)
  }

  private init(_ status: stat) {
    isDirectory = status.st_mode & S_IFMT == S_IFDIR
    device = UInt64(status.st_dev)
    inode = UInt64(status.st_ino)
    size = Int64(status.st_size)
    changed = [status.st_ctim.tv_sec, status.st_ctim.tv_nsec]
    modified = [status.st_mtim.tv_sec, status.st_mtim.tv_nsec]
  }
}

extension FileStamp {
  /// Returns the state of each file; nil when a reference is not to a file (`store:`) or stat(2) fails.
  package static func all(_ references: [MaterialReference]) -> [FileStamp]? {
    let stamps = references.compactMap { reference in
      (try? reference.resolvedPath(expecting: .certificate)).flatMap { FileStamp($0) }
    }
    return stamps.count == references.count ? stamps : nil
  }
}
