import Bytes
import CZlib
import Compression
import Testing

@Suite struct `Gzip` {
  private func inflate(_ bytes: [UInt8], isWhole: Bool = true) -> [UInt8]? {
    var stream = z_stream()
    guard inflateInit2_(&stream, 31, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK else { return nil }
    defer { inflateEnd(&stream) }
    var input = bytes, output = [UInt8](repeating: 0, count: 1 << 22)
    let (inputCount, outputCount) = (input.count, output.count)
    return input.withUnsafeMutableBufferPointer { source in
      output.withUnsafeMutableBufferPointer { target in
        stream.next_in = source.baseAddress
        stream.avail_in = UInt32(inputCount)
        stream.next_out = target.baseAddress
        stream.avail_out = UInt32(outputCount)
        let result = CZlib.inflate(&stream, Z_SYNC_FLUSH)
        guard !isWhole || result == Z_STREAM_END else { return nil }
        return Array(target[..<(outputCount - Int(stream.avail_out))])
      }
    }
  }

  private func compress(_ stream: GzipStream, _ bytes: [UInt8], _ flush: GzipStream.Flush) -> [UInt8] {
    var output = ByteBuffer()
    let isDone = bytes.withUnsafeBytes { stream.compress($0, flush, to: &output) }
    #expect(isDone)
    return Array(output.readable)
  }

  @Test(arguments: [1, 6, 9], [0, 1, 20, 300, 70_000, 1 << 21])
  func `what was compressed is decompressed, whatever length was announced`(level: Int, count: Int) throws {
    let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* $0 >> 3) }
    for length in [nil, UInt64(count)] {
      let stream = try #require(GzipStream(level: level, length: length))
      var all: [UInt8] = []
      for start in stride(from: 0, to: count, by: 10_000) {
        all += compress(stream, Array(bytes[start..<min(count, start + 10_000)]), .none)
      }
      all += compress(stream, [], .finish)
      #expect(inflate(all) == bytes)
      #expect(compress(stream, [], .finish).isEmpty)
    }
  }

  @Test func `what was flushed can be decompressed before the end`() throws {
    let stream = try #require(GzipStream(level: 1, length: nil))
    var all = compress(stream, Array("data: one\n\n".utf8), .none)
    all += compress(stream, [], .sync)
    #expect(inflate(all, isWhole: false) == Array("data: one\n\n".utf8))
    // A second flush has nothing to add, and is no fault.
    _ = compress(stream, [], .sync)
    all += compress(stream, Array("two".utf8), .finish)
    #expect(inflate(all) == Array("data: one\n\ntwo".utf8))
  }
}
