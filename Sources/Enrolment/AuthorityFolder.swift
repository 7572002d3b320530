import Bytes
import Crypto
import Glibc

/// Reads, replaces and opens the files of an authority. Other types know what the files mean.
///
/// A reader sees the old file or the new one. Root may work here in another user's directory, so it follows no symbolic
/// link to a file or a subdirectory. That holds even for a link that appears in the middle of a change.
package struct AuthorityFolder: Sendable {
  /// An absolute path.
  package let path: String
  let interruption: Interruption?

  package init(_ path: String, interruption: Interruption? = nil) throws(AuthorityError) {
    guard let resolved = realpath(path, nil) else {
      throw AuthorityError(
        "\"\(path)\" can't be opened: \(String(cString: strerror(errno))); expected the folder of an authority",
        hint: "`sallyport ca init DIR` makes one")
    }
    self.path = String(cString: resolved)
    self.interruption = interruption
    free(resolved)
  }

  func file(_ name: String) -> String { "\(path)/\(name)" }

  /// The largest size of a file in bytes: an index of about half a million certificates.
  static let sizeLimit = 64 << 20

  /// Runs `body` with an open descriptor of the directory that holds the file, and the file's name in it. Returns nil
  /// when the directory does not exist.
  private func whereIs<Result>(
    _ name: String, _ body: (CInt, String) throws(AuthorityError) -> Result
  ) throws(AuthorityError) -> Result? {
    let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
    var descriptor = open(path, flags)
    guard descriptor >= 0 else { throw .system("open", path) }
    defer { close(descriptor) }
    guard let slash = name.lastIndex(of: "/") else { return try body(descriptor, name) }
    let inner = openat(descriptor, String(name[..<slash]), flags)
    guard inner >= 0 else {
      if errno == ENOENT { return nil }
      throw .system("open", file(String(name[..<slash])))
    }
    close(descriptor)
    descriptor = inner
    return try body(descriptor, String(name[name.index(after: slash)...]))
  }

  /// Runs `body` like `whereIs`, but throws when the directory does not exist.
  func inside<Result>(
    _ name: String, _ body: (CInt, String) throws(AuthorityError) -> Result
  ) throws(AuthorityError) -> Result {
    guard let result = try whereIs(name, body) else { throw .system("open", NewFile.folder(of: file(name)), ENOENT) }
    return result
  }

  /// Opens a file; nil when it does not exist.
  private func opened(_ name: String) throws(AuthorityError) -> CInt? {
    try whereIs(name) { (folder, leaf) throws(AuthorityError) -> CInt? in
      let descriptor = openat(folder, leaf, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)
      if descriptor < 0, errno != ENOENT { throw .system("open", file(name)) }
      return descriptor < 0 ? nil : descriptor
    } ?? nil
  }

  /// Opens a file for appending. Returns nil when it does not exist or may only be replaced, such as a file with a
  /// second hard link: another user who can write the directory may have put any file in its place.
  func openedForAppending(_ name: String) throws(AuthorityError) -> CInt? {
    try whereIs(name) { (folder, leaf) throws(AuthorityError) -> CInt? in
      let descriptor = openat(folder, leaf, O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)
      guard descriptor >= 0 else { return nil }
      var status = stat()
      guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_nlink == 1 else {
        close(descriptor)
        return nil
      }
      return descriptor
    } ?? nil
  }

  func remove(_ name: String) throws(AuthorityError) {
    _ = try whereIs(name) { (folder, leaf) throws(AuthorityError) in unlinkat(folder, leaf, 0) }
  }

  /// Returns nil when the file does not exist.
  package func read(_ name: String) throws(AuthorityError) -> [UInt8]? {
    guard let descriptor = try opened(name) else { return nil }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw .system("fstat", file(name)) }
    guard status.st_mode & S_IFMT == S_IFREG, Int(status.st_size) <= Self.sizeLimit else {
      throw AuthorityError("\"\(file(name))\" is no file, or larger than \(Self.sizeLimit >> 20) MiB")
    }
    var bytes: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: max(4096, Int(status.st_size) + 1))
    while bytes.count <= Self.sizeLimit {
      let count = Glibc.read(descriptor, &piece, piece.count)
      if count < 0 && errno == EINTR { continue }
      guard count >= 0 else { throw .system("read", file(name)) }
      if count == 0 { return bytes }
      bytes += piece.prefix(count)
    }
    throw AuthorityError("\"\(file(name))\" is larger than \(Self.sizeLimit >> 20) MiB")
  }

  /// Replaces one file.
  func replace(_ name: String, _ contents: SecretBytes, mode: mode_t = 0o644) throws(AuthorityError) {
    var change = FolderChange(self)
    try change.stage(name, contents, mode: mode)
    _ = try change.publish()
  }

  func replace(_ name: String, text: String, mode: mode_t = 0o644) throws(AuthorityError) {
    try replace(name, SecretBytes(Array(text.utf8)), mode: mode)
  }

  /// Returns the names in a subdirectory, or for an empty name in the directory itself; empty when it does not exist.
  func names(in name: String) throws(AuthorityError) -> [String] {
    try whereIs(name.isEmpty ? "" : "\(name)/") { (folder, _) throws(AuthorityError) in
      do throws(DirectoryError) { return try namesInDirectory(folder) } catch {
        throw .system("readdir", file(name), error.code)
      }
    } ?? []
  }
}
