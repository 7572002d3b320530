import Configuration
import Crypto
import Glibc
import Loading
import Observability
import Language

/// A configuration file and its formatted text, for `sallyport format`.
package struct FormattedFile {
  package struct Failure: Error {
    /// nil: it has been said.
    package let text: String?
    package init(text: String?) { self.text = text }
  }

  private let path: String
  private let before: [UInt8]
  private let after: [UInt8]

  /// Reads and formats a file; `-` is standard input.
  package init(_ path: String) throws(Failure) {
    self.path = path
    let read = path == "-" ? StandardInput.text : SourceFiles.disk.read(path, Parser.maximumFileSize)
    switch read {
    case .failure(let fault): throw Failure(text: "error: cannot read \"\(path)\": \(fault.reason)")
    case .success(let bytes): before = bytes
    }
    do throws(ConfigurationFormat.Refusal) {
      after = try ConfigurationFormat.format(before, file: path == "-" ? "stdin" : path)
    } catch {
      throw Failure(text: "\(error.diagnostic)")
    }
  }

  package var isChanged: Bool { before != after }

  package func print() { Self.write(after, to: STDOUT_FILENO) }

  /// Replaces the file: a reader sees the old text or the new one. Follows a symbolic link to the file that it names.
  package func replace() throws(Failure) {
    guard isChanged else { return }
    guard let resolved = realpath(path, nil) else { throw Failure(text: Self.reason("realpath", path)) }
    defer { free(resolved) }
    let target = String(cString: resolved)
    var old = stat()
    guard stat(target, &old) == 0 else { throw Failure(text: Self.reason("stat", target)) }
    let draft = "\(target).format-\(getpid())"
    let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw Failure(text: Self.reason("open", draft)) }
    defer { close(descriptor) }
    var fault: String?
    if !Self.write(after, to: descriptor) { fault = Self.reason("write", draft) }
    // The owner before the mode: a change of owner can clear bits of the mode.
    if fault == nil, fchown(descriptor, old.st_uid, old.st_gid) != 0 { fault = Self.reason("fchown", draft) }
    if fault == nil, fchmod(descriptor, old.st_mode & 0o7777) != 0 { fault = Self.reason("fchmod", draft) }
    if fault == nil, fsync(descriptor) != 0 { fault = Self.reason("fsync", draft) }
    if fault == nil, rename(draft, target) != 0 { fault = Self.reason("rename", draft) }
    if let fault {
      unlink(draft)
      throw Failure(text: fault)
    }
    try? NewFile.sync(NewFile.folder(of: target))
  }

  @discardableResult
  static func write(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
    bytes.withUnsafeBytes { bytes in
      var written = 0
      while written < bytes.count, let base = bytes.baseAddress {
        let count = Glibc.write(descriptor, base + written, bytes.count - written)
        if count < 0 && errno == EINTR { continue }
        guard count > 0 else { return false }
        written += count
      }
      return true
    }
  }

  private static func reason(_ call: String, _ path: String) -> String {
    "error: \(call)() \"\(path)\" failed (\(errno): \(String(cString: strerror(errno))))"
  }
}
