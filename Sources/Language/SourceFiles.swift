import Glibc

/// The source of configuration text: the disk, or memory for tests and fuzzing.
package struct SourceFiles: Sendable {
  /// Why a file could not be read, as text.
  package struct Unreadable: Error {
    package var reason: String
    /// There is no such file.
    package var isMissing: Bool
    /// This process may not read it.
    package var isForbidden: Bool
    package init(reason: String, isMissing: Bool = false, isForbidden: Bool = false) {
      self.reason = reason
      self.isMissing = isMissing
      self.isForbidden = isForbidden
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

  /// The same files, with those that this process may not read taken from `other`. A fault then has the reasons of both.
  package func completed(by other: SourceFiles) -> SourceFiles {
    @Sendable func first<Found>(
      _ own: Result<Found, Unreadable>, _ ask: () -> Result<Found, Unreadable>
    ) -> Result<Found, Unreadable> {
      guard case .failure(let fault) = own, fault.isForbidden else { return own }
      return ask().mapError { refusal in
        Unreadable(reason: "\(fault.reason); \(refusal.reason)", isMissing: refusal.isMissing)
      }
    }
    return SourceFiles(
      read: { [read] path, limit in first(read(path, limit)) { other.read(path, limit) } },
      expand: { [expand] pattern in first(expand(pattern)) { other.expand(pattern) } })
  }

  /// A source without files: an `include` finds no file.
  package static let none = SourceFiles(
    read: { _, _ in .failure(Unreadable(reason: "no such file or directory", isMissing: true)) },
    expand: { _ in .success([]) })
}

/// Reads a regular file without blocking: refuses a FIFO, a device and a directory.
private func readFromDisk(_ path: String, _ limit: Int) -> Result<[UInt8], SourceFiles.Unreadable> {
  let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
  guard descriptor >= 0 else { return .failure(systemFault(errno)) }
  defer { close(descriptor) }
  return SourceFiles.contents(of: descriptor, limit)
}

extension SourceFiles {
  /// Reads an open file from its start, at most `limit` bytes. Refuses what is no regular file. The caller closes it.
  package static func contents(of descriptor: Int32, _ limit: Int) -> Result<[UInt8], Unreadable> {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return .failure(systemFault(errno)) }
    guard status.st_mode & S_IFMT == S_IFREG else { return .failure(.init(reason: "it is not a regular file")) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = Glibc.read(descriptor, &chunk, chunk.count)
      if count < 0 {
        if errno == EINTR { continue }
        return .failure(systemFault(errno))
      }
      if count == 0 { return .success(bytes) }
      bytes += chunk[..<count]
      guard bytes.count <= limit else { return .failure(.init(reason: "it is larger than \(limit >> 20) MiB")) }
    }
  }
}

private func expandOnDisk(_ pattern: String) -> Result<[String], SourceFiles.Unreadable> {
  var result = glob_t()
  defer { globfree(&result) }
  let outcome = glob(pattern, GLOB_ERR, nil, &result)
  // With GLOB_ERR, glibc also stops at a folder that does not exist; such a folder has no matches.
  if outcome == GLOB_ABORTED { return errno == ENOENT ? .success([]) : .failure(systemFault(errno)) }
  guard outcome == 0, let paths = result.gl_pathv else { return .success([]) }
  return .success((0..<Int(result.gl_pathc)).compactMap { index in paths[index].map { String(cString: $0) } })
}

private func systemFault(_ code: Int32) -> SourceFiles.Unreadable {
  let reason = strerror(code).map { String(cString: $0).lowercased() } ?? "error \(code)"
  return .init(reason: reason, isMissing: code == ENOENT, isForbidden: code == EACCES || code == EPERM)
}
