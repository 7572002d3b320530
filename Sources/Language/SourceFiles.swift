import Glibc

/// The source of configuration text: the disk, or memory for tests and fuzzing.
package struct SourceFiles: Sendable {
  /// Why a file could not be read, as text.
  package struct Unreadable: Error {
    package var reason: String
    /// There is no such file.
    package var isMissing: Bool
    package init(reason: String, isMissing: Bool = false) {
      self.reason = reason
      self.isMissing = isMissing
    }
  }

  /// Reads the bytes of a file, at most `limit` of them.
  package var read: @Sendable (_ path: String, _ limit: Int) -> Result<[UInt8], Unreadable>
  /// Returns the sorted paths that match a pattern. An unreadable folder is an error, not a folder without matches:
  /// otherwise a reload by a user without access would drop the folder's files.
  package var expand: @Sendable (_ pattern: String) -> Result<[String], Unreadable>

  package init(
    read: @escaping @Sendable (String, Int) -> Result<[UInt8], Unreadable>,
    expand: @escaping @Sendable (String) -> Result<[String], Unreadable>
  ) {
    self.read = read
    self.expand = expand
  }

  package static let disk = SourceFiles(read: readFromDisk, expand: expandOnDisk)

  /// A source without files: an `include` finds no file.
  package static let none = SourceFiles(
    read: { _, _ in .failure(Unreadable(reason: "no such file or directory", isMissing: true)) },
    expand: { _ in .success([]) })
}

/// Reads a regular file without blocking: refuses a FIFO, a device and a directory.
private func readFromDisk(_ path: String, _ limit: Int) -> Result<[UInt8], SourceFiles.Unreadable> {
  let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
  guard descriptor >= 0 else { return .failure(.init(reason: systemReason(), isMissing: errno == ENOENT)) }
  defer { close(descriptor) }
  var status = stat()
  guard fstat(descriptor, &status) == 0 else { return .failure(.init(reason: systemReason())) }
  guard status.st_mode & S_IFMT == S_IFREG else { return .failure(.init(reason: "it is not a regular file")) }
  var bytes: [UInt8] = []
  var chunk = [UInt8](repeating: 0, count: 65_536)
  while true {
    let count = read(descriptor, &chunk, chunk.count)
    if count < 0 {
      if errno == EINTR { continue }
      return .failure(.init(reason: systemReason()))
    }
    if count == 0 { return .success(bytes) }
    bytes += chunk[..<count]
    guard bytes.count <= limit else { return .failure(.init(reason: "it is larger than \(limit >> 20) MiB")) }
  }
}

private func expandOnDisk(_ pattern: String) -> Result<[String], SourceFiles.Unreadable> {
  var result = glob_t()
  defer { globfree(&result) }
  let outcome = glob(pattern, GLOB_ERR, nil, &result)
  // With GLOB_ERR, glibc also stops at a folder that does not exist; such a folder has no matches.
  if outcome == GLOB_ABORTED { return errno == ENOENT ? .success([]) : .failure(.init(reason: systemReason())) }
  guard outcome == 0, let paths = result.gl_pathv else { return .success([]) }
  return .success((0..<Int(result.gl_pathc)).compactMap { index in paths[index].map { String(cString: $0) } })
}

private func systemReason() -> String {
  guard let text = strerror(errno) else { return "error \(errno)" }
  return String(cString: text).lowercased()
}
