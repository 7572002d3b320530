import TestSupport
import Testing

/// RFC 9113 and RFC 7541, frame by frame: the cases of h2spec, and some of ours.
@Suite(.staged) struct `Frames of HTTP 2` {
  static let groups: [(name: String, cases: [FrameCase])] = [
    ("frame format", FrameCase.format), ("streams", FrameCase.streams), ("frame definitions", FrameCase.frames),
    ("compression", FrameCase.compression),
  ]

  @Test(arguments: groups.map(\.name)) func `each case of h2spec ends as RFC 9113 has it`(group: String) async throws {
    let front = try await HTTP2Front(.ofTest())
    let cases = Self.groups.first { $0.name == group }?.cases ?? []
    #expect(cases.count > 10)
    for vector in cases {
      let fault = try await front.frames { try vector.fault($0) }
      #expect(fault == nil, "\(vector.testDescription)")
    }
    #expect(try await front.serves())
    #expect(!front.daemon.errorLog.contains("[error]") && !front.daemon.errorLog.contains("[alert]"))
  }

  @Test(arguments: [
    "INVALID CONNECTION PREFACE\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\rX", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
  ])
  func `3_4: a connection with another preface is closed`(preface: String) async throws {
    let front = try await HTTP2Front(.ofTest())
    let text = try await front.scene.talk(front.port) { wire in
      try wire.write(preface)
      return String(decoding: try wire.readToEnd(), as: UTF8.self)
    }
    #expect(text.hasPrefix("HTTP/1.1 400 ") || text.hasPrefix("HTTP/1.1 505 "), "\(text)")
    #expect(front.upstream.connections == 0)
    #expect(try await front.serves())
  }

  @Test
  func `3_4: the preface may come a byte at a time, and something else than SETTINGS after it ends the connection`()
    async throws
  {
    let front = try await HTTP2Front(.ofTest())
    let codes = try await front.scene.talk(front.port) { wire in
      for byte in FrameClient.preface.utf8 { try wire.write([byte]) }
      try wire.write(HTTP2Frame.ping(1).bytes)
      let client = FrameClient(wire)
      return (try client.next()?.kind, try client.ending())
    }
    #expect(codes.0 == .settings && codes.1 == .protocolError)
    #expect(try await front.serves())
  }

  @Test func `5_4_1: a GOAWAY names the error, and the connection is closed after it`() async throws {
    let front = try await HTTP2Front(.ofTest())
    let code = try await front.frames { client in
      client.send(HTTP2Frame(.ping, [0]))
      return try client.ending()
    }
    #expect(code == .frameSizeError)
    try await front.daemon.logged("[info]", "client sent invalid HTTP/2: FRAME_SIZE_ERROR")
  }

  @Test func `6_5_3, 6_7: settings are acknowledged, and a PING's answer has its payload`() async throws {
    let front = try await HTTP2Front(.ofTest())
    let frames = try await front.frames { client in
      client.send(.settings([3: 100]), .ping(0xdead_beef))
      return try client.settle()
    }
    #expect(frames.count == 2)
    #expect(frames.contains(.settingsTaken))
    #expect(frames.contains(.ping(0xdead_beef, flags: HTTP2Frame.acknowledged)))
  }

  @Test func `6_9: a response comes as fast as windows open, and a window may become negative`() async throws {
    let front = try await HTTP2Front(.ofTest())
    let pieces = try await front.frames(settings: [4: 3]) { client in
      func piece() throws -> [UInt8] {
        while let frame = try client.next() { if frame.kind == .data { return frame.payload } }
        return []
      }
      client.send(.get(1, "/bytes/10"))
      var pieces = [try piece()]
      // Now at -3: the first increment opens nothing.
      client.send(.settings([4: 0]), .windowUpdate(1, 2))
      pieces.append(try client.settle().filter { $0.kind == .data }.flatMap(\.payload))
      client.send(.windowUpdate(1, 3))
      pieces.append(try piece())
      client.send(.settings([4: 5]))
      pieces.append(try client.response(on: 1).body)
      // The last of several values counts.
      client.send(HTTP2Frame(.settings, HTTP2Frame.settings([4: 0]).payload + HTTP2Frame.settings([4: 1]).payload))
      client.send(.get(3, "/bytes/2"))
      pieces.append(try piece())
      client.send(.windowUpdate(3, 1))
      pieces.append(try client.response(on: 3).body)
      return pieces
    }
    let body = Pattern.bytes(10)
    #expect(pieces == [body[..<3], [], body[3..<5], body[5...], body[..<1], body[1..<2]].map(Array.init))
  }

  @Test func `6_9: the connection's window bounds all streams together`() async throws {
    let front = try await HTTP2Front(.ofTest())
    let (first, rest) = try await front.frames(settings: [4: 1 << 20]) { client in
      client.send(.get(1, "/bytes/60000"), .get(3, "/bytes/60000"))
      var count = 0
      while count < 65_535, let frame = try client.next() { if frame.kind == .data { count += frame.payload.count } }
      let more = try client.settle().contains { $0.kind == .data }
      client.send(.windowUpdate(0, 200_000))
      while count < 120_000, let frame = try client.next() { if frame.kind == .data { count += frame.payload.count } }
      return (more, count)
    }
    #expect(!first && rest == 120_000)
  }

  @Test(arguments: ["on", "off"]) func `6_9: credit comes for what was taken, padding included`(
    buffering: String
  ) async throws {
    let front = try await HTTP2Front(
      .ofTest(), location: "proxy_request_buffering \(buffering); proxy_http_version 1.1;")
    let response = try await front.frames(settings: [4: 1 << 20]) { client in
      client.send(.windowUpdate(0, 1 << 20), .post(1))
      // Padding counts for the windows, and is no data.
      let padded = [255] + [UInt8](repeating: 0x78, count: 16_128 + 255)
      var room = 65_535, connection = client.connectionWindow
      for _ in 0..<20 {
        while room < padded.count || connection < padded.count, let next = try client.next() {
          guard next.kind == .windowUpdate else { continue }
          if next.stream == 0 { connection += Int(next.word(at: 0)) } else { room += Int(next.word(at: 0)) }
        }
        client.send(HTTP2Frame(.data, flags: HTTP2Frame.padded, stream: 1, padded))
        room -= padded.count
        connection -= padded.count
      }
      client.send(.data(1))
      return try client.response(on: 1)
    }
    #expect(response.status == 200 && response.body == [UInt8](repeating: 0x78, count: 20 * 16_128))
  }

  @Test(arguments: [0, 5]) func `6_8: after a client's GOAWAY its streams are completed`(code: UInt32) async throws {
    let front = try await HTTP2Front(.ofTest())
    let response = try await front.frames { client in
      client.send(.get(1, "/held/by"))
      client.send(.goAway(code))
      front.go.raise()
      return try client.response(on: 1)
    }
    #expect(response.status == 200)
  }

  @Test func `8_1: HEAD, a body, trailers and many at once`() async throws {
    let front = try await HTTP2Front(.ofTest(), location: "proxy_http_version 1.1;")
    let (head, echo, chunked, many) = try await front.frames { client in
      client.send(.headers(1, HPACK.block(HPACK.request("HEAD", "/bytes/10"))))
      let head = try client.response(on: 1)
      client.send(.post(3), .data(3, "body", ends: false), .headers(3, HPACK.block([("x-sum", "4")])))
      let echo = try client.response(on: 3)
      let chunked = try client.get(5, "/chunked/1000")
      client.send((0..<100).map { .get(7 + 2 * $0, "/bytes/\($0)") })
      return (head, echo, chunked, try (0..<100).map { try client.response(on: 7 + 2 * $0).body.count })
    }
    #expect(head.status == 200 && head["content-length"] == "10" && head.body.isEmpty)
    #expect(echo.text == "body")
    #expect(chunked.body == Pattern.bytes(1000) && chunked.trailers.contains { $0 == ("x-sum", "1000") })
    #expect(many == Array(0..<100))
  }

  @Test(arguments: ["/ok", "/"])
  func `8_1: a response that is whole before the request is followed by RST_STREAM and NO_ERROR`(
    path: String
  ) async throws {
    let front = try await HTTP2Front(.ofTest(), server: "lingering_timeout 100ms;", location: "return 404;")
    let (first, reset, next) = try await front.frames { client in
      client.send(.post(1, path), .data(1, "x", ends: false))
      let first = try client.response(on: 1)
      while let frame = try client.next() {
        guard frame.kind == .reset else { continue }
        client.send(.data(1, "late"))
        return (first, frame, try client.get(3, "/ok"))
      }
      throw HTTP2Silence()
    }
    #expect(first.status == (path == "/ok" ? 200 : 404) && next.text == "ok")
    #expect(reset.stream == 1 && reset.errorCode == .noError)
  }

  @Test func `8_1: that reset comes after the lingering_timeout of the response's location`() async throws {
    let front = try await HTTP2Front(
      .ofTest(), server: "lingering_timeout 100ms; location /patient { lingering_timeout 1h; return 200 ok; }")
    let reset = try await front.frames { client in
      for (stream, path) in [(UInt32(1), "/patient"), (3, "/ok")] {
        client.send(.post(stream, path), .data(stream, "x", ends: false))
        _ = try client.response(on: stream)
      }
      while let frame = try client.next() {
        if frame.kind == .reset { return frame.stream }
      }
      throw HTTP2Silence()
    }
    #expect(reset == 3)
  }

  @Test func `8_1: lingering_close off resets the stream at once`() async throws {
    let front = try await HTTP2Front(
      .ofTest(), server: "lingering_timeout 1h; lingering_close off;", location: "return 404;")
    let reset = try await front.frames { client in
      client.send(.post(1, "/"), .data(1, "x", ends: false))
      _ = try client.response(on: 1)
      return try client.settle().first { $0.kind == .reset }
    }
    #expect(reset?.stream == 1 && reset?.errorCode == .noError)
  }

  /// curl loses a response whose stream is reset while it sends.
  @Test func `8_1: a client that ends its request soon after the response sees no reset`() async throws {
    let front = try await HTTP2Front(.ofTest())
    let seen = try await front.frames { client in
      client.send(.post(1, "/ok"), .data(1, "x", ends: false))
      let first = try client.response(on: 1)
      client.send(.data(1, "rest", ends: true))
      let after = try client.settle()
      return (first.text, after.contains { $0.kind == .reset }, try client.get(3, "/ok").text)
    }
    #expect(seen == ("ok", false, "ok"))
  }

  /// curl (7.88) stops its body when the head of an error comes.
  @Test(arguments: ["", "four"])
  func `8_1: a response whose head ends the client's body too early comes whole, and the reset after it`(
    part: String
  ) async throws {
    let go = Flag(), scene = try Scene.ofTest()
    scene.atEnd { go.raise() }
    let front = try await HTTP2Front(scene, location: "proxy_pass_request_body off;") { wire in
      _ = try wire.request()
      try wire.write("HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\n")
      go.wait()
      try wire.write("body")
    }
    let (response, reset, late) = try await front.frames { client in
      client.send(.post(1, "/", [("content-length", "9")]))
      while let frame = try client.next(), frame.kind != .headers {}
      client.send(.data(1, part))
      let early = try client.settle()
      go.raise()
      var body: [UInt8] = []
      while let frame = try client.next() {
        if frame.kind == .data { body += frame.payload }
        if frame.kind == .reset { return (body, frame, early.contains { $0.kind == .reset }) }
      }
      throw HTTP2Silence()
    }
    #expect(response == Array("body".utf8) && !late)
    #expect(reset.stream == 1 && reset.errorCode == .protocolError)
    #expect(try await front.serves())
  }

  @Test func `8_1: DATA behind such an end is an error of the stream, before the response is whole`() async throws {
    let front = try await HTTP2Front(.ofTest(), location: "proxy_pass_request_body off;")
    let reset = try await front.frames { client in
      client.send(.post(1, "/held", [("content-length", "9")]))
      _ = try client.settle()
      client.send(.data(1), .data(1, "x", ends: false))
      return try client.settle().first { $0.kind == .reset }
    }
    #expect(reset?.errorCode == .streamClosed)
  }

  /// curl (7.88) reads no end of a response that came while it sent its body, before another frame arrives.
  @Test func `8_1: a client that ends its request after the response gets a frame at once`() async throws {
    let front = try await HTTP2Front(.ofTest())
    let next = try await front.frames { client in
      client.send(.post(1, "/ok"), .data(1, "x", ends: false))
      _ = try client.response(on: 1)
      _ = try client.settle()
      client.send(.data(1, "rest", ends: true))
      return try client.next()
    }
    #expect(next?.kind == .windowUpdate && next?.stream == 0)
  }

  @Test func `8_1: HEADERS within a body that don't end it are an error of the stream`() async throws {
    let front = try await HTTP2Front(.ofTest())
    let trailers = HTTP2Frame.headers(1, HPACK.block([("x-a", "b")]), flags: HTTP2Frame.endHeaders)
    for frames in [[trailers], [trailers, .data(1, "x")], [.data(1, "x", ends: false), trailers]] {
      let vector = FrameCase("8.1", "trailers", .streamError([.protocolError]), [.post(1)] + frames)
      let fault = try await front.frames { try vector.fault($0) }
      #expect(fault == nil)
    }
    #expect(front.upstream.connections == 0)
  }
}

/// A frame that was to come didn't.
private struct HTTP2Silence: Error {}
