import Bytes
import Crypto
import Glibc
import Signature
import Transport

/// Counts the memory of all kept bodies of one worker.
///
/// The limit for one body suits one client. Without a common limit, a thousand slow clients would take a gigabyte.
final class BodyGauge {
  private(set) var used = 0
  private let limit: Int
  /// `client_body_buffer_size` of nginx on 64-bit machines.
  static let smallAllowance = 16 * 1024

  init(limit: Int) { self.limit = limit }

  /// Returns the number of bytes that a body with this allowance may take now.
  func bound(_ allowance: Int) -> Int { used < limit ? allowance : min(allowance, Self.smallAllowance) }
  /// Returns whether a body that must stay in memory may grow to `total` bytes, of which it has `own` already. Only the
  /// other bodies count against the limit, so one body alone can be larger than the limit.
  func admits(_ total: UInt64, having own: Int) -> Bool { total <= UInt64(Self.smallAllowance) || used - own < limit }
  func take(_ count: Int) { used += count }
  func giveBack(_ count: Int) { used = max(0, used - count) }
}

/// A collected request body, for `proxy_request_buffering on` and for sending the body again.
///
/// The body is in memory up to its allowance, then in an unnamed file (O_TMPFILE) that disappears with its descriptor.
/// While the worker's bodies take more than the gauge's limit, the allowance is nginx's.
final class RequestBody {
  private(set) var count: UInt64 = 0
  private(set) var memory = ByteBuffer()
  private var file: Int32 = -1
  private let allowance: Int
  private let gauge: BodyGauge?
  private let staysInMemory: Bool
  private let files: BodyFileSettings?
  /// `$request_body_file`; empty for a body that is in no file with a name.
  private(set) var path: [UInt8] = []
  /// The settings of the envelope that the body came in; nil for a body without an envelope.
  let openedBy: EnvelopeSettings?
  var isOpened: Bool { openedBy != nil }
  /// When sallyport began to read the body, in milliseconds of the loop's clock.
  var begunAt: UInt64 = 0
  /// Set while the body is collected before the content handler starts.
  fileprivate(set) var waiter: BodyWaiter?
  fileprivate var digests: BodyDigests?

  /// `allowance`: bytes that may stay in memory. Without a gauge, other bodies don't reduce it. `files`: where the body
  /// goes otherwise, or in any case.
  init(allowance: Int, gauge: BodyGauge? = nil, files: BodyFileSettings? = nil) {
    self.allowance = allowance
    self.gauge = gauge
    self.files = files
    staysInMemory = false
    openedBy = nil
    // As in nginx, an empty body has a file, too. If it can't be made, the first byte reports it.
    if files?.isForEachBody ?? false { try? moveToFile() }
  }

  /// Makes an empty body for an envelope, which stays in memory. The caller asks the gauge before it adds bytes.
  init(envelopeIn gauge: BodyGauge) {
    allowance = .max
    self.gauge = gauge
    staysInMemory = true
    files = nil
    openedBy = nil
  }

  /// Makes the body that an envelope contained.
  init(opened plain: consuming ByteBuffer, by envelope: EnvelopeSettings, gauge: BodyGauge) {
    allowance = 0
    self.gauge = gauge
    staysInMemory = true
    files = nil
    openedBy = envelope
    count = UInt64(plain.count)
    memory.swap(with: &plain)
    gauge.take(memory.count)
  }

  deinit {
    gauge?.giveBack(memory.count)
    if file >= 0 { close(file) }
    if case .removed? = files?.use { removeName() }
  }

  private func removeName() {
    guard !path.isEmpty else { return }
    unlink(String(decoding: path, as: UTF8.self))
    path = []
  }

  var isInFile: Bool { file >= 0 }

  enum StorageError: Error {
    case open(Int32, folder: String)
    case write(Int32)

    var description: String {
      switch self {
      case .open(let code, let folder):
        "a temporary file for a request body can't be made in \(folder) (\(code): \(String(cString: strerror(code))))"
      case .write(let code):
        "a request body can't be written to a temporary file (\(code): \(String(cString: strerror(code))))"
      }
    }
  }

  func append(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
    let isForFile = memory.count + bytes.count > gauge?.bound(allowance) ?? allowance || files?.isForEachBody ?? false
    if file < 0 && !staysInMemory && isForFile {
      try moveToFile()
    }
    count &+= UInt64(bytes.count)
    digests?.update(bytes)
    guard file < 0 else { return try write(bytes) }
    memory.append(bytes)
    gauge?.take(bytes.count)
  }

  private func moveToFile() throws(StorageError) {
    let folder = files?.folder ?? BodyFolder.path
    if files?.isForEachBody ?? false {
      (file, path) = Self.openNamed(in: folder)
    } else {
      file = openUnnamed(in: folder)
    }
    guard file >= 0 else { throw .open(errno, folder: folder) }
    guard !DescriptorReserve.holds(file) else {
      close(file)
      file = -1
      removeName()
      throw .open(EMFILE, folder: folder)
    }
    try write(memory.readable)
    gauge?.giveBack(memory.count)
    memory.release()
  }

  private func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
    var done = 0
    while done < bytes.count {
      let written = Glibc.write(file, bytes.baseAddress.map { $0 + done }, bytes.count - done)
      if written > 0 {
        done += written
      } else if errno != EINTR {
        let code = written == 0 ? ENOSPC : errno
        // A part of a body is of no use to anybody.
        removeName()
        throw .write(code)
      }
    }
  }

  /// Reads from the file. Returns nil when the file can't be read, and 0 at its end.
  func read(at offset: UInt64, into target: UnsafeMutableRawBufferPointer) -> Int? {
    while true {
      let count = pread(file, target.baseAddress, target.count, off_t(clamping: offset))
      if count >= 0 { return count }
      if errno != EINTR { return nil }
    }
  }

  /// Opens a file without a name. Where O_TMPFILE is missing (overlayfs before Linux 6.1, NFS), the name is removed at
  /// once. A folder of `client_body_temp_path` that doesn't exist is made.
  private func openUnnamed(in folder: String) -> Int32 {
    let file = Glibc.open(folder, O_TMPFILE_RDWR, 0o600)
    guard file < 0, errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT else { return file }
    let (named, path) = Self.openNamed(in: folder)
    if named >= 0 { unlink(String(decoding: path, as: UTF8.self)) }
    return named
  }

  private static func openNamed(in folder: String) -> (file: Int32, path: [UInt8]) {
    for isLast in [false, true] {
      var name = Array("\(folder)/sallyport-XXXXXX".utf8CString)
      let file = mkstemp(&name)
      if file >= 0 {
        _ = fcntl(file, F_SETFD, FD_CLOEXEC)
        return (file, name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) })
      }
      guard !isLast, errno == ENOENT, mkdir(folder, 0o700) == 0 else { break }
    }
    return (-1, [])
  }

  /// O_TMPFILE is a macro of two parts that Swift does not import.
  private var O_TMPFILE_RDWR: Int32 { 0o20000000 | O_DIRECTORY | O_RDWR | O_CLOEXEC }
}

/// Waits for a body that a step collects before the content handler starts.
class BodyWaiter {
  /// Whether `count` more bytes may be collected; false if the exchange has responded.
  func admits(_ count: Int, in kept: RequestBody, _ exchange: Exchange) -> Bool { true }
  func bodyDidEnd(_ kept: RequestBody, _ exchange: Exchange) {}
}

extension RequestBody {
  func await(_ waiter: BodyWaiter) { self.waiter = waiter }

  func takeWaiter() -> BodyWaiter? {
    defer { waiter = nil }
    return waiter
  }

  /// Hashes the bytes that come from now on.
  func beginDigests(_ algorithms: [ContentDigest.Algorithm]) { digests = BodyDigests(algorithms) }

  /// Whether the complete body has these digests. A body in a file must have been hashed as it came.
  func matches(_ digest: ContentDigest) -> Bool {
    if let digests { return digest.matches(digests) }
    return !isInFile && digest.matches(memory.readable)
  }

  /// The digest of the complete body; nil for a body in a file that was not hashed as it came.
  func sha256() -> [UInt8]? {
    if let known = digests?.digest(.sha256) { return known }
    return isInFile ? nil : Digest.of(memory.readable)
  }
}

/// The folder for request bodies that are too large for memory.
package enum BodyFolder {
  package static let path: String = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
}
