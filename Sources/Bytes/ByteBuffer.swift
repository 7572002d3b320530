public import Glibc

/// A buffer of bytes that one side fills and the other side consumes.
///
/// Sockets, TLS and HTTP pass bytes on in pieces; only this type owns and moves them. It never shares its storage
/// (noncopyable), and holds none while it is empty and unreserved. Every index is checked: `0 <= head <= tail <=
/// capacity` holds after each call, so differences of these don't overflow.
///
/// It is public, not package, because other modules access it for each byte and each field (docs/decisions/0003).
public struct ByteBuffer: ~Copyable {
  @usableFromInline var base: UnsafeMutableRawPointer?
  @usableFromInline var capacity: Int
  @usableFromInline var head: Int
  @usableFromInline var tail: Int

  /// Makes an empty buffer, and allocates `capacity` bytes at once if that is above zero.
  public init(capacity: Int = 0) {
    self.base = capacity > 0 ? Self.allocate(capacity) : nil
    self.capacity = max(0, capacity)
    self.head = 0
    self.tail = 0
  }

  deinit { Glibc.free(base) }

  /// Why not `UnsafeMutableRawPointer.allocate`: on Linux that goes through `posix_memalign`, which costs more than
  /// `malloc`, and a request needs two buffers.
  private static func allocate(_ count: Int) -> UnsafeMutableRawPointer {
    guard let memory = malloc(count) else { preconditionFailure("out of memory") }
    return memory
  }

  /// The number of bytes that can be read.
  @inlinable public var count: Int { tail &- head }
  @inlinable public var isEmpty: Bool { tail == head }
  /// The number of bytes that can be written before `reserve` must compact or grow.
  @inlinable public var free: Int { capacity &- tail }
  /// The size of the storage in bytes; 0 when released.
  @inlinable public var storageSize: Int { capacity }

  /// The readable bytes. Valid until the next mutating call.
  @inlinable public var readable: UnsafeRawBufferPointer {
    guard let base else { return UnsafeRawBufferPointer(start: nil, count: 0) }
    return UnsafeRawBufferPointer(start: base + head, count: tail &- head)
  }

  /// The readable bytes for changes in place, such as wiping secrets or folding case.
  @inlinable public var mutableReadable: UnsafeMutableRawBufferPointer {
    guard let base else { return UnsafeMutableRawBufferPointer(start: nil, count: 0) }
    return UnsafeMutableRawBufferPointer(start: base + head, count: tail &- head)
  }

  /// Empties the buffer and overwrites all of its storage.
  public mutating func wipe() {
    // The compiler must not remove this call, as it may remove other dead stores.
    if let base { explicit_bzero(base, capacity) }
    removeAll()
  }

  /// The free space after the readable bytes. Valid until the next mutating call.
  @inlinable public var writable: UnsafeMutableRawBufferPointer {
    guard let base else { return UnsafeMutableRawBufferPointer(start: nil, count: 0) }
    return UnsafeMutableRawBufferPointer(start: base + tail, count: capacity &- tail)
  }

  /// Makes room for at least `n` more bytes, by compaction first, then by growth.
  @inlinable public mutating func reserve(_ n: Int) {
    if capacity &- tail < n { makeRoom(n) }
  }

  @usableFromInline mutating func makeRoom(_ n: Int) {
    let used = tail - head
    if let base, capacity - used >= n, head > 0 {
      memmove(base, base + head, used)
    } else {
      let wanted = max(used + n, capacity * 2, 256)
      let grown = Self.allocate(wanted)
      if let base {
        memcpy(grown, base + head, used)
        Glibc.free(base)
      }
      base = grown
      capacity = wanted
    }
    head = 0
    tail = used
  }

  /// Records that `n` bytes of `writable` have been filled.
  @inlinable public mutating func didWrite(_ n: Int) {
    precondition(n >= 0 && n <= capacity &- tail)
    tail &+= n
  }

  /// Removes `n` bytes from the front.
  @inlinable public mutating func consume(_ n: Int) {
    precondition(n >= 0 && n <= tail &- head)
    head &+= n
    if head == tail {
      head = 0
      tail = 0
    }
  }

  /// Removes the last bytes until `n` are left, to undo appends.
  @inlinable public mutating func truncate(to n: Int) {
    precondition(n >= 0 && n <= tail &- head)
    tail = head &+ n
  }

  /// Removes all bytes and keeps the storage.
  @inlinable public mutating func removeAll() {
    head = 0
    tail = 0
  }

  /// Removes all bytes and frees the storage.
  public mutating func release() {
    Glibc.free(base)
    base = nil
    capacity = 0
    head = 0
    tail = 0
  }

  @inlinable public mutating func append(_ bytes: UnsafeRawBufferPointer) {
    guard let source = bytes.baseAddress, bytes.count > 0 else { return }
    reserve(bytes.count)
    guard let base else { return }
    memcpy(base + tail, source, bytes.count)
    tail &+= bytes.count
  }

  @inlinable public mutating func append(_ byte: UInt8) {
    reserve(1)
    base?.storeBytes(of: byte, toByteOffset: tail, as: UInt8.self)
    tail &+= 1
  }

  // Inlined, so that the length is a constant where the text is a literal.
  @inlinable @inline(__always) public mutating func append(_ text: StaticString) {
    append(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
  }

  @inlinable public mutating func append(_ bytes: [UInt8]) {
    bytes.withUnsafeBytes { append($0) }
  }

  /// Appends text, for code that seldom runs.
  public mutating func append(string: String) {
    var copy = string
    copy.withUTF8 { append(UnsafeRawBufferPointer($0)) }
  }

  /// Appends decimal digits without sign and padding.
  public mutating func append(decimal value: UInt64) {
    if value < 10 { return append(48 &+ UInt8(truncatingIfNeeded: value)) }
    reserve(20)
    guard let base else { return }
    var digits = 1
    var bound: UInt64 = 10
    while digits < 20, value >= bound {
      digits += 1
      bound = digits < 20 ? bound &* 10 : .max
    }
    var rest = value
    var at = base + (tail + digits)
    for _ in 0..<digits {
      at -= 1
      let shorter = rest / 10
      at.storeBytes(of: UInt8(truncatingIfNeeded: 48 &+ rest &- shorter &* 10), as: UInt8.self)
      rest = shorter
    }
    tail += digits
  }

  /// Appends lower-case hexadecimal digits without leading zeros: the chunk size of RFC 9112 §7.1.
  public mutating func append(hexadecimal value: UInt64) {
    var shift = 60
    while shift > 0 && (value >> UInt64(shift)) == 0 { shift -= 4 }
    while shift >= 0 {
      let digit = UInt8((value >> UInt64(shift)) & 15)
      append(digit < 10 ? 48 + digit : 87 + digit)
      shift -= 4
    }
  }

  /// Exchanges the storage of two buffers, to pass bytes on without a copy.
  public mutating func swap(with other: inout ByteBuffer) {
    Swift.swap(&base, &other.base)
    Swift.swap(&capacity, &other.capacity)
    Swift.swap(&head, &other.head)
    Swift.swap(&tail, &other.tail)
  }
}
