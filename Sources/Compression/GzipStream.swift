public import Bytes
import CZlib

/// Compresses one body to gzip's format (RFC 1952), by zlib.
///
/// It owns zlib's state, at most 268 KiB, and frees it with itself. The caller decides how many bytes it compresses in one
/// call, because the call takes time in proportion to them.
public final class GzipStream {
  public enum Flush: Sendable {
    /// zlib may keep bytes back.
    case none
    /// The receiver can decompress all that was given.
    case sync
    /// The body ends.
    case finish
  }

  // On the heap, because zlib compares the address with the one that it was begun with.
  private let state: UnsafeMutablePointer<z_stream>
  private var isFinished = false

  private static let chunk = 16_384

  /// `level`: 1 to 9. `length`: of the body, if it is known; a short body needs less memory. nil: no memory.
  public init?(level: Int, length: UInt64?) {
    var bits: Int32 = 15, memory: Int32 = 8
    if let length {
      // As in nginx: zlib's window is 262 bytes smaller than its size.
      while bits > 9, length < (1 << UInt64(bits - 1)) - 262 {
        bits -= 1
        memory = max(1, memory - 1)
      }
    }
    let state = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
    state.initialize(to: z_stream())
    guard zlib_begin_gzip(state, Int32(min(max(level, 1), 9)), bits, memory) == Z_OK else {
      state.deallocate()
      return nil
    }
    self.state = state
  }

  deinit {
    _ = deflateEnd(state)
    state.deallocate()
  }

  /// Compresses bytes, and appends what zlib gives out. False: zlib failed, and the body can't be completed.
  public func compress(_ bytes: UnsafeRawBufferPointer, _ flush: Flush, to output: inout ByteBuffer) -> Bool {
    guard !isFinished else { return bytes.isEmpty }
    var rest = bytes
    while true {
      let piece = UnsafeRawBufferPointer(rebasing: rest.prefix(Int(UInt32.max >> 1)))
      rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(piece.count))
      guard step(piece, rest.isEmpty ? flush : .none, &output) else { return false }
      if rest.isEmpty { return true }
    }
  }

  private func step(_ bytes: UnsafeRawBufferPointer, _ flush: Flush, _ output: inout ByteBuffer) -> Bool {
    let mode =
      switch flush {
      case .none: Z_NO_FLUSH
      case .sync: Z_SYNC_FLUSH
      case .finish: Z_FINISH
      }
    // zlib reads these bytes only.
    state.pointee.next_in = UnsafeMutablePointer(mutating: bytes.assumingMemoryBound(to: UInt8.self).baseAddress)
    state.pointee.avail_in = UInt32(truncatingIfNeeded: bytes.count)
    defer {
      state.pointee.next_in = nil
      state.pointee.avail_in = 0
    }
    while true {
      output.reserve(Self.chunk)
      let room = output.writable
      state.pointee.next_out = room.assumingMemoryBound(to: UInt8.self).baseAddress
      state.pointee.avail_out = UInt32(truncatingIfNeeded: room.count)
      let result = deflate(state, mode)
      output.didWrite(room.count - Int(state.pointee.avail_out))
      if result == Z_STREAM_END {
        isFinished = true
        return true
      }
      // Z_BUF_ERROR: there was nothing to do, as for a second flush.
      if result == Z_BUF_ERROR { return flush != .finish }
      guard result == Z_OK else { return false }
      if state.pointee.avail_out > 0 && flush != .finish { return true }
    }
  }
}

@available(*, unavailable)
extension GzipStream: Sendable {}
