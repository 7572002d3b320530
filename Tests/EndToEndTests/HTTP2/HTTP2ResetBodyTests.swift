import TestSupport
import Testing

@Suite(.staged) struct `Streams of HTTP 2 that are reset during a body` {
  /// nginx, autumn 2026: a reset while a request's body came was followed by a use of the freed request.
  @Test(arguments: [
    "proxy_request_buffering off;", "client_body_buffer_size 1k;", "client_body_in_file_only clean;",
    "client_body_buffer_size 1m;", "limit_rate 1k;", "proxy_http_version 1.1; auth_request /ok;",
    "proxy_http_version 1.1; proxy_request_buffering off; mirror /ok;",
  ])
  func `leave nothing behind, wherever the reset comes`(location: String) async throws {
    let front = try await HTTP2Front(.ofTest(), location: location)
    let text = String(repeating: "b", count: 3000)
    let isAlive = try await front.frames { client in
      var stream: UInt32 = 1
      for round in 0..<40 {
        let body: [HTTP2Frame] = (0..<(round % 5)).map { _ in .data(stream, text, ends: false) }
        switch round % 4 {
        case 0: client.send([.post(stream, "/held")] + body + [.reset(stream)])
        // The end of the body, and the reset behind it.
        case 1: client.send([.post(stream, "/held")] + body + [.data(stream), .reset(stream)])
        // In another read.
        case 2:
          client.send([.post(stream, "/held")] + body)
          _ = try client.settle()
          client.send(.reset(stream), .data(stream, text, ends: false), .windowUpdate(stream, 1))
        default:
          client.send([.post(stream, "/held")] + body)
          _ = try client.settle()
          client.send(.data(stream, text, ends: false), .reset(stream), .headers(stream, HPACK.block([("x-a", "b")])))
        }
        stream += 2
      }
      _ = try client.settle()
      return try client.get(stream, "/ok").text == "ok"
    }
    #expect(isAlive)
    // Also the whole connection, with bodies on the way.
    try await front.frames { client in
      for stream in stride(from: UInt32(1), to: 60, by: 2) {
        client.send(.post(stream, "/held"), .data(stream, text, ends: false))
      }
      client.wire.reset()
    }
    front.go.raise()
    let isServing = try await front.serves()
    #expect(isServing && !front.daemon.errorLog.contains("[alert]"))
  }
}
