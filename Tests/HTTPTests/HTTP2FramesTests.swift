import HTTP
import Testing

@Suite struct `Frames of HTTP 2` {
  private static func frame(_ type: UInt8, stream: UInt8 = 0, flags: UInt8 = 0, _ payload: [UInt8] = []) -> [UInt8] {
    [0, 0, UInt8(payload.count), type, flags, 0, 0, 0, stream] + payload
  }

  /// Each is an error of the connection (RFC 9113 §5.4.1).
  private static let errors: [[UInt8]] = [
    frame(0, stream: 0, [1]), frame(1, stream: 0, flags: 4, [0x82]), frame(2, stream: 0, [0, 0, 0, 0, 1]),
    frame(3, stream: 0, [0, 0, 0, 0]), frame(5, stream: 1, flags: 4, [0, 0, 0, 2]), frame(8, [0, 0, 0, 0]),
    frame(9, stream: 1, flags: 4), frame(0, stream: 9, [1]),
  ]
  /// Each has a length that its kind can't have (FRAME_SIZE_ERROR).
  private static let sizes: [[UInt8]] = [
    frame(4, [0, 0, 0, 0, 0]), frame(6, [0, 0, 0]), frame(2, stream: 1, [0]), frame(3, stream: 1, [0]),
    frame(8, [0]), frame(7, [0]), frame(1, stream: 1, flags: 0x2c), frame(0, stream: 1, flags: 8),
  ]

  /// libnghttp2 before 1.68.1 read on after an error of the connection, and a frame of a wrong size then failed an
  /// assertion. Debian 12 has the correction since 1.52.0-1+deb12u3. Whoever has an older library: sallyport calls the
  /// function that leads there between two reads only, and never reads after it.
  @Test func `CVE-2026-27135: frames behind an error of the connection change nothing`() {
    let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Self.frame(4)
    for error in Self.errors {
      for size in Self.sizes {
        let frames = HTTP2Frames()
        #expect(frames.start(.server, HTTP2Announcement()))
        let isWell = (preface + error + size).withUnsafeBytes { frames.receive($0) } != nil
        if isWell { _ = frames.pull { _ in true } } else { frames.terminate(.protocolError) }
        _ = frames.pull { _ in true }
        #expect(!frames.isAlive, "\(error) \(size)")
      }
    }
  }

  @Test func `a PRIORITY of stream 0 ends the connection without a call into libnghttp2`() {
    let frames = HTTP2Frames()
    #expect(frames.start(.server, HTTP2Announcement()))
    let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Self.frame(4)
    #expect(preface.withUnsafeBytes { frames.receive($0) } != nil && frames.failure == nil)
    #expect(Self.frame(2, stream: 0, [0, 0, 0, 0, 1]).withUnsafeBytes { frames.receive($0) } == nil)
    #expect(frames.failure == "Protocol error")
  }

  /// Heads of streams in this order; nil: the connection goes on.
  private func failure(_ streams: [UInt8]) -> String? {
    let frames = HTTP2Frames()
    #expect(frames.start(.server, HTTP2Announcement()))
    var bytes = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Self.frame(4)
    for stream in streams { bytes += Self.frame(1, stream: stream, flags: 5, [0x82, 0x84, 0x86, 0x41, 1, 0x68]) }
    _ = bytes.withUnsafeBytes { frames.receive($0) }
    _ = frames.pull { _ in true }
    return frames.failure
  }

  @Test func `a stream that was passed over can't begin any more`() {
    for streams: [UInt8] in [[5, 3], [5, 1], [1, 5, 3], [1, 3, 9, 11, 5], [1, 3, 9, 11, 7], [3, 5, 1]] {
      #expect(failure(streams) == "Protocol error", "\(streams)")
    }
    for streams: [UInt8] in [[1, 3, 5, 7], [5, 9, 101], [1, 3]] { #expect(failure(streams) == nil, "\(streams)") }
  }

  @Test func `however many streams are passed over, nobody is refused wrongly, and the newest are known`() {
    let odd = stride(from: UInt8(1), through: 253, by: 4)
    #expect(failure(Array(odd)) == nil)
    #expect(failure(Array(odd) + [251]) == "Protocol error")
    #expect(failure(Array(odd) + [3]) == nil, "forgiven")
  }

  /// A stream's response never ends, so that the stream stays.
  private final class Holding: HTTP2Frames {
    var reset: UInt32?, broken: String?
    override func resetDidGo(code: UInt32) { reset = code }
    override func connectionDidBreak(reason: String) { broken = reason }
  }

  private static let largest: [UInt8] = [0x7F, 0xFF, 0xFF, 0xFF]
  private static let overflows: [([[UInt8]], String)] = [
    ([frame(8, largest)], "FLOW_CONTROL_ERROR"),
    ([frame(8, stream: 1, largest)], "reset"), ([frame(8, stream: 1, largest), frame(8, stream: 1, largest)], "reset"),
    ([frame(4, [0, 4] + largest), frame(8, stream: 1, [0, 0, 0, 1])], "reset"),
    ([frame(8, stream: 1, [0x7F, 0xFF, 0, 0]), frame(4, [0, 4] + largest)], "reset"),
    ([frame(4, [0, 4, 0x80, 0, 0, 0])], "FLOW_CONTROL_ERROR"),
    ([frame(4, [0, 4, 0xFF, 0xFF, 0xFF, 0xFF])], "FLOW_CONTROL_ERROR"),
    ([frame(4, [0, 4, 0, 0, 0, 0]), frame(8, stream: 1, largest), frame(4, [0, 4] + largest)], "reset"),
  ]

  /// nginx, autumn 2026: the sum of a window's size and an increment overflowed.
  @Test(arguments: overflows)
  func `a window that would overflow ends its stream or the connection, however it grows`(sent: [[UInt8]], end: String)
  {
    let frames = Holding()
    #expect(frames.start(.server, HTTP2Announcement()))
    let bytes =
      Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Self.frame(4)
      + Self.frame(1, stream: 1, flags: 5, [0x82, 0x84, 0x86, 0x41, 1, 0x68]) + sent.flatMap { $0 }
    _ = bytes.withUnsafeBytes { frames.receive($0) }
    _ = frames.pull { _ in true }
    if end == "reset" {
      #expect(frames.reset == HTTP2ErrorCode.flowControlError.rawValue && frames.broken == nil)
    } else {
      #expect(frames.broken == end, "\(frames.broken ?? "")")
    }
  }

  private final class Counting: HTTP2Frames {
    var kinds: [HTTP2FrameKind] = [], lengths: [Int] = []
    override func frameDidBegin(_ frame: HTTP2FrameHeader) -> Bool {
      kinds.append(frame.kind)
      lengths.append(frame.length)
      return true
    }
  }

  @Test(arguments: 1...40) func `each frame is announced once, however its bytes come`(size: Int) {
    let frames = Counting()
    #expect(frames.start(.server, HTTP2Announcement()))
    let bytes =
      Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Self.frame(4, [0, 3, 0, 0, 0, 100])
      + Self.frame(1, stream: 1, flags: 5, [0x82, 0x84, 0x86, 0x41, 1, 0x68]) + Self.frame(3, stream: 1, [0, 0, 0, 8])
      // Ignored by libnghttp2, which announces neither.
      + Self.frame(0, stream: 1, [1, 2, 3]) + Self.frame(0, stream: 1, flags: 8, [2, 7, 0, 0]) + Self.frame(0x42, [9])
      + Self.frame(6, [UInt8](repeating: 0, count: 8)) + [0, 0, 1]
    bytes.withUnsafeBytes { bytes in
      for start in stride(from: 0, to: bytes.count, by: size) {
        #expect(frames.receive(UnsafeRawBufferPointer(rebasing: bytes[start..<min(start + size, bytes.count)])) != nil)
      }
    }
    #expect(frames.kinds == [.settings, .headers, .reset, .data, .data, .other, .ping])
    #expect(frames.lengths == [6, 6, 4, 3, 0, 1, 8])
  }

  private final class Content: HTTP2Frames {
    var kinds: [HTTP2FrameKind] = []
    override var hasEnough: Bool { kinds.count.isMultiple(of: 2) }
    override func frameDidBegin(_ frame: HTTP2FrameHeader) -> Bool {
      kinds.append(frame.kind)
      return true
    }
  }

  @Test(arguments: 1...40) func `a peer that has caused enough is read up to the end of a frame`(size: Int) {
    let frames = Content()
    #expect(frames.start(.server, HTTP2Announcement()))
    let ping = Self.frame(6, [UInt8](repeating: 0, count: 8))
    let bytes = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Self.frame(4) + ping + ping + ping + ping
    let ends = [24, 24 + 9, 24 + 9 + 17, 24 + 9 + 34, 24 + 9 + 51, bytes.count]
    bytes.withUnsafeBytes { bytes in
      var position = 0
      while position < bytes.count {
        let part = UnsafeRawBufferPointer(rebasing: bytes[position..<min(position + size, bytes.count)])
        let taken = frames.receive(part) ?? 0
        #expect(taken > 0 && taken <= part.count)
        position += max(1, taken)
        if taken < part.count { #expect(frames.hasEnough && ends.contains(position), "stopped at \(position)") }
      }
    }
    #expect(frames.kinds == [.settings, .ping, .ping, .ping, .ping])
  }
}
