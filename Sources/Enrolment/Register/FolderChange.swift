import Bytes
import Crypto
import Glibc

/// Replaces several files of a directory together. All are written beside the old ones first, so that a full disk
/// changes nothing. Then they are renamed one by one, in the order in which they were staged.
struct FolderChange: ~Copyable {
  private let folder: AuthorityFolder
  private var drafts: [String] = []

  init(_ folder: AuthorityFolder) { self.folder = folder }

  /// Removes drafts that were not published, except after a simulated crash.
  deinit {
    if folder.interruption?.isUnused != false { for name in drafts { try? folder.remove("\(name).draft") } }
  }

  mutating func stage(_ name: String, _ contents: SecretBytes, mode: mode_t = 0o644) throws(AuthorityError) {
    try folder.inside(name) { (place, leaf) throws(AuthorityError) in
      let draft = "\(leaf).draft"
      unlinkat(place, draft, 0)
      do throws(NewFile.Failure) {
        try NewFile.write(contents, to: draft, in: place, mode: mode, ownerOf: folder.path)
      } catch {
        throw .system(error.call, folder.file("\(name).draft"), error.code)
      }
    }
    drafts.append(name)
    try folder.interruption?.step()
  }

  /// Renames the drafts. `unchanged`: a file and its expected state; if the state differs, nothing changes and the
  /// result is false.
  consuming func publish(unchanged: (name: String, stamp: FileStamp?)? = nil) throws(AuthorityError) -> Bool {
    if let unchanged, FileStamp(folder.file(unchanged.name)) != unchanged.stamp { return false }
    try rename(drafts)
    return true
  }

  /// Renames the drafts, then appends a line to a file. The drafts must be new files: if the line can't be written,
  /// they are removed again.
  ///
  /// Returns the file's new state. Returns nil, and changes nothing, when its old state differs from `stamp`.
  consuming func publish(
    appending line: String, to name: String, _ descriptor: CInt, unchanged stamp: FileStamp?
  ) throws(AuthorityError) -> FileStamp? {
    var status = stat()
    guard fstat(descriptor, &status) == 0, FileStamp(descriptor: descriptor) == stamp else { return nil }
    try rename(drafts)
    let bytes = Array(line.utf8)
    let count = write(descriptor, bytes, bytes.count)
    guard count == bytes.count, fsync(descriptor) == 0 else {
      let error = AuthorityError.system("write", folder.file(name), count < 0 ? errno : ENOSPC)
      // An incomplete line could be read as that of another certificate.
      if ftruncate(descriptor, status.st_size) == 0 { for name in drafts { try? folder.remove(name) } }
      throw error
    }
    try folder.interruption?.step()
    return FileStamp(descriptor: descriptor)
  }

  private func rename(_ names: [String]) throws(AuthorityError) {
    for name in names {
      try folder.inside(name) { (place, leaf) throws(AuthorityError) in
        guard renameat(place, "\(leaf).draft", place, leaf) == 0 else { throw .system("rename", folder.file(name)) }
        try folder.interruption?.step()
        guard fsync(place) == 0 else { throw .system("fsync", NewFile.folder(of: folder.file(name))) }
      }
    }
  }
}
