import Bytes
@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `Messages of OTLP` {
  private func written(_ write: (inout SpanWriter) -> Void) -> [UInt8] {
    var writer = SpanWriter()
    write(&writer)
    return Array(writer.bytes.readable)
  }

  @Test(
    arguments: [
      (0, [0x08, 0]), (127, [0x08, 0x7F]), (128, [0x08, 0x80, 1]), (300, [0x08, 0xAC, 2]),
      (UInt64.max, [0x08] + [UInt8](repeating: 0xFF, count: 9) + [1]),
    ] as [(UInt64, [UInt8])])
  func `numbers are written as protobuf has them`(number: UInt64, bytes: [UInt8]) {
    #expect(written { $0.field(1, varint: number) } == bytes)
  }

  @Test(arguments: [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_456])
  func `the size of a number is that of what is written`(number: Int) {
    #expect(SpanWriter.size(of: number) == written { $0.varint(UInt64(number)) }.count)
  }

  @Test func `octets come from digits, and fixed numbers are little endian`() {
    #expect(written { $0.field(1, hex: Array("00ff9aA0".utf8)) } == [0x0A, 4, 0, 0xFF, 0x9A, 0xA0])
    #expect(written { $0.field(7, fixed64: 1) } == [0x39, 1, 0, 0, 0, 0, 0, 0, 0])
    #expect(written { $0.field(16, fixed32: 1) } == [0x85, 1, 1, 0, 0, 0])
  }

  @Test func `an attribute has the lengths of its parts in front`() {
    // KeyValue { key "a", value { string_value "bc" } }
    #expect(
      written { $0.attribute(9, "a", Array("bc".utf8)) } == [0x4A, 9, 0x0A, 1, 0x61, 0x12, 4, 0x0A, 2, 0x62, 0x63])
    // KeyValue { key "n", value { int_value 300 } }
    #expect(written { $0.attribute(9, "n", integer: 300) } == [0x4A, 8, 0x0A, 1, 0x6E, 0x12, 3, 0x18, 0xAC, 2])
    #expect(written { $0.attribute(9, "n", integer: -1) } == [0x4A, 7, 0x0A, 1, 0x6E, 0x12, 2, 0x18, 0])
  }

  @Test func `an empty text is left out, a long one is cut, and one that is no UTF-8 is repaired`() {
    #expect(written { $0.attribute(9, "a", [UInt8]()) }.isEmpty)
    #expect(written { $0.attribute(9, "a", [UInt8](repeating: 0x62, count: 9000)) }.count < 4200)
    let repaired = written { $0.attribute(9, "a", [0x62, 0xFF] as [UInt8]) }
    #expect(repaired.suffix(4) == [0x62, 0xEF, 0xBF, 0xBD])
  }
}
