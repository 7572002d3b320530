import Traffic

/// The messages of `grpc.health.v1.Health/Check`, in gRPC's framing (a flag, the length in four bytes, the message).
///
/// Pure, and total: any bytes give a status or a fault. Source: grpc/health/v1/health.proto, and protobuf's encoding.
package enum GRPCHealthMessage {
  /// Why bytes are no response of the service.
  package struct Fault: Error, Equatable {
    package let reason: String
    init(_ reason: String) { self.reason = reason }
  }

  /// `HealthCheckResponse.ServingStatus`; of a number that the service doesn't define, `unknown`.
  package enum ServingStatus: UInt64, Sendable, Equatable {
    case unknown = 0, serving = 1, notServing = 2, serviceUnknown = 3

    /// As the service names it.
    package var name: String {
      switch self {
      case .unknown: "UNKNOWN"
      case .serving: "SERVING"
      case .notServing: "NOT_SERVING"
      case .serviceUnknown: "SERVICE_UNKNOWN"
      }
    }
  }

  /// Makes `HealthCheckRequest`. `service`: empty for the server as a whole.
  package static func request(service: String) -> [UInt8] {
    let name = Array(service.utf8)
    var message: [UInt8] = []
    if !name.isEmpty {
      message.append(0x0A)
      append(varint: UInt64(name.count), to: &message)
      message += name
    }
    let length = UInt32(truncatingIfNeeded: message.count)
    return [0] + [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: length >> $0) } + message
  }

  private static func append(varint value: UInt64, to bytes: inout [UInt8]) {
    var rest = value
    while rest >= 0x80 {
      bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    bytes.append(UInt8(truncatingIfNeeded: rest))
  }

  /// Reads a whole response body: one message, not compressed.
  package static func status(of body: [UInt8]) throws(Fault) -> ServingStatus {
    guard body.count >= 5 else { throw Fault("the response has no whole message") }
    guard body[0] == 0 else { throw Fault("the message is compressed") }
    let length = body[1...4].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    guard length == UInt64(body.count - 5) else {
      throw Fault("the message has \(body.count - 5) bytes and announces \(length)")
    }
    var reader = Reader(bytes: body[5...])
    var status = UInt64(0)
    while !reader.bytes.isEmpty {
      let tag = try reader.varint()
      let field = tag >> 3
      guard field > 0 else { throw Fault("the message has a field of number 0") }
      switch (field, tag & 7) {
      // Of several, the last one counts.
      case (1, 0): status = try reader.varint()
      case (1, _): throw Fault("the status is no number")
      case (_, 0): _ = try reader.varint()
      case (_, 1): try reader.skip(8)
      case (_, 2): try reader.skip(try reader.varint())
      case (_, 5): try reader.skip(4)
      default: throw Fault("the message has a field of unknown kind")
      }
    }
    return ServingStatus(rawValue: status) ?? .unknown
  }

  private struct Reader {
    var bytes: ArraySlice<UInt8>

    mutating func varint() throws(Fault) -> UInt64 {
      var value = UInt64(0)
      for shift in stride(from: UInt64(0), through: 63, by: 7) {
        guard let byte = bytes.popFirst() else { throw Fault("the message ends within a number") }
        // The tenth byte has room for one bit.
        if shift == 63, byte > 1 { break }
        value |= UInt64(byte & 0x7F) << shift
        if byte < 0x80 { return value }
      }
      throw Fault("the message has a number of more than 64 bits")
    }

    mutating func skip(_ count: UInt64) throws(Fault) {
      guard count <= UInt64(bytes.count) else { throw Fault("the message ends within a field") }
      bytes.removeFirst(Int(count))
    }
  }
}
