import Glibc

/// Bytes that must not outlive their use: keys, pass phrases, and files that may hold them.
///
/// Zeroed when freed, never copied by itself, never printed: neither by description nor by a mirror.
public final class SecretBytes: Sendable {
  // Written only in init, before anybody else can hold the object; freed only in deinit.
  nonisolated(unsafe) private let storage: UnsafeMutableRawBufferPointer
  public let count: Int

  /// Room for `capacity` bytes, of which `fill` says how many it wrote; what it wrote is wiped when it throws.
  public init<E: Error>(
    capacity: Int, fill: (UnsafeMutableRawBufferPointer) throws(E) -> Int
  ) throws(E) {
    let room = UnsafeMutableRawBufferPointer.allocate(byteCount: max(0, capacity), alignment: 16)
    do throws(E) {
      count = min(max(0, try fill(room)), room.count)
      storage = room
    } catch {
      Self.wipe(room)
      room.deallocate()
      throw error
    }
  }

  /// A copy of these bytes: the owner of the original wipes that.
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
    storage.deallocate()
  }

  public var isEmpty: Bool { count == 0 }

  /// The bytes, for the time of `body`; a pointer must not be kept.
  public func withUnsafeBytes<R, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> R) throws(E) -> R {
    try body(UnsafeRawBufferPointer(start: storage.baseAddress, count: count))
  }

  private static func wipe(_ room: UnsafeMutableRawBufferPointer) {
    // The one store the compiler may not leave out.
    if let base = room.baseAddress { explicit_bzero(base, room.count) }
  }
}

extension SecretBytes: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "(\(count) secret bytes)" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: [:]) }
}

extension [UInt8] {
  /// Overwrites what held a secret, as far as it can be known that no copy was made.
  public mutating func wipe() {
    withUnsafeMutableBytes { room in
      // The one store the compiler may not leave out.
      if let base = room.baseAddress { explicit_bzero(base, room.count) }
    }
  }
}
