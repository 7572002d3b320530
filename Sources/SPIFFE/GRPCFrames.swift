/// Cuts the body of a gRPC response into messages: a flag, the length in four bytes, the message (gRPC over HTTP/2,
/// Length-Prefixed-Message). Keeps at most one message, and refuses one that is too long by its head.
package struct GRPCFrames: Sendable {
  /// gRPC's own limit for a received message: 4 MiB. A bundle of a hundred authorities has some 100 KiB.
  package static let longest = 4 << 20
  private static let head = 5

  private var waiting: [UInt8] = []

  package init() {}

  /// Bytes of a message that isn't whole.
  package var count: Int { waiting.count }

  /// The frame of one message, uncompressed. The Workload API's requests are empty.
  package static func frame(_ message: [UInt8]) -> [UInt8] {
    let length = UInt32(clamping: message.count)
    return [0] + [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: length >> $0) } + message
  }

  /// Takes bytes of the body. Returns the messages that are whole now, in their order.
  package mutating func take(_ bytes: UnsafeRawBufferPointer) throws(WorkloadFault) -> [[UInt8]] {
    var messages: [[UInt8]] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      let wanted = try self.wanted()
      let part = rest.prefix(wanted)
      waiting.append(contentsOf: part)
      rest = rest.dropFirst(part.count)
      guard try self.wanted() == 0 else { continue }
      messages.append(Array(waiting.dropFirst(Self.head)))
      waiting = []
    }
    return messages
  }

  /// How many bytes are missing: of the head, then of the message. 0: the message is whole.
  private func wanted() throws(WorkloadFault) -> Int {
    guard waiting.count >= Self.head else { return Self.head - waiting.count }
    guard waiting[0] == 0 else { throw WorkloadFault("a message is compressed, though no coding was offered") }
    let length = waiting[1..<Self.head].reduce(0) { $0 << 8 | Int($1) }
    guard length <= Self.longest else {
      throw WorkloadFault("a message has \(length) bytes, and \(Self.longest) are the limit")
    }
    return Self.head + length - waiting.count
  }
}

/// How an RPC ended: the codes that matter here (grpc/statuscodes, SPIFFE_Workload_Endpoint §6).
package enum GRPCStatus: Sendable, Hashable, CustomStringConvertible {
  case ok
  /// The metadata is missing: the endpoint is no Workload API, or sallyport has a fault.
  case invalidArgument
  /// The process is registered for no identity, or no longer.
  case permissionDenied
  case unavailable
  case other(Int)

  /// The value of `grpc-status`; nil if it is none.
  package init?(_ bytes: UnsafeRawBufferPointer) {
    guard (1...2).contains(bytes.count), bytes.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    switch bytes.reduce(0, { $0 * 10 + Int($1 &- 0x30) }) {
    case 0: self = .ok
    case 3: self = .invalidArgument
    case 7: self = .permissionDenied
    case 14: self = .unavailable
    case let code: self = .other(code)
    }
  }

  package var description: String {
    switch self {
    case .ok: "OK"
    case .invalidArgument: "InvalidArgument"
    case .permissionDenied: "PermissionDenied"
    case .unavailable: "Unavailable"
    case .other(let code): "status \(code)"
    }
  }
}
