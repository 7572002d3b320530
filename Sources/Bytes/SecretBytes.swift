import Glibc

/// Bytes that must not outlive their use: keys, pass phrases, and files that may hold them.
///
/// They are zeroed when freed, never copied implicitly, and never printed, neither by description nor by a mirror. They
/// stand in pages of their own, which are never swapped to disk and are in no core file (`LockedPages`).
public final class SecretBytes: Sendable {
  // Written only in init, before another thread can hold the object; freed only in deinit.
  nonisolated(unsafe) private let storage: UnsafeMutableRawBufferPointer
  public let count: Int

  /// Allocates `capacity` bytes. `fill` writes to them and returns how many it wrote. If `fill` throws, the bytes are
  /// wiped.
  public init<E: Error>(
    capacity: Int, fill: (UnsafeMutableRawBufferPointer) throws(E) -> Int
  ) throws(E) {
    let room = LockedPages.allocate(max(0, capacity))
    do throws(E) {
      count = min(max(0, try fill(room)), room.count)
      storage = room
    } catch {
      Self.wipe(room)
      LockedPages.free(room)
      throw error
    }
  }

  /// Copies the bytes. The owner of the original wipes the original.
  public convenience init(copying bytes: UnsafeRawBufferPointer) {
    self.init(capacity: bytes.count) { room in
      room.copyMemory(from: bytes)
      return bytes.count
    }
  }

  public convenience init(_ bytes: [UInt8]) {
    self.init(capacity: bytes.count) { room in
      room.copyBytes(from: bytes)
      return bytes.count
    }
  }

  deinit {
    Self.wipe(storage)
    LockedPages.free(storage)
  }

  public var isEmpty: Bool { count == 0 }

  /// Calls `body` with the bytes. The pointer is invalid afterwards.
  public func withUnsafeBytes<R, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> R) throws(E) -> R {
    try body(UnsafeRawBufferPointer(start: storage.baseAddress, count: count))
  }

  private static func wipe(_ room: UnsafeMutableRawBufferPointer) {
    // The compiler must not remove this call, as it may remove other dead stores.
    if let base = room.baseAddress { explicit_bzero(base, room.count) }
  }
}

extension SecretBytes: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "(\(count) secret bytes)" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: [:]) }
}

extension [UInt8] {
  /// Overwrites an array that held a secret. Copies that Swift made of the array are not affected.
  public mutating func wipe() {
    withUnsafeMutableBytes { room in
      // The compiler must not remove this call, as it may remove other dead stores.
      if let base = room.baseAddress { explicit_bzero(base, room.count) }
    }
  }
}
