import Glibc

/// What nginx's `if (-f …)` asks about a file. The call blocks, so no event loop makes it.
public enum FileTest: Sendable, Hashable {
  /// `-f`: a regular file.
  case plain
  /// `-d`
  case directory
  /// `-e`: a regular file or a directory; as in nginx, a device is neither.
  case exists
  /// `-x`: its owner may execute it.
  case executable

  public enum Outcome: Sendable, Hashable {
    case holds
    case fails
    /// The system refused to say, as for a folder without rights: the number is errno. nginx takes it for `fails`.
    case unknown(Int32)
  }

  /// Looks at the file, and follows links. A path with a NUL byte names no file.
  public func look(at path: [UInt8]) -> Outcome {
    guard !path.contains(0) else { return .fails }
    var status = stat()
    let result = (path + [0]).withUnsafeBufferPointer { bytes in
      bytes.withMemoryRebound(to: CChar.self) { text in text.baseAddress.map { stat($0, &status) } ?? -1 }
    }
    guard result == 0 else {
      let fault = errno
      return [ENOENT, ENOTDIR, ENAMETOOLONG].contains(fault) ? .fails : .unknown(fault)
    }
    let kind = status.st_mode & S_IFMT
    let isTrue =
      switch self {
      case .plain: kind == S_IFREG
      case .directory: kind == S_IFDIR
      case .exists: kind == S_IFREG || kind == S_IFDIR
      case .executable: status.st_mode & S_IXUSR != 0
      }
    return isTrue ? .holds : .fails
  }
}
