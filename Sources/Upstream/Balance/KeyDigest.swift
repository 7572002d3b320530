/// The CRC-32 (IEEE 802.3) by which nginx hashes keys and servers.
struct Checksum {
  private static let table: [UInt32] = (0..<256).map { (byte: UInt32) in
    (0..<8).reduce(byte) { value, _ in value & 1 != 0 ? value >> 1 ^ 0xEDB8_8320 : value >> 1 }
  }

  private var state: UInt32 = 0xFFFF_FFFF

  var value: UInt32 { state ^ 0xFFFF_FFFF }

  mutating func add(_ bytes: some Sequence<UInt8>) {
    var state = state
    Self.table.withUnsafeBufferPointer { table in
      for byte in bytes { state = table[Int(UInt8(truncatingIfNeeded: state) ^ byte)] ^ state >> 8 }
    }
    self.state = state
  }

  static func of(_ bytes: some Sequence<UInt8>) -> UInt32 {
    var checksum = Checksum()
    checksum.add(bytes)
    return checksum.value
  }
}

/// What a request's key of `hash` comes to. It holds no bytes, so a long key costs its one pass, however often nginx's
/// rule hashes it anew.
public struct KeyDigest: Sendable, Equatable {
  let checksum: UInt32
  private let count: Int

  /// nil for an empty key: the servers then take turns, as in nginx.
  public init?(_ key: UnsafeRawBufferPointer) {
    guard !key.isEmpty else { return nil }
    checksum = Checksum.of(key)
    count = key.count
  }

  /// The checksum of a decimal number followed by the key (Cache::Memcached's rehash).
  func checksum(after number: Int) -> UInt32 {
    Self.product(Self.power(bytes: count), Checksum.of("\(number)".utf8)) ^ checksum
  }

  /// The product of two polynomials modulo that of CRC-32, lowest power in the highest bit.
  private static func product(_ first: UInt32, _ second: UInt32) -> UInt32 {
    var (sum, second): (UInt32, UInt32) = (0, second)
    for bit in (0..<32).reversed() {
      if first & 1 << UInt32(bit) != 0 { sum ^= second }
      second = second & 1 != 0 ? second >> 1 ^ 0xEDB8_8320 : second >> 1
    }
    return sum
  }

  /// The polynomial x to the power of so many bits as the bytes have: what that much text does to a checksum before it.
  private static func power(bytes: Int) -> UInt32 {
    var (result, square, rest): (UInt32, UInt32, Int) = (1 << 31, 1 << 23, bytes)
    while rest > 0 {
      if rest & 1 != 0 { result = product(square, result) }
      square = product(square, square)
      rest >>= 1
    }
    return result
  }
}
