import Glibc

extension FileFault {
  static let absent: Set<Int32> = [ENOENT, ENOTDIR, ENAMETOOLONG]
  static let refused: Set<Int32> = [EACCES, ELOOP, EMLINK, EXDEV]

  /// nginx's words, without the path: `open() "…" failed (2: No such file or directory)`.
  public func description(of path: String) -> String {
    switch self {
    case .system(let call, let code):
      "\(call)() \"\(path)\" failed (\(code): \(strerror(code).map { String(cString: $0) } ?? "?"))"
    case .tooManyEntries(let limit): "\"\(path)\" has more than \(limit) entries, which is too many to list"
    case .changed: "\"\(path)\" has changed while it was sent"
    }
  }
}
