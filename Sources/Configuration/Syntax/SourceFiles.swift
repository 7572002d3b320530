import Glibc

/// Where configuration text comes from: the disk, or memory for tests and fuzzing.
package struct SourceFiles: Sendable {
  /// A file that could not be read, and why in words.
  package struct Unreadable: Error {
    package var reason: String
    package init(reason: String) { self.reason = reason }
  }

  /// The bytes of a file, at most `limit` of them.
  package var read: @Sendable (_ path: String, _ limit: Int) -> Result<[UInt8], Unreadable>
  /// The paths that match a pattern, sorted. A folder that may not be read is no folder without matches: a reload by a
  /// user who can't see it would drop what is in it.
  package var expand: @Sendable (_ pattern: String) -> Result<[String], Unreadable>

  package init(
    read: @escaping @Sendable (String, Int) -> Result<[UInt8], Unreadable>,
    expand: @escaping @Sendable (String) -> Result<[String], Unreadable>
  ) {
    self.read = read
    self.expand = expand
  }

  package static let disk = SourceFiles(read: readFromDisk, expand: expandOnDisk)

  /// No file but the text given: an `include` finds nothing.
  package static let none = SourceFiles(
    read: { _, _ in .failure(Unreadable(reason: "no such file or directory")) }, expand: { _ in .success([]) })
}

/// Reads a regular file. Never waits: a FIFO, a device or a directory is refused.
private func readFromDisk(_ path: String, _ limit: Int) -> Result<[UInt8], SourceFiles.Unreadable> {
  let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
  guard descriptor >= 0 else { return .failure(.init(reason: systemReason())) }
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
  // With GLOB_ERR glibc also ends at a folder that is not there, and that one has no matches.
  if outcome == GLOB_ABORTED { return errno == ENOENT ? .success([]) : .failure(.init(reason: systemReason())) }
  guard outcome == 0, let paths = result.gl_pathv else { return .success([]) }
  return .success((0..<Int(result.gl_pathc)).compactMap { index in paths[index].map { String(cString: $0) } })
}

private func systemReason() -> String {
  guard let text = strerror(errno) else { return "error \(errno)" }
  return String(cString: text).lowercased()
}
