import Bytes
import Crypto
import Glibc

/// Files of a folder that are replaced together: all are written beside the old ones first, so that a lack of space
/// changes nothing, and then renamed one by one, in the order in which they were staged.
struct FolderChange: ~Copyable {
  private let folder: AuthorityFolder
  private var drafts: [String] = []

  init(_ folder: AuthorityFolder) { self.folder = folder }

  /// Drafts that were not published go, but for those of a crash.
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

  /// `unchanged`: a file and how it looked; when it looks otherwise by now nothing happens, and false is returned.
  consuming func publish(unchanged: (name: String, stamp: FileStamp?)? = nil) throws(AuthorityError) -> Bool {
    if let unchanged, FileStamp(folder.file(unchanged.name)) != unchanged.stamp { return false }
    try rename(drafts)
    return true
  }

  /// The same, and then adds a line to the end of a file that stays in its place. What is staged must be new files: when
  /// the line can't be written, they are removed again.
  ///
  /// Returns how the file looks now; nil when it looked otherwise than `stamp` says, and then nothing happened.
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
      // A line without its end could be taken for one of another certificate.
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
