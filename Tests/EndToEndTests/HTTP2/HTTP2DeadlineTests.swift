import Glibc
import TestSupport
import Testing

/// What ends a connection or a stream of HTTP/2 that makes no progress, and how a connection leaves.
@Suite(.staged) struct `Deadlines of HTTP 2` {
  @Test func `keepalive_timeout ends an idle connection, which PINGs don't make busy`() async throws {
    let front = try await HTTP2Front(.ofTest(), server: "keepalive_timeout 300ms; send_timeout 1h;")
    let (status, code) = try await front.frames { client in
      let status = try client.get(1, "/bytes/100").status
      for _ in 0..<10 { _ = try client.settle() }
      return (status, try client.ending())
    }
    #expect(status == 200 && code == .noError)
  }

  @Test(arguments: ["", "prefix", "preface", "settings", "block", "refused", "trailers"])
  func `client_header_timeout ends a connection whose request doesn't come`(sent: String) async throws {
    let front = try await HTTP2Front(
      .ofTest(),
      server: """
        client_header_timeout 300ms; client_body_timeout 300ms; keepalive_timeout 300ms; send_timeout 1h;
        http2_max_concurrent_streams 1;
        """)
    let part = HTTP2Frame(.headers, flags: 1, stream: 1, HPACK.block(HPACK.request("GET", "/held").dropLast()))
    let isEnded = try await front.scene.talk(front.port) { wire in
      let client = FrameClient(wire)
      switch sent {
      case "": break
      case "prefix": try wire.write(String(FrameClient.preface.prefix(10)))
      case "preface": try wire.write(FrameClient.preface)
      default: try client.begin(acknowledges: false)
      }
      switch sent {
      case "block": client.send(part)
      case "refused": client.send(.get(1, "/ok"), HTTP2Frame(.headers, flags: 1, stream: 3, part.payload))
      case "trailers":
        client.send(.post(1), HTTP2Frame(.headers, flags: 1, stream: 1, HPACK.block([("x-a", "b")])))
      default: break
      }
      _ = try client.ending()
      return client.hasEnded
    }
    #expect(isEnded)
    #expect(front.upstream.connections == 0)
    #expect(try await front.serves())
  }

  @Test(arguments: ["on", "off"]) func `client_body_timeout ends a stream whose body doesn't come`(
    buffering: String
  ) async throws {
    let front = try await HTTP2Front(
      .ofTest(), server: "client_body_timeout 300ms;",
      location: "proxy_http_version 1.1; proxy_request_buffering \(buffering);")
    let (response, next) = try await front.frames { client in
      client.send(.post(1), .data(1, "x", ends: false))
      return (try client.response(on: 1), try client.get(3, "/ok"))
    }
    #expect(response.status == 408 || response.resetCode != nil)
    #expect(next.text == "ok")
  }

  @Test func `the variable connection_requests is the number of each request, also where several are in progress`()
    async throws
  {
    let front = try await HTTP2Front(.ofTest(), location: "add_header X-Number $connection_requests;")
    let numbers = try await front.frames { client in
      client.send([1, 3, 5].map { .get($0, "/held") })
      front.go.raise()
      return try [1, 3, 5].map { try client.response(on: $0).fields.first { $0.name == "x-number" }?.value }
    }
    #expect(numbers == ["1", "2", "3"])
  }

  @Test func `a connection leaves with two GOAWAY frames, and completes its streams`() async throws {
    let front = try await HTTP2Front(.ofTest())
    let (seen, status, late) = try await front.frames { client in
      client.send(.get(1, "/held/by"))
      _ = try client.settle()
      front.daemon.signal(SIGQUIT)
      var seen: [UInt32] = []
      while seen.isEmpty, let frame = try client.next() {
        if frame.kind == .goAway { seen.append(frame.word(at: 0)) }
      }
      // Sent before the client knew: taken, since the first GOAWAY names the highest stream.
      client.send(.get(3, "/ok"))
      let late = try client.response(on: 3).status
      var isAnswered = false
      while seen.count < 2, let frame = try client.next() {
        if frame.kind == .goAway { seen.append(frame.word(at: 0)) }
        if frame.kind == .ping, !isAnswered {
          isAnswered = true
          client.send(HTTP2Frame(.ping, flags: HTTP2Frame.acknowledged, frame.payload))
        }
      }
      front.go.raise()
      let status = try client.response(on: 1).status
      _ = try client.ending()
      return (seen, status, late)
    }
    #expect(seen == [UInt32.max >> 1, 3] && status == 200 && late == 200)
    #expect(try await front.daemon.process.ended() == .exited(0))
  }

  @Test func `after keepalive_requests a connection leaves, and the last requests are answered`() async throws {
    let front = try await HTTP2Front(.ofTest(), server: "keepalive_requests 3;")
    let (statuses, code) = try await front.frames { client in
      let statuses = try (0..<3).map { try client.get(2 * $0 + 1, "/bytes/10").status }
      return (statuses, try client.ending())
    }
    #expect(statuses == [200, 200, 200] && code == .noError)
  }

  @Test(arguments: [false, true])
  func `http2 off by a reload ends connections in good order, and no request is misdirected`(isTLS: Bool) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), port = try scene.port()
    func text(_ http2: String) -> String {
      configuration(
        """
        server { listen 127.0.0.1:\(port)\(isTLS ? " ssl" : ""); server_name localhost; http2 \(http2);
          \(isTLS ? Cast.tls : "") return 200 ok; }
        """)
    }
    let daemon = try await Sallyport.start(scene, text("on"))
    let wire = try await offPool {
      let wire =
        try isTLS
        ? OpenSSLClient(scene, port: port, name: "localhost", identity: cast.alice, ["-alpn", "h2"]).wire
        : Wire.dial(port: port)
      let client = FrameClient(wire)
      try client.begin()
      #expect(try client.get(1, "/").text == "ok")
      return wire
    }
    try daemon.rewrite(text("off"))
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    let (late, code) = try await offPool {
      let client = FrameClient(wire)
      let late = try client.get(3, "/")
      return (late, try client.ending())
    }
    #expect(late.status == 0 && (late.resetCode == .refusedStream || late.resetCode == nil) && code == .noError)
  }
}
