package import Bytes
import Glibc

/// A file that is to be replaced by content that does not exist yet. Its room on the disk is taken at once, so that
/// what is hard to get, such as a certificate, is not asked for when it could not be kept. Blocks, so never use it on
/// an event loop.
package struct ReservedFile: ~Copyable, Sendable {
  private let descriptor: CInt
  private let path: String
  private let draft: String
  private var isPlaced = false

  /// `bytes`: the room that is taken. Longer content may still find some. Mode 0600.
  package init(_ path: String, bytes: Int) throws(NewFile.Failure) {
    let draft = "\(path).new"
    unlink(draft)
    let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw NewFile.Failure("open", draft) }
    do throws(NewFile.Failure) {
      try SecretBytes([UInt8](repeating: 0, count: bytes)).withUnsafeBytes { (zeros) throws(NewFile.Failure) in
        try NewFile.write(zeros, to: descriptor, draft)
      }
      guard fchmod(descriptor, 0o600) == 0 else { throw NewFile.Failure("fchmod", draft) }
      guard fsync(descriptor) == 0 else { throw NewFile.Failure("fsync", draft) }
    } catch {
      close(descriptor)
      unlink(draft)
      throw error
    }
    self.path = path
    self.draft = draft
    self.descriptor = descriptor
  }

  deinit {
    close(descriptor)
    if !isPlaced { unlink(draft) }
  }

  /// Puts the content in the file's place: a reader sees the old content or the new content.
  package mutating func replace(_ contents: SecretBytes) throws(NewFile.Failure) {
    let (descriptor, draft) = (descriptor, draft)
    guard lseek(descriptor, 0, SEEK_SET) == 0 else { throw NewFile.Failure("lseek", draft) }
    try contents.withUnsafeBytes { (bytes) throws(NewFile.Failure) in
      try NewFile.write(bytes, to: descriptor, draft)
      guard ftruncate(descriptor, off_t(bytes.count)) == 0 else { throw NewFile.Failure("ftruncate", draft) }
    }
    guard fsync(descriptor) == 0 else { throw NewFile.Failure("fsync", draft) }
    guard rename(draft, path) == 0 else { throw NewFile.Failure("rename", path) }
    isPlaced = true
    try NewFile.sync(NewFile.folder(of: path))
  }
}
