import Bytes
import Traffic

/// Random identifiers, never all zeros, which W3C Trace Context forbids.
struct TraceIdentifiers {
  let trace: [UInt8]
  let span: [UInt8]

  init(_ generator: inout some RandomNumberGenerator) {
    let first: UInt64 = generator.next(), second: UInt64 = generator.next(), third: UInt64 = generator.next()
    trace = Self.hex(first) + Self.hex(first == 0 && second == 0 ? 1 : second)
    span = Self.hex(third == 0 ? 1 : third)
  }

  private static func hex(_ word: UInt64) -> [UInt8] {
    Array(Hex.encode(withUnsafeBytes(of: word.bigEndian) { Array($0) }).utf8)
  }
}
