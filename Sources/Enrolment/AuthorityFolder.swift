import Bytes
import Crypto
import Glibc

/// The files of an authority: how they are read, replaced and locked. What they mean is for others.
///
/// Whoever reads sees the old file or the new one.
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

  /// nil: there is no such file.
  func read(_ name: String) throws(AuthorityError) -> [UInt8]? {
    let descriptor = open(file(name), O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else {
      if errno == ENOENT { return nil }
      throw .system("open", file(name))
    }
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

  /// The names in a folder of it; none when there is no such folder.
  func names(in name: String) -> [String] {
    guard let listing = opendir(file(name)) else { return [] }
    defer { closedir(listing) }
    var names: [String] = []
    while let entry = readdir(listing) {
      names.append(
        withUnsafePointer(to: &entry.pointee.d_name) { start in
          start.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        })
    }
    return names
  }
}

/// Files of a folder that are replaced together: all are written beside the old ones first, so that a lack of space
/// changes nothing, and then renamed one by one, in the order in which they were staged.
struct FolderChange: ~Copyable {
  private let folder: AuthorityFolder
  private var drafts: [String] = []

  init(_ folder: AuthorityFolder) { self.folder = folder }

  /// Drafts that were not published go, but for those of a crash.
  deinit {
    if folder.interruption?.isUnused != false { for name in drafts { unlink(folder.file("\(name).draft")) } }
  }

  mutating func stage(_ name: String, _ contents: SecretBytes, mode: mode_t = 0o644) throws(AuthorityError) {
    let draft = folder.file("\(name).draft")
    unlink(draft)
    try AuthorityError.system { () throws(NewFile.Failure) in
      try NewFile.write(contents, to: draft, mode: mode, ownerOf: folder.path)
    }
    drafts.append(name)
    try folder.interruption?.step()
  }

  /// `unchanged`: a file and how it looked; when it looks otherwise by now nothing happens, and false is returned.
  consuming func publish(unchanged: (name: String, stamp: FileStamp?)? = nil) throws(AuthorityError) -> Bool {
    if let unchanged, FileStamp(folder.file(unchanged.name)) != unchanged.stamp { return false }
    for name in drafts {
      let path = folder.file(name)
      guard rename("\(path).draft", path) == 0 else { throw .system("rename", path) }
      try folder.interruption?.step()
      try AuthorityError.system { () throws(NewFile.Failure) in try NewFile.sync(NewFile.folder(of: path)) }
    }
    return true
  }
}
