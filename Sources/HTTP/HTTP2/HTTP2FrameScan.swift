/// Finds where each frame of a peer begins, however its bytes are cut into reads (RFC 9113 §4.1).
///
/// libnghttp2 announces no frame that it ignores, such as DATA on a stream that is closed, so it can't tell how many there
/// are. It judges the frames; this only counts bytes.
struct HTTP2FrameScan {
  struct Header: Equatable {
    /// Octets of the payload, padding included.
    let length: Int
    let type: UInt32
    let flags: UInt32
    let stream: Int32
  }

  /// Octets that a client sends before its first frame (RFC 9113 §3.4).
  static let clientPreface = 24
  static let headerSize = 9
  static let flagsPlace = 4

  /// Octets until the next frame's header.
  private var skip: Int
  /// The octets of a header that have come: the first 8, and the ninth last.
  private var header: UInt64 = 0
  private var headerCount = 0

  init(preface: Int) { skip = preface }

  /// How many of the bytes belong together, at least one: up to the end of a frame. Returns the frame's
  /// header once its last octet is among them. The caller judges the header before anybody reads these bytes.
  mutating func next(_ bytes: UnsafeRawBufferPointer) -> (count: Int, header: Header?) {
    if skip > 0 {
      let count = min(skip, bytes.count)
      skip -= count
      return (count, nil)
    }
    // Nearly always a header is whole in one read.
    if headerCount == 0, bytes.count >= Self.headerSize {
      header = UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self))
      return found(bytes[Self.headerSize - 1], at: Self.headerSize, of: bytes.count)
    }
    var count = 0
    while count < bytes.count {
      let byte = bytes[count]
      count += 1
      guard headerCount < Self.headerSize - 1 else { return found(byte, at: count, of: bytes.count) }
      header = header << 8 | UInt64(byte)
      headerCount += 1
    }
    return (count, nil)
  }

  /// Takes the last octet of a header, and what follows of its payload.
  private mutating func found(_ last: UInt8, at count: Int, of available: Int) -> (count: Int, header: Header?) {
    // length 24, type 8, flags 8, and the first 24 of the stream's 32 bits
    let found = Header(
      length: Int(header >> 40), type: UInt32(header >> 32 & 0xFF), flags: UInt32(header >> 24 & 0xFF),
      stream: Int32(truncatingIfNeeded: (header << 8 | UInt64(last)) & 0x7FFF_FFFF))
    let payload = min(found.length, available - count)
    skip = found.length - payload
    headerCount = 0
    header = 0
    return (count + payload, found)
  }
}
