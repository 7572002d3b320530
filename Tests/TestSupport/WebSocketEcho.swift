import Bytes
import Crypto

/// The little of RFC 6455 that an echo needs, on both ends of a wire.
package enum WebSocket {
  package static let key = "dGhlIHNhbXBsZSBub25jZQ=="

  package static func accept(for key: String) -> String {
    Base64.encode(Digest.of(Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8), .sha1))
  }

  package static func frame(_ opcode: UInt8, _ payload: [UInt8], mask: [UInt8]? = nil) -> [UInt8] {
    let masked: UInt8 = mask == nil ? 0 : 0x80
    var frame: [UInt8] = [0x80 | opcode]
    switch payload.count {
    case ..<126: frame.append(masked | UInt8(payload.count))
    case ..<65_536: frame += [masked | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xff)]
    default: frame += [masked | 127] + (0..<8).map { UInt8(truncatingIfNeeded: payload.count >> (56 - 8 * $0)) }
    }
    guard let mask else { return frame + payload }
    return frame + mask + payload.enumerated().map { $1 ^ mask[$0 % 4] }
  }
}

extension ScriptedUpstream {
  /// Accepts upgrades to websocket and echoes frames; a close frame is answered and ends it.
  package static func webSocketEcho(_ scene: Scene) throws -> ScriptedUpstream {
    try ScriptedUpstream(scene) { wire, _ in
      guard let request = try wire.requestHead() else { return }
      guard request["Upgrade"]?.lowercased() == "websocket", let key = request["Sec-WebSocket-Key"] else {
        return try wire.answer("no upgrade\n", status: "400 Bad Request", closing: true)
      }
      try wire.write(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
          + "Sec-WebSocket-Accept: \(WebSocket.accept(for: key))\r\n\r\n")
      while let (opcode, payload) = try wire.webSocketFrame() {
        try wire.write(WebSocket.frame(opcode, payload))
        if opcode == 8 { return }
      }
    }
  }
}

extension Wire {
  /// The next frame, unmasked; nil at the end of the stream.
  package func webSocketFrame() throws -> (opcode: UInt8, payload: [UInt8])? {
    let first = try readSome(1)
    guard !first.isEmpty else { return nil }
    let second = try read(exactly: 1)[0]
    var count = Int(second & 0x7f)
    if count == 126 { count = try read(exactly: 2).reduce(0) { $0 << 8 | Int($1) } }
    if count == 127 { count = try read(exactly: 8).reduce(0) { $0 << 8 | Int($1) } }
    let mask = second & 0x80 != 0 ? try read(exactly: 4) : [0, 0, 0, 0]
    return (first[0] & 0x0f, try read(exactly: count).enumerated().map { $1 ^ mask[$0 % 4] })
  }

  /// Asks for an upgrade and returns the answer.
  package func openWebSocket(_ path: String, host: String = "localhost") throws -> HTTPMessage {
    try write(
      "GET \(path) HTTP/1.1\r\nHost: \(host)\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: \(WebSocket.key)\r\n\r\n")
    return try response()
  }
}
