/// Why bytes are no message of the Workload API, or one that must not be used.
package struct WorkloadFault: Error, Sendable, Hashable, CustomStringConvertible {
  /// Printable.
  package let reason: String
  package var description: String { reason }
  package init(_ reason: String) { self.reason = reason }
}

/// Reads the fields of one protobuf message: total, and without a copy of what it skips. Unknown fields are skipped, as
/// protobuf demands; groups, which proto3 doesn't have, are a fault.
struct ProtobufReader {
  private var bytes: ArraySlice<UInt8>

  init(_ bytes: ArraySlice<UInt8>) { self.bytes = bytes }

  /// Returns the next field whose value is bytes, with its number; nil at the end. Skips fields of other kinds: the
  /// Workload API has none, and a known number with another kind is a fault.
  mutating func next(known: ClosedRange<UInt64>) throws(WorkloadFault) -> (number: UInt64, value: ArraySlice<UInt8>)? {
    while !bytes.isEmpty {
      let tag = try varint()
      let number = tag >> 3
      guard number > 0 else { throw WorkloadFault("a field has the number 0") }
      if tag & 7 == 2 { return (number, try take(try varint())) }
      guard !known.contains(number) else { throw WorkloadFault("the field \(number) is of another kind than bytes") }
      switch tag & 7 {
      case 0: _ = try varint()
      case 1: _ = try take(8)
      case 5: _ = try take(4)
      default: throw WorkloadFault("a field is of an unknown kind")
      }
    }
    return nil
  }

  private mutating func varint() throws(WorkloadFault) -> UInt64 {
    var value = UInt64(0)
    for shift in stride(from: UInt64(0), through: 63, by: 7) {
      guard let byte = bytes.popFirst() else { throw WorkloadFault("the message ends within a number") }
      // The tenth byte has room for one bit.
      if shift == 63, byte > 1 { break }
      value |= UInt64(byte & 0x7F) << shift
      if byte < 0x80 { return value }
    }
    throw WorkloadFault("a number has more than 64 bits")
  }

  private mutating func take(_ count: UInt64) throws(WorkloadFault) -> ArraySlice<UInt8> {
    guard count <= UInt64(bytes.count) else { throw WorkloadFault("the message ends within a field") }
    let taken = bytes.prefix(Int(count))
    bytes = bytes.dropFirst(Int(count))
    return taken
  }
}
