import Bytes
import Crypto
import Glibc

/// The files of an authority: how they are read, replaced and locked. What they mean is for others.
///
/// Whoever reads sees the old file or the new one. Root may work here in a folder of another user: no link is followed, be
/// it in place of a file or of a folder in it, also when it comes there in the middle of a change.
package struct AuthorityFolder: Sendable {
  /// Absolute.
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

  /// The most bytes of one file: an index of some half a million certificates.
  static let sizeLimit = 64 << 20

  /// Runs `body` with the folder that this name is in, held open, and the name there; nil when there is no such folder.
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

  /// As `whereIs`; that there is no such folder is an error.
  func inside<Result>(
    _ name: String, _ body: (CInt, String) throws(AuthorityError) -> Result
  ) throws(AuthorityError) -> Result {
    guard let result = try whereIs(name, body) else { throw .system("open", NewFile.folder(of: file(name)), ENOENT) }
    return result
  }

  /// A file of it, open; nil when there is none.
  private func opened(_ name: String) throws(AuthorityError) -> CInt? {
    try whereIs(name) { (folder, leaf) throws(AuthorityError) -> CInt? in
      let descriptor = openat(folder, leaf, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)
      if descriptor < 0, errno != ENOENT { throw .system("open", file(name)) }
      return descriptor < 0 ? nil : descriptor
    } ?? nil
  }

  /// A file of it, open for adding to its end. nil: there is none, or it may only be replaced, as one that has another
  /// name too: who may write the folder may have put anything in its place.
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

  /// nil: there is no such file.
  func read(_ name: String) throws(AuthorityError) -> [UInt8]? {
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

  /// The names in a folder of it, or with an empty name in itself; none when there is no such folder.
  func names(in name: String) throws(AuthorityError) -> [String] {
    try whereIs(name.isEmpty ? "" : "\(name)/") { (folder, _) throws(AuthorityError) in
      do throws(DirectoryFault) { return try namesInDirectory(folder) } catch {
        throw .system("readdir", file(name), error.code)
      }
    } ?? []
  }
}
