import Bytes
import Testing

struct ByteBufferTests {
  @Test func `an empty window holds no storage`() {
    let buffer = ByteBuffer()
    #expect(buffer.count == 0)
    #expect(buffer.storageSize == 0)
    #expect(buffer.readable.count == 0)
    #expect(buffer.writable.count == 0)
  }

  @Test func `bytes come out in the order they went in`() {
    var buffer = ByteBuffer()
    buffer.append("GET ")
    buffer.append([47])
    buffer.append(32)
    buffer.append(string: "HTTP/1.1")
    #expect(buffer.readable.text == "GET / HTTP/1.1")
    buffer.consume(4)
    #expect(buffer.readable.text == "/ HTTP/1.1")
    buffer.truncate(to: 1)
    #expect(buffer.readable.text == "/")
  }

  @Test func `what was consumed makes room without growth`() {
    var buffer = ByteBuffer(capacity: 256)
    buffer.append([UInt8](repeating: 1, count: 256))
    buffer.consume(200)
    #expect(buffer.free == 0)
    buffer.reserve(200)
    #expect(buffer.storageSize == 256)
    #expect(buffer.free == 200)
    #expect(Array(buffer.readable) == [UInt8](repeating: 1, count: 56))
  }

  @Test func `growth keeps what is there`() {
    var buffer = ByteBuffer(capacity: 4)
    var expected: [UInt8] = []
    for round in 0..<1000 {
      let piece = [UInt8](repeating: UInt8(truncatingIfNeeded: round), count: round % 7)
      buffer.append(piece)
      expected += piece
      if round % 3 == 0, buffer.count >= 2 {
        buffer.consume(2)
        expected.removeFirst(2)
      }
    }
    #expect(Array(buffer.readable) == expected)
  }

  @Test func `a written count moves the window`() {
    var buffer = ByteBuffer(capacity: 8)
    buffer.writable[0] = 65
    buffer.writable[1] = 66
    buffer.didWrite(2)
    #expect(buffer.readable.text == "AB")
    #expect(buffer.free == 6)
  }

  @Test(arguments: [0, 1, 9, 10, 99, 100, 12_345, UInt64(UInt32.max), .max])
  func `decimal and hexadecimal numbers are as printed`(value: UInt64) {
    var buffer = ByteBuffer()
    buffer.append(decimal: value)
    buffer.append(32)
    buffer.append(hexadecimal: value)
    #expect(buffer.readable.text == "\(value) \(String(value, radix: 16))")
  }

  @Test func `released storage is gone and the window can be used again`() {
    var buffer = ByteBuffer(capacity: 64)
    buffer.append("x")
    buffer.release()
    #expect(buffer.storageSize + buffer.count == 0)
    buffer.append("y")
    #expect(buffer.readable.text == "y")
  }

  @Test func `two windows exchange their bytes`() {
    var left = ByteBuffer()
    var right = ByteBuffer()
    left.append("left")
    left.swap(with: &right)
    #expect(left.count == 0)
    #expect(right.readable.text == "left")
  }
}

struct ByteRangeTests {
  private func raw<R>(_ text: String, _ body: (UnsafeRawBufferPointer) -> R) -> R {
    Array(text.utf8).withUnsafeBytes(body)
  }

  @Test func `a range names a part of somebody's bytes`() {
    raw("Host: example") { bytes in
      #expect(bytes[ByteRange(start: 6, count: 7)].text == "example")
      #expect(bytes[ByteRange.empty].count == 0)
    }
  }

  @Test func `a range that does not lie inside names nothing`() {
    raw("abc") { bytes in
      #expect(bytes[ByteRange(start: 2, count: 2)].count == 0)
      #expect(bytes[ByteRange(start: 9, count: 1)].count == 0)
    }
  }

  @Test func `letters are folded only where asked, and only ASCII ones`() {
    raw("Content-Length") { bytes in
      #expect(bytes.equals("Content-Length"))
      #expect(!bytes.equals("content-length"))
      #expect(bytes.equalsIgnoringCase("content-length"))
      #expect(!bytes.equalsIgnoringCase("content-lengt"))
    }
    raw("[@`{") { bytes in #expect(!bytes.equalsIgnoringCase("{`@[")) }
  }

  @Test func `digits have values and other bytes have none`() {
    #expect(ASCII.hexValue(0x30) == 0 && ASCII.hexValue(0x46) == 15 && ASCII.hexValue(0x66) == 15)
    #expect(ASCII.hexValue(0x67) == nil && ASCII.hexValue(0x2F) == nil && ASCII.hexValue(0x3A) == nil)
    #expect(ASCII.isDigit(0x39) && !ASCII.isDigit(0x3A) && !ASCII.isDigit(0x2F))
    #expect(ASCII.upper(0x61) == 0x41 && ASCII.upper(0x7B) == 0x7B && ASCII.lower(0x5B) == 0x5B)
  }
}
