package import Bytes
package import Crypto
import Glibc
import Synchronization
import Transport

/// The file of one request body, which has no name unless the settings ask for one.
///
/// A disk can be slow, also where a large file without a name is closed. So only a thread of the pool calls these methods
/// (`BlockingWork.bodies`) and releases the last reference. `append` is never called twice at a time; reads may be.
package final class BodyFile: Sendable {
  private struct Opened {
    var descriptor: Int32 = -1
    /// `$request_body_file`; empty for a file without a name.
    var path: [UInt8] = []
  }

  private let opened = Mutex(Opened())
  private let settings: BodyFileSettings?

  package init(_ settings: BodyFileSettings?) { self.settings = settings }

  deinit {
    opened.withLock { opened in
      if opened.descriptor >= 0 { close(opened.descriptor) }
      if case .removed? = settings?.use { Self.removeName(&opened) }
    }
  }

  package var path: [UInt8] { opened.withLock { $0.path } }
  private var descriptor: Int32 { opened.withLock { $0.descriptor } }

  private static func removeName(_ opened: inout Opened) {
    guard !opened.path.isEmpty else { return }
    unlink(String(decoding: opened.path, as: UTF8.self))
    opened.path = []
  }

  package enum StorageError: Error, CustomStringConvertible {
    case open(Int32, folder: String)
    case write(Int32)

    package var description: String {
      switch self {
      case .open(let code, let folder):
        "a temporary file for a request body can't be made in \(folder) (\(code): \(String(cString: strerror(code))))"
      case .write(let code):
        "a request body can't be written to a temporary file (\(code): \(String(cString: strerror(code))))"
      }
    }
  }

  // MARK: Writing

  /// Appends bytes, and opens the file before the first of them.
  package func append(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
    var file = descriptor
    if file < 0 { file = try open() }
    var done = 0
    while done < bytes.count {
      let written = Glibc.write(file, bytes.baseAddress.map { $0 + done }, bytes.count - done)
      if written > 0 {
        done += written
      } else if errno != EINTR {
        let code = written == 0 ? ENOSPC : errno
        // A part of a body is of no use to anybody.
        opened.withLock { Self.removeName(&$0) }
        throw .write(code)
      }
    }
  }

  private func open() throws(StorageError) -> Int32 {
    let folder = settings?.folder?.path ?? BodyFolder.path
    let isNamed = settings?.isForEachBody ?? false
    var made = isNamed ? Self.openNamed(in: folder) : Opened(descriptor: Self.openUnnamed(in: folder))
    guard made.descriptor >= 0 else { throw .open(errno, folder: folder) }
    guard !DescriptorReserve.holds(made.descriptor) else {
      close(made.descriptor)
      Self.removeName(&made)
      throw .open(EMFILE, folder: folder)
    }
    let result = made
    opened.withLock { $0 = result }
    return result.descriptor
  }

  /// Opens a file without a name. Where O_TMPFILE is missing (overlayfs before Linux 6.1, NFS), the name is removed at
  /// once. A folder of `client_body_temp_path` that doesn't exist is made.
  private static func openUnnamed(in folder: String) -> Int32 {
    let file = Glibc.open(folder, O_TMPFILE_RDWR, 0o600)
    guard file < 0, errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT else { return file }
    let named = openNamed(in: folder)
    if named.descriptor >= 0 { unlink(String(decoding: named.path, as: UTF8.self)) }
    return named.descriptor
  }

  private static func openNamed(in folder: String) -> Opened {
    for isLast in [false, true] {
      var name = Array("\(folder)/sallyport-XXXXXX".utf8CString)
      let file = mkstemp(&name)
      if file >= 0 {
        _ = fcntl(file, F_SETFD, FD_CLOEXEC)
        return Opened(descriptor: file, path: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) })
      }
      guard !isLast, errno == ENOENT, mkdir(folder, 0o700) == 0 else { break }
    }
    return Opened()
  }

  /// O_TMPFILE is a macro of two parts that Swift does not import.
  private static var O_TMPFILE_RDWR: Int32 { 0o20000000 | O_DIRECTORY | O_RDWR | O_CLOEXEC }

  // MARK: Reading

  /// Returns nil when the file can't be read, and 0 at its end.
  package func read(at offset: UInt64, into target: UnsafeMutableRawBufferPointer) -> Int? {
    let file = descriptor
    while true {
      let count = pread(file, target.baseAddress, target.count, off_t(clamping: offset))
      if count >= 0 { return count }
      if errno != EINTR { return nil }
    }
  }

  /// At most `count` bytes; none at the file's end, or when it can't be read.
  package func piece(at offset: UInt64, _ count: Int) -> BodyPiece {
    let piece = BodyPiece(ByteBuffer(capacity: count))
    piece.bytes.didWrite(read(at: offset, into: piece.bytes.writable) ?? 0)
    return piece
  }
}

/// A hash of a whole file, made in several jobs, so that other bodies get their turns, and so that it ends with its
/// exchange.
// @unchecked: the loop has it between two jobs, and a thread of the pool within one.
package final class BodyFileHash: @unchecked Sendable {
  package enum Progress {
    case more
    /// nil: the file can't be read, or this OpenSSL lacks the function.
    case ended([UInt8]?)
  }

  package let algorithm: AuthenticationDigest
  private let digest: RunningDigest
  private var offset: UInt64 = 0
  /// Bytes that one job reads.
  private static let turn: UInt64 = 4 << 20

  package init(_ algorithm: AuthenticationDigest) {
    self.algorithm = algorithm
    digest = RunningDigest(algorithm)
  }

  package func goOn(_ file: BodyFile) -> Progress {
    let end = offset &+ Self.turn
    let buffer = ByteBuffer(capacity: 65_536)
    while offset < end {
      guard let count = file.read(at: offset, into: buffer.writable) else { return .ended(nil) }
      if count == 0 { return .ended(digest.finish()) }
      digest.update(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer.writable)[..<count]))
      offset &+= UInt64(count)
    }
    return .more
  }
}

/// Bytes of a body on their way to or from a file. One side at a time has them: the loop, or a thread of the pool.
// @unchecked: the loop gives it up when it starts the job, and takes it back when the job is over.
package final class BodyPiece: @unchecked Sendable {
  package var bytes: ByteBuffer
  package init(_ bytes: consuming ByteBuffer) { self.bytes = bytes }
}

/// The folder for request bodies that are too large for memory.
package enum BodyFolder {
  package static let path: String = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
}
