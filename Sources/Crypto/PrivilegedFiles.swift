import Glibc
import Synchronization

/// Opens the files that this process may not open itself, by a process that may.
///
/// nginx's master stays root and reads keys again at each reload. A process of sallyport that was started by root, and has
/// become `user`, asks the process that stayed root (`Daemon/PrivilegedOpener`). Which one that is is a fact of the process,
/// and every read of key material needs it.
package enum PrivilegedFiles {
  /// Why nobody could open a file.
  package struct Refusal: Error, Sendable, Hashable {
    /// errno
    package let code: CInt
    /// What the other process said, if it would not open the file; nil where the system said `code`.
    package let reason: String?

    package init(_ code: CInt, _ reason: String? = nil) {
      self.code = code
      self.reason = reason
    }
  }

  package typealias Opener = @Sendable (_ path: String) -> Result<CInt, Refusal>

  private static let opener = Mutex<Opener?>(nil)

  /// Sets who is asked. Call this once, at the start.
  package static func use(_ opener: @escaping Opener) { Self.opener.withLock { $0 = opener } }

  /// Opens a file or folder for reading, without waiting for a writer of a pipe. The caller closes the descriptor. Blocks.
  package static func open(_ path: String) -> Result<CInt, Refusal> {
    let file = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    return file >= 0 ? .success(file) : instead(of: errno, path)
  }

  /// Asks for what this process could not open. `code`: what the system said to this process.
  package static func instead(of code: CInt, _ path: String) -> Result<CInt, Refusal> {
    guard code == EACCES || code == EPERM, let opener = opener.withLock({ $0 }) else { return .failure(Refusal(code)) }
    return opener(path)
  }
}
