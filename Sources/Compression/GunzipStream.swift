public import Bytes
import CZlib

/// Decompresses one body in gzip's format (RFC 1952), by zlib: one member, or several that follow each other.
///
/// It owns zlib's state, at most 48 KiB, and frees it with itself. A few bytes can stand for a thousand times as many, so
/// the caller says how many may come out of one call.
public final class GunzipStream {
  public enum Fault: Error, Sendable, Equatable {
    /// The bytes aren't gzip's, or a checksum doesn't fit.
    case damaged
    /// A preset dictionary or the like, or no memory for the window.
    case failed
  }

  // On the heap, because zlib compares the address with the one that it was begun with.
  private let state: UnsafeMutablePointer<z_stream>
  private var isInMember = false
  /// A fault is the last thing that a stream says.
  private var fault: Fault?
  /// zlib may have more to give out although it was given no more bytes: the last call reached its limit.
  public private(set) var hasOutput = false

  /// Memory that one stream takes.
  public static let memory = 49_152

  /// nil: no memory.
  public init?() {
    let state = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
    state.initialize(to: z_stream())
    guard zlib_begin_gunzip(state) == Z_OK else {
      state.deallocate()
      return nil
    }
    self.state = state
  }

  deinit {
    _ = inflateEnd(state)
    state.deallocate()
  }

  /// The body may end here: the last member is whole, or nothing has come. Of a body that ends elsewhere a part is missing.
  public var isComplete: Bool { !isInMember && !hasOutput && fault == nil }

  /// Decompresses bytes, and appends at most `limit` bytes of what comes out. Returns how many of `bytes` were used up. The
  /// caller brings the others again in the next call, which it also makes while `hasOutput` says so.
  public func decompress(
    _ bytes: UnsafeRawBufferPointer, upTo limit: Int, to output: inout ByteBuffer
  ) throws(Fault) -> Int {
    if let fault { throw fault }
    var used = 0, made = 0
    while made < limit, used < bytes.count || hasOutput {
      // What stands behind a whole member begins another one.
      if !isInMember, used < bytes.count {
        guard inflateReset(state) == Z_OK else { throw fail(.failed) }
        isInMember = true
      }
      let piece = bytes[used...].prefix(Int(UInt32.max >> 1)), room = min(limit - made, Self.chunk)
      output.reserve(room)
      let before = output.count
      let taken = try step(UnsafeRawBufferPointer(rebasing: piece), room, &output)
      // zlib takes bytes, or gives some out.
      guard taken > 0 || output.count > before || !hasOutput && used == bytes.count else { throw fail(.failed) }
      made += output.count - before
      used += taken
    }
    return used
  }

  private static let chunk = 16_384

  /// Gives zlib bytes once. Returns how many it took.
  private func step(
    _ bytes: UnsafeRawBufferPointer, _ room: Int, _ output: inout ByteBuffer
  ) throws(Fault) -> Int {
    // zlib reads these bytes only.
    state.pointee.next_in = UnsafeMutablePointer(mutating: bytes.assumingMemoryBound(to: UInt8.self).baseAddress)
    state.pointee.avail_in = UInt32(truncatingIfNeeded: bytes.count)
    state.pointee.next_out = output.writable.assumingMemoryBound(to: UInt8.self).baseAddress
    state.pointee.avail_out = UInt32(truncatingIfNeeded: room)
    let result = inflate(state, Z_NO_FLUSH)
    let (left, free) = (Int(state.pointee.avail_in), Int(state.pointee.avail_out))
    state.pointee.next_in = nil
    state.pointee.avail_in = 0
    state.pointee.next_out = nil
    state.pointee.avail_out = 0
    output.didWrite(room - free)
    switch result {
    case Z_STREAM_END:
      isInMember = false
      hasOutput = false
    // Z_BUF_ERROR: there was nothing to do, as for bytes that end within a code.
    case Z_OK, Z_BUF_ERROR: hasOutput = free == 0
    case Z_DATA_ERROR, Z_NEED_DICT: throw fail(.damaged)
    default: throw fail(.failed)
    }
    return bytes.count - left
  }

  private func fail(_ fault: Fault) -> Fault {
    self.fault = fault
    hasOutput = false
    return fault
  }
}

@available(*, unavailable)
extension GunzipStream: Sendable {}
