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
  /// The settings of the envelope that the body came in; nil for a body without an envelope.
  let openedBy: EnvelopeSettings?
  var isOpened: Bool { openedBy != nil }
  /// Set while the body is collected before the content handler starts.
  fileprivate(set) var waiter: BodyWaiter?
  fileprivate var digests: BodyDigests?

  /// `allowance`: bytes that may stay in memory. Without a gauge, other bodies don't reduce it.
  init(allowance: Int, gauge: BodyGauge? = nil) {
    self.allowance = allowance
    self.gauge = gauge
    staysInMemory = false
    openedBy = nil
  }

  /// Makes an empty body for an envelope, which stays in memory. The caller asks the gauge before it adds bytes.
  init(envelopeIn gauge: BodyGauge) {
    allowance = .max
    self.gauge = gauge
    staysInMemory = true
    openedBy = nil
  }

  /// Makes the body that an envelope contained.
  init(opened plain: consuming ByteBuffer, by envelope: EnvelopeSettings, gauge: BodyGauge) {
    allowance = 0
    self.gauge = gauge
    staysInMemory = true
    openedBy = envelope
    count = UInt64(plain.count)
    memory.swap(with: &plain)
    gauge.take(memory.count)
  }

  deinit {
    gauge?.giveBack(memory.count)
    if file >= 0 { close(file) }
  }

  var isInFile: Bool { file >= 0 }

  enum StorageError: Error {
    case open(Int32)
    case write(Int32)

    var description: String {
      switch self {
      case .open(let code):
        "a temporary file for a request body can't be made in \(BodyFolder.path) (\(code): \(String(cString: strerror(code))))"
      case .write(let code):
        "a request body can't be written to a temporary file (\(code): \(String(cString: strerror(code))))"
      }
    }
  }

  func append(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
    if file < 0 && !staysInMemory && memory.count + bytes.count > gauge?.bound(allowance) ?? allowance {
      try moveToFile()
    }
    count &+= UInt64(bytes.count)
    digests?.update(bytes)
    guard file < 0 else { return try write(bytes) }
    memory.append(bytes)
    gauge?.take(bytes.count)
  }

  private func moveToFile() throws(StorageError) {
    file = Glibc.open(BodyFolder.path, O_TMPFILE_RDWR, 0o600)
    if file < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT) { file = Self.openNamed() }
    guard file >= 0 else { throw .open(errno) }
    guard !DescriptorReserve.holds(file) else {
      close(file)
      file = -1
      throw .open(EMFILE)
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
        throw .write(written == 0 ? ENOSPC : errno)
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

  /// Opens a named file and removes the name at once, where O_TMPFILE is missing (overlayfs before Linux 6.1, NFS).
  private static func openNamed() -> Int32 {
    var name = Array("\(BodyFolder.path)/sallyport-XXXXXX".utf8CString)
    let file = mkstemp(&name)
    guard file >= 0 else { return file }
    unlink(name)
    _ = fcntl(file, F_SETFD, FD_CLOEXEC)
    return file
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
