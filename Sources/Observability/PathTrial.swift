import CLinux
import Glibc

/// What would keep this process from writing to a path, found out without an effect: nothing is made or opened.
package enum PathTrial {
  /// The errno of opening a file for writing, or of making it where there is none; nil: it could be opened.
  package static func faultOfWriting(_ path: String) -> Int32? {
    var status = stat()
    if stat(path, &status) == 0 {
      if status.st_mode & S_IFMT == S_IFDIR { return EISDIR }
      return access(path, W_OK) == 0 ? nil : errno
    }
    return errno == ENOENT ? faultOfMaking(path) : errno
  }

  /// The errno of making a file or folder where there is none; nil: it could be made.
  package static func faultOfMaking(_ path: String) -> Int32? {
    var folder = path
    while folder.hasSuffix("/"), folder != "/" { folder.removeLast() }
    folder = folder.utf8.lastIndex(of: UInt8(ascii: "/")).map { String(folder[...$0]) } ?? "."
    return access(folder, W_OK | X_OK) == 0 ? nil : errno
  }
}
