import Bytes
import Crypto

/// A WebSocket that echoes each message (RFC 6455).
struct DemoWebSocket {
  private let wire: DemoWire
  private let key: String
  private static let frameLimit = 1 << 20

  init(_ wire: DemoWire, key: String) {
    self.wire = wire
    self.key = key
  }

  private struct Frame {
    /// FIN and opcode, as received.
    var first: UInt8
    var payload: [UInt8]
    var opcode: UInt8 { first & 0x0F }
  }

  func serve() {
    let accept = Base64.encode(Digest.of(Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8), .sha1))
    wire.write(
      Array(
        ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
          + "Sec-WebSocket-Accept: \(accept)\r\n\r\n").utf8))
    let close: UInt8 = 8, ping: UInt8 = 9, pong: UInt8 = 10
    while let frame = read() {
      switch frame.opcode {
      case close:
        send(0x80 | close, frame.payload)
        return
      case ping: send(0x80 | pong, frame.payload)
      case pong: break
      default: send(frame.first, frame.payload)
      }
    }
  }

  /// Returns nil at the end, and for a frame that is unmasked or too large.
  private func read() -> Frame? {
    guard let head = take(2), head[1] & 0x80 != 0 else { return nil }
    var count = Int(head[1] & 0x7F)
    let extra = count == 126 ? 2 : count == 127 ? 8 : 0
    if extra > 0 {
      guard let bytes = take(extra), bytes.dropLast(4).allSatisfy({ $0 == 0 }) || extra == 2 else { return nil }
      count = bytes.reduce(0) { $0 << 8 | Int($1) }
    }
    guard count <= Self.frameLimit, let mask = take(4), var payload = take(count) else { return nil }
    for index in payload.indices { payload[index] ^= mask[index & 3] }
    return Frame(first: head[0], payload: payload)
  }

  private func take(_ count: Int) -> [UInt8]? {
    while wire.input.count < count { guard wire.read() else { return nil } }
    let bytes = Array(wire.input.readable.prefix(count))
    wire.consume(count)
    return bytes
  }

  private func send(_ first: UInt8, _ payload: [UInt8]) {
    var frame = [first]
    switch payload.count {
    case 0..<126: frame.append(UInt8(payload.count))
    case 126..<65536: frame += [126, UInt8(payload.count >> 8), UInt8(payload.count & 255)]
    default: frame += [127] + (0..<8).map { UInt8(truncatingIfNeeded: payload.count >> (56 - 8 * $0)) }
    }
    wire.write(frame + payload)
  }
}
