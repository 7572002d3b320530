import Glibc

extension MaterialReference {
  /// The file that is meant, or one of the folder that is, whatever leads there: without links, `.` and `..`; while it is not
  /// there, what its path comes to by itself. nil for what is no file.
  package func realPath(_ inner: String? = nil) -> String? {
    guard let path = try? resolvedPath(expecting: .certificate) else { return nil }
    let whole = inner.map { "\(path)/\($0)" } ?? path
    if let resolved = realpath(whole, nil) {
      defer { free(resolved) }
      return String(cString: resolved)
    }
    var parts: [Substring] = []
    for part in whole.split(separator: "/") where part != "." {
      if part == "..", let last = parts.last, last != ".." { parts.removeLast() } else { parts.append(part) }
    }
    return (whole.hasPrefix("/") ? "/" : "") + parts.joined(separator: "/")
  }
}
