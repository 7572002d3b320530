package import Bytes
package import Crypto
package import Signature
import Synchronization
package import Transport

/// A collected request body, for `proxy_request_buffering on` and for sending the body again.
///
/// The body is in memory up to its allowance, then in a file that disappears with it. Only a thread of the pool writes to
/// the file, so what it hasn't written yet is in memory: a piece that is being written, as much that waits, and what one
/// read of the client brings. While the worker's bodies take more than the gauge's limit, the allowance is nginx's.
public final class RequestBody {
  package private(set) var count: UInt64 = 0
  /// The body; of a body in a file, the bytes that no thread writes yet.
  package private(set) var memory = ByteBuffer()
  /// Where the body is, if not in memory.
  package private(set) var file: BodyFile?
  /// The bytes that a thread writes now; nil: none does.
  private var writing: Int?
  private let allowance: Int
  private let gauge: BodyMemoryBudget?
  private let staysInMemory: Bool
  private let files: BodyFileSettings?
  /// Closes the file, which can take long. nil: whoever has the last reference does.
  private let pool: BlockingPool?
  /// `$request_body_file`; empty for a body that is in no file with a name.
  package private(set) var path: [UInt8] = []
  /// Whether the client has sent all of it.
  package private(set) var hasEnded = false
  /// Since when the client waits for the disk, in milliseconds of the loop's clock.
  private var pausedAt: UInt64?
  /// What has opened the body; nil for a body that came in clear.
  package let opener: AnyObject?
  package var isOpened: Bool { opener != nil }
  /// When sallyport began to read the body, in milliseconds of the loop's clock. The time that the disk took is left out.
  var begunAt: UInt64 = 0
  /// Set while the body is collected before the content handler starts.
  fileprivate(set) var waiter: BodyWaiter?
  fileprivate var digests: BodyDigests?
  /// Hashes that threads have made of the file; nil: they couldn't.
  private var fileHashes: [AuthenticationDigest: [UInt8]?] = [:]

  /// As many bytes are worth a job of the pool. While one is in progress and as many wait for the next, the client waits.
  private var pieceSize: Int {
    let size = min(max(allowance, BodyMemoryBudget.smallAllowance), 128 * 1024)
    return gauge?.bound(size) ?? size
  }

  /// `allowance`: bytes that may stay in memory. Without a gauge, other bodies don't reduce it. `files`: where the body
  /// goes otherwise, or in any case.
  package init(
    allowance: Int, gauge: BodyMemoryBudget? = nil, files: BodyFileSettings? = nil, pool: BlockingPool? = nil
  ) {
    self.allowance = allowance
    self.gauge = gauge
    self.files = files
    self.pool = pool
    staysInMemory = false
    opener = nil
    // As in nginx, an empty body has a file, too.
    if files?.isForEachBody ?? false { file = BodyFile(files) }
  }

  /// Makes an empty body for an envelope, which stays in memory. The caller asks the gauge before it adds bytes.
  package init(envelopeIn gauge: BodyMemoryBudget) {
    allowance = .max
    self.gauge = gauge
    staysInMemory = true
    files = nil
    pool = nil
    opener = nil
  }

  /// Makes the body that was in the client's.
  package init(opened plain: consuming ByteBuffer, by opener: AnyObject, gauge: BodyMemoryBudget) {
    allowance = 0
    self.gauge = gauge
    staysInMemory = true
    files = nil
    pool = nil
    self.opener = opener
    count = UInt64(plain.count)
    memory.swap(with: &plain)
    gauge.take(memory.count)
    hasEnded = true
  }

  deinit {
    gauge?.giveBack(memory.count &+ (writing ?? 0))
    guard let pool, file != nil else { return }
    // Handed over, so that the thread has the last reference.
    let last = Mutex(file.take())
    _ = pool.run(.bodies, for: "") { last.withLock { $0 = nil } }
  }

  package var isInFile: Bool { file != nil }
  /// Whether it has ended, and all of it is in its place.
  var isComplete: Bool { hasEnded && (file == nil || (memory.isEmpty && writing == nil && isFileMade)) }
  private var isFileMade = false

  package func append(_ bytes: UnsafeRawBufferPointer) {
    if file == nil, !staysInMemory, memory.count + bytes.count > gauge?.bound(allowance) ?? allowance {
      file = BodyFile(files)
    }
    count &+= UInt64(bytes.count)
    digests?.update(bytes)
    memory.append(bytes)
    gauge?.take(bytes.count)
  }

  package func end() { hasEnded = true }

  // MARK: The file

  /// What a thread must append to the file next; nil: nothing, or not enough for a job yet. Empty for an empty file.
  func nextPiece() -> BodyPiece? {
    guard file != nil, writing == nil, !isComplete else { return nil }
    guard hasEnded || memory.count >= pieceSize else { return nil }
    var bytes = ByteBuffer()
    bytes.swap(with: &memory)
    writing = bytes.count
    return BodyPiece(bytes)
  }

  /// A thread has appended the last piece.
  package func didWrite() {
    gauge?.giveBack(writing ?? 0)
    writing = nil
    isFileMade = true
    path = file?.path ?? []
  }

  /// Whether the client must wait for the disk. Notes since when it does.
  func mustPause(now: UInt64) -> Bool {
    guard writing != nil, pausedAt == nil, !hasEnded, memory.count >= pieceSize else { return false }
    pausedAt = now
    return true
  }

  /// Whether the client waited, and needn't any longer.
  func mayResume(now: UInt64) -> Bool {
    guard let since = pausedAt else { return false }
    pausedAt = nil
    begunAt &+= now &- min(now, since)
    return true
  }

  /// Whether a thread must make this hash before `hash` has it.
  package func lacksHash(_ algorithm: AuthenticationDigest) -> Bool { file != nil && fileHashes[algorithm] == nil }
  package func note(_ hash: [UInt8]?, _ algorithm: AuthenticationDigest) { fileHashes[algorithm] = .some(hash) }

  /// The hash of the complete body; nil when there is none.
  package func hash(_ algorithm: AuthenticationDigest) -> [UInt8]? {
    guard file == nil else { return fileHashes[algorithm] ?? nil }
    let digest = RunningDigest(algorithm)
    digest.update(memory.readable)
    return digest.finish()
  }
}

/// Waits for a body that a step collects before the content handler starts.
open class BodyWaiter {
  public init() {}

  /// Whether `count` more bytes may be collected; false if the exchange has responded.
  open func admits(_ count: Int, in kept: RequestBody, _ exchange: Exchange) -> Bool { true }
  open func bodyDidEnd(_ kept: RequestBody, _ exchange: Exchange) {}
}

extension RequestBody {
  package func await(_ waiter: BodyWaiter) { self.waiter = waiter }

  func takeWaiter() -> BodyWaiter? {
    defer { waiter = nil }
    return waiter
  }

  /// Hashes the bytes that come from now on.
  package func beginDigests(_ algorithms: [ContentDigest.Algorithm]) { digests = BodyDigests(algorithms) }

  /// Whether the complete body has these digests. A body in a file must have been hashed as it came.
  package func matches(_ digest: ContentDigest) -> Bool {
    if let digests { return digest.matches(digests) }
    return !isInFile && digest.matches(memory.readable)
  }

  /// The digest of the complete body; nil for a body in a file that was not hashed as it came.
  package func sha256() -> [UInt8]? {
    if let known = digests?.digest(.sha256) { return known }
    return isInFile ? nil : Digest.of(memory.readable)
  }
}
