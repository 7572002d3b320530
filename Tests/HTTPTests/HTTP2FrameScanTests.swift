import Testing

@testable import HTTP

@Suite struct `The scan of HTTP 2 frames` {
  /// Two frames behind a preface, the second without a payload.
  private static let bytes: [UInt8] =
    [UInt8](repeating: 7, count: HTTP2FrameScan.clientPreface)
    + [0, 0, 5, 0, 0x1, 0, 0, 0, 3] + [9, 9, 9, 9, 9] + [0, 0, 0, 4, 0x1, 0x80, 0, 1, 2]

  private static let headers = [
    HTTP2FrameScan.Header(length: 5, type: 0, flags: 1, stream: 3),
    HTTP2FrameScan.Header(length: 0, type: 4, flags: 1, stream: 258),
  ]

  @Test func `finds each header wherever reads cut the bytes`() {
    for size in 1...Self.bytes.count {
      var scan = HTTP2FrameScan(preface: HTTP2FrameScan.clientPreface)
      var found: [HTTP2FrameScan.Header] = []
      var position = 0
      while position < Self.bytes.count {
        let end = min(position + size, Self.bytes.count)
        let (count, header) = Self.bytes[position..<end].withUnsafeBytes { scan.next($0) }
        #expect(count > 0 && position + count <= end)
        position += max(count, 1)
        if let header { found.append(header) }
      }
      #expect(found == Self.headers, "reads of \(size) octets")
    }
  }

  @Test func `gives a header and its payload in one piece, and no octet of the next frame`() {
    var scan = HTTP2FrameScan(preface: 0)
    let frames = Array(Self.bytes.dropFirst(HTTP2FrameScan.clientPreface))
    let (count, header) = frames.withUnsafeBytes { scan.next($0) }
    #expect(count == 14 && header == Self.headers[0])
  }
}
