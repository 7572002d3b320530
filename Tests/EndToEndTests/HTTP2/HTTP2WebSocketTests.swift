import TestSupport
import Testing

@Suite(.staged) struct `WebSockets over HTTP 2` {
  @Test func `begin without the answer to a key that their client never sent`() async throws {
    let front = try await HTTP2Front(
      .ofTest(),
      location:
        #"proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade";"#,
      upstream: { wire in
        let head = try wire.read(through: "\r\n\r\n") ?? []
        let isAsked = String(decoding: head, as: UTF8.self).lowercased().contains("sec-websocket-key: ")
        try wire.write(
          "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + "Sec-WebSocket-Accept: \(isAsked ? "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" : "none")\r\nSec-WebSocket-Protocol: chat\r\n\r\nhello"
        )
        _ = try wire.readToEnd()
      })
    let response = try await front.frames { client in
      client.send(
        .headers(
          1,
          HPACK.block([
            (":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":path", "/chat"),
            (":authority", "localhost"), ("sec-websocket-version", "13"), ("sec-websocket-protocol", "chat"),
          ]), flags: 4))
      while let frame = try client.next() {
        guard frame.kind == .headers else { continue }
        return try HPACK.fields(of: frame.payload)
      }
      return []
    }
    func value(_ name: String) -> String? { response.first { $0.name == name }?.value }
    #expect(value(":status") == "200" && value("sec-websocket-protocol") == "chat")
    #expect(value("sec-websocket-accept") == nil && front.upstream.receivedText.contains("GET /chat "))
  }
}
