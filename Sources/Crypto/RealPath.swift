import Glibc

extension MaterialReference {
  /// The path of the file, or of `inner` in the directory, without links, `.` and `..`. If the path does not exist,
  /// only `.` and `..` are removed. Returns nil for a reference that is not to a file.
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
