import Synchronization
import TestSupport
import Testing

private typealias Fields = [(String, String)]

/// Heads that no response may have; each ends its stream, but where `goesOn` says otherwise.
private let heads: [(name: String, fields: Fields, goesOn: Bool)] = [
  ("no status", [("x-a", "b")], false),
  ("two statuses", [(":status", "200"), (":status", "200")], false),
  ("status of four digits", [(":status", "2000")], false),
  ("status of letters", [(":status", "2x0")], false),
  ("status 099", [(":status", "099")], false),
  ("status 101", [(":status", "101")], true),
  ("interim response that ends", [(":status", "103")], false),
  ("status after a field", [("x-a", "b"), (":status", "200")], false),
  ("request's pseudo-field", [(":status", "200"), (":path", "/")], false),
  ("unknown pseudo-field", [(":status", "200"), (":x", "y")], false),
  ("upper case", [(":status", "200"), ("X-A", "b")], false),
  ("no token", [(":status", "200"), ("x a", "b")], false),
  ("colon in a name", [(":status", "200"), ("x:a", "b")], false),
  ("empty name", [(":status", "200"), ("", "b")], false),
  ("line feed", [(":status", "200"), ("x-a", "b\nset-cookie: evil=1")], false),
  ("carriage return", [(":status", "200"), ("x-a", "b\rc")], false),
  ("NUL", [(":status", "200"), ("x-a", "b\0c")], false),
  ("connection", [(":status", "200"), ("connection", "close")], false),
  ("keep-alive", [(":status", "200"), ("keep-alive", "timeout=1")], false),
  ("transfer-encoding", [(":status", "200"), ("transfer-encoding", "chunked")], false),
  ("upgrade", [(":status", "200"), ("upgrade", "h2c")], false),
  ("two lengths", [(":status", "200"), ("content-length", "1"), ("content-length", "2")], true),
  ("length of letters", [(":status", "200"), ("content-length", "x")], false),
  ("length without body", [(":status", "200"), ("content-length", "5")], false),
  ("large", [(":status", "200")] + (0..<16).map { ("x-\($0)", String(repeating: "x", count: 1000)) }, false),
]

/// Frames that an upstream may not send before a response's head.
private enum Breach: String, CaseIterable {
  case dataFirst, compression, streamZero, idleStream, ownStream, dataOnIdle, largeFrame, windowOverflow, windowZero
  case oddSettings, badSettings, shortPing, continuationAlone, interruptedHeaders, pushPromise, text

  func send(_ connection: UpstreamFrameConnection, _ stream: Int) throws {
    let ok = UpstreamFrameConnection.block([(":status", "200")])
    switch self {
    case .dataFirst: try connection.data(stream, [1, 2, 3], ends: true)
    case .compression:
      try connection.write(.headers, flags: 5, stream: stream, [UInt8](repeating: 0xff, count: 7))
    case .streamZero: try connection.write(.headers, flags: 5, stream: 0, ok)
    case .idleStream: try connection.write(.headers, flags: 5, stream: stream + 100, ok)
    case .ownStream: try connection.write(.headers, flags: 5, stream: 2, ok)
    case .dataOnIdle: try connection.data(stream + 100, [1], ends: true)
    case .largeFrame: try connection.write(.data, stream: stream, [UInt8](repeating: 0, count: 16_385))
    case .windowOverflow: try connection.windowUpdate(0, 0x7fff_ffff)
    case .windowZero: try connection.windowUpdate(0, 0)
    case .oddSettings: try connection.write(.settings, [0, 1, 2])
    case .badSettings: try connection.settings([(4, 0x8000_0000)])
    case .shortPing: try connection.write(.ping, [UInt8](repeating: 0, count: 7))
    case .continuationAlone: try connection.write(.continuation, flags: 4, stream: stream, ok)
    case .interruptedHeaders:
      try connection.write(.headers, stream: stream, ok)
      try connection.write(.ping, [UInt8](repeating: 0, count: 8))
    case .pushPromise:
      let head = UpstreamFrameConnection.block([
        (":method", "GET"), (":scheme", "http"), (":path", "/pushed"), (":authority", "framed"),
      ])
      try connection.write(.pushPromise, flags: 4, stream: stream, [0, 0, 0, 2] + head)
      try connection.write(.headers, flags: 4, stream: 2, ok)
      try connection.data(2, Array("pushed".utf8), ends: true)
    case .text: try connection.wire.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    }
  }
}

/// What an upstream may not send without end.
private enum Flood: String, CaseIterable {
  case ping, settings, emptyData, continuation, emptyContinuation, tableReferences, unknownFrames, priority,
    windowUpdate

  func send(_ connection: UpstreamFrameConnection, _ stream: Int) throws {
    let ok = UpstreamFrameConnection.block([(":status", "200")])
    func many(_ count: Int, _ frame: [UInt8]) throws {
      try connection.wire.write(Array(repeatElement(frame, count: count).joined()))
    }
    switch self {
    case .ping: try many(1000, UpstreamFrameConnection.frame(6, [UInt8](repeating: 0, count: 8)))
    case .settings: try many(1000, UpstreamFrameConnection.frame(4))
    case .emptyData:
      try connection.write(.headers, flags: 4, stream: stream, ok)
      try many(2000, UpstreamFrameConnection.frame(0, stream: stream))
    case .continuation:
      try connection.write(.headers, stream: stream, ok)
      let block = UpstreamFrameConnection.block([("x-a", String(repeating: "x", count: 1000))])
      for _ in 0..<100 { try many(1000, UpstreamFrameConnection.frame(9, stream: stream, block)) }
    case .emptyContinuation:
      try connection.write(.headers, stream: stream, ok)
      for _ in 0..<100 { try many(1000, UpstreamFrameConnection.frame(9, stream: stream)) }
    case .tableReferences:
      // One field of 4,000 bytes, then thousands of references of one byte to it.
      let field = UpstreamFrameConnection.block([("x-a", String(repeating: "x", count: 4000))])
      let block = ok + [0x40] + field.dropFirst() + [UInt8](repeating: 0xbe, count: 12_000)
      try connection.write(.headers, flags: 5, stream: stream, block)
    case .unknownFrames: try many(5000, UpstreamFrameConnection.frame(0xfe))
    case .priority: try many(5000, UpstreamFrameConnection.frame(2, stream: stream, [0, 0, 0, 0, 1]))
    case .windowUpdate: try many(20_000, UpstreamFrameConnection.frame(8, [0, 0, 0, 1]))
    }
  }
}

/// Bodies that are not those that a head with a length of 5 announced.
private enum BrokenBody: String, CaseIterable {
  case long, short, shortWithTrailers, reset, cut, empty, pseudoTrailers, upperTrailers, openTrailers, window, goAway

  func send(_ connection: UpstreamFrameConnection, _ stream: Int) throws {
    let part = Array("123".utf8)
    switch self {
    case .long: try connection.data(stream, Array("123456".utf8), ends: true)
    case .short: try connection.data(stream, part, ends: true)
    case .shortWithTrailers:
      try connection.data(stream, part)
      try connection.headers(stream, [("x-a", "b")], ends: true)
    case .reset:
      try connection.data(stream, part)
      try connection.reset(stream, 0)
    case .cut:
      try connection.data(stream, part)
      throw UpstreamFrameConnection.HangUp()
    case .empty: try connection.data(stream, [], ends: true)
    case .pseudoTrailers: try connection.headers(stream, [(":status", "200")], ends: true)
    case .upperTrailers: try connection.headers(stream, [("X-A", "b")], ends: true)
    case .openTrailers: try connection.headers(stream, [("x-a", "b")])
    case .window:
      for _ in 0..<2000 { try connection.write(.data, stream: stream, [UInt8](repeating: 0, count: 16_384)) }
    case .goAway:
      try connection.data(stream, part)
      try connection.goAway(last: stream)
      throw UpstreamFrameConnection.HangUp()
    }
  }
}

@Suite(.staged) struct `An upstream of HTTP 2 that breaks the rules` {
  /// Answers what is none of the faults as it should.
  private static func upstream(
    _ scene: Scene, _ fault: @escaping @Sendable (UpstreamFrameConnection, UpstreamFrameRequest) throws -> Bool
  ) throws -> UpstreamFrameServer {
    try .serving(scene) { if try !fault($0, $1) { try $0.answer($1, "alive") } }
  }

  private static let location = "proxy_buffer_size 8k; proxy_read_timeout 20s;"

  @Test func `an invalid head is a 502, and nothing of it reaches the client`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try Self.upstream(scene) { connection, request in
      guard let index = Int(request.path.dropFirst()), heads.indices.contains(index) else { return false }
      try connection.headers(request.stream, heads[index].fields, ends: !heads[index].goesOn)
      return true
    }
    let proxy = try await FramedProxy(scene, to: upstream, location: Self.location)
    for index in heads.indices {
      let result = try await proxy.curl("/\(index)", ["-X", "POST"])
      #expect(result.status == 502 && result.text.contains("502 Bad Gateway"), "\(heads[index].name)")
      #expect(!result.heads.contains("evil"), "\(heads[index].name)")
    }
    try await proxy.lives()
    // None of the requests was sent twice, and none cost the others their session.
    #expect(upstream.paths.count == heads.count + 1 && upstream.connections == 1)
  }

  @Test func `a frame that may not come is a 502`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try Self.upstream(scene) { connection, request in
      guard let fault = Breach(rawValue: String(request.path.dropFirst())) else { return false }
      try fault.send(connection, request.stream)
      return true
    }
    let proxy = try await FramedProxy(scene, to: upstream, location: Self.location)
    for fault in Breach.allCases {
      let result = try await proxy.curl("/\(fault)", ["-X", "POST"])
      #expect(result.status == 502 && result.text.contains("502 Bad Gateway"), "\(fault)")
      try await proxy.lives()
    }
    #expect(upstream.paths.count == 2 * Breach.allCases.count)
  }

  @Test func `a flood ends its session, and no other`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try Self.upstream(scene) { connection, request in
      guard let fault = Flood(rawValue: String(request.path.dropFirst())) else { return false }
      try fault.send(connection, request.stream)
      return true
    }
    let proxy = try await FramedProxy(scene, to: upstream, location: Self.location)
    for fault in Flood.allCases {
      let result = try await proxy.curl("/\(fault)", ["-X", "POST"])
      #expect(result.status == 502 || fault == .emptyData && result.exit != 0, "\(fault): \(result.status)")
      try await proxy.lives()
    }
    #expect(!proxy.daemon.errorLog.contains("client sent"))
    #expect(try #require(proxy.daemon.memory("VmHWM")) < 200_000)
  }

  /// The proxy has said in its first bytes that it takes none (RFC 9113 §8.4). Before the upstream acknowledged that,
  /// libnghttp2 took 6 GB of a pushed stream.
  @Test func `an upstream that pushes loses its session, though it has not acknowledged SETTINGS`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try UpstreamFrameServer(scene) { connection in
      connection.acknowledges = connection.number > 0
      try connection.open()
      guard connection.number == 0, let request = try connection.request() else {
        return try connection.serve { try connection.answer($0, "alive") }
      }
      let head = UpstreamFrameConnection.block([
        (":method", "GET"), (":scheme", "http"), (":path", "/pushed"), (":authority", "framed"),
      ])
      try connection.write(.pushPromise, flags: 4, stream: request.stream, [0, 0, 0, 2] + head)
      try connection.serve { try connection.answer($0, "alive") }
    }
    let proxy = try await FramedProxy(scene, to: upstream)
    #expect(try await proxy.curl("/", ["-X", "POST"]).status == 502)
    try await proxy.daemon.logged("[error]", "upstream sent invalid HTTP/2: PUSH_PROMISE")
    try await proxy.lives()
    #expect(upstream.connections == 2)
  }

  /// Frames that libnghttp2 reads and ignores.
  private enum Unwanted: String, CaseIterable {
    case dataAfterReset, dataAfterEnd, headersAfterEnd, dataBeyondWindow, dataAfterOurReset

    /// What comes first, and what is repeated without end.
    func parts(_ stream: Int) -> (first: [UInt8], again: [UInt8]) {
      let ok = UpstreamFrameConnection.block([(":status", "200")])
      let head = UpstreamFrameConnection.frame(1, flags: 4, stream: stream, ok)
      let small = UpstreamFrameConnection.frame(0, stream: stream, [0x78])
      let large = UpstreamFrameConnection.frame(0, stream: stream, [UInt8](repeating: 0x78, count: 16_384))
      let reset = UpstreamFrameConnection.frame(3, stream: stream, [0, 0, 0, 8])
      return switch self {
      case .dataAfterReset: (head + reset, small)
      case .dataAfterEnd: (UpstreamFrameConnection.frame(1, flags: 5, stream: stream, ok), small)
      case .headersAfterEnd:
        (
          UpstreamFrameConnection.frame(1, flags: 5, stream: stream, ok),
          UpstreamFrameConnection.frame(1, flags: 4, stream: stream, UpstreamFrameConnection.block([("x-a", "b")]))
        )
      case .dataBeyondWindow: (head, large)
      case .dataAfterOurReset: (head, small)
      }
    }
  }

  @Test(arguments: Unwanted.allCases)
  private func `an upstream that goes on with streams that are over loses its session soon`(
    fault: Unwanted
  ) async throws {
    let scene = try Scene.ofTest()
    let ended = Flag(), written = Mutex(0)
    scene.atEnd { ended.raise() }
    let upstream = try Self.upstream(scene) { connection, request in
      guard request.path == "/flood" else { return false }
      defer { ended.raise() }
      let (first, again) = fault.parts(request.stream)
      try connection.wire.write(first)
      let batch = Array(repeatElement(again, count: max(1, 16_384 / again.count)).joined())
      for _ in 0..<(256 << 20) / batch.count {
        try connection.wire.write(batch)
        written.withLock { $0 += batch.count }
      }
      return true
    }
    let proxy = try await FramedProxy(scene, to: upstream, location: Self.location)
    try await proxy.talk { wire in
      try wire.write("POST /flood HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
      // A client that leaves has the proxy reset the stream. Else the client reads nothing, so that the window shuts.
      if fault == .dataAfterOurReset { _ = try wire.readSome(1) } else { ended.wait() }
    }
    try await until("the session to end") { ended.isRaised }
    // The buffers of two sockets are full when the session ends.
    let count = written.withLock { $0 }
    #expect(count < 32 << 20, "\(count)")
    try await proxy.lives()
    #expect(upstream.connections == 2)
  }

  @Test func `frames of unknown kinds are ignored`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try Self.upstream(scene) { connection, _ in
      try connection.wire.write(
        Array(repeatElement(UpstreamFrameConnection.frame(0xfe, stream: 1, [1, 2, 3]), count: 200).joined()))
      return false
    }
    try await FramedProxy(scene, to: upstream).lives()
  }

  /// After the head: the client has a part, and must see that it is one.
  @Test func `a body that is broken is never taken for whole`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try Self.upstream(scene) { connection, request in
      guard let fault = BrokenBody(rawValue: String(request.path.dropFirst())) else { return false }
      try connection.headers(request.stream, [(":status", "200"), ("content-length", "5")])
      try fault.send(connection, request.stream)
      return true
    }
    let proxy = try await FramedProxy(scene, to: upstream, location: Self.location)
    for fault in BrokenBody.allCases {
      let result = try await proxy.curl("/\(fault)")
      #expect(
        result.isBrokenOff || result.isUnanswered || result.status == 502,
        "\(fault): \(result.exit) \(result.status)")
      #expect(result.body.count <= 5 || result.status == 502, "\(fault)")
      try await proxy.lives()
    }
  }

  /// A response with some bytes changed, the same ones in each run of this test.
  private static func mutated(_ stream: Int, _ seed: Int) -> [UInt8] {
    var bytes =
      UpstreamFrameConnection.frame(1, flags: 4, stream: stream, UpstreamFrameConnection.block([(":status", "103")]))
      + UpstreamFrameConnection.frame(
        1, flags: 4, stream: stream, UpstreamFrameConnection.block([(":status", "200"), ("x-a", "b"), ("server", "c")]))
      + UpstreamFrameConnection.frame(0, stream: stream, Array("body".utf8))
      + UpstreamFrameConnection.frame(8, [0, 0, 1, 0]) + UpstreamFrameConnection.frame(6, Array("12345678".utf8))
      + UpstreamFrameConnection.frame(1, flags: 5, stream: stream, UpstreamFrameConnection.block([("x-sum", "7")]))
    var state = UInt64(truncatingIfNeeded: seed) &+ 1
    func next() -> Int {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int(state >> 33)
    }
    for _ in 0..<(1 + next() % 3) { bytes[next() % bytes.count] = UInt8(next() % 256) }
    return bytes
  }

  @Test func `responses with changed bytes are survived`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try Self.upstream(scene) { connection, request in
      guard let seed = Int(request.path.dropFirst()) else { return false }
      try connection.wire.write(Self.mutated(request.stream, seed))
      return true
    }
    // A changed length can swallow what follows on its session, so the last request goes over another one.
    let proxy = try await FramedProxy(
      scene, to: upstream, location: "proxy_read_timeout 200ms;",
      locations: "location /alive { proxy_pass http://127.0.0.1:\(upstream.port); }")
    try await withThrowingTaskGroup(of: Void.self) { group in
      for part in 0..<8 {
        group.addTask {
          for seed in stride(from: part, to: 400, by: 8) {
            try await proxy.talk { wire in
              try wire.write("GET /\(seed) HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nConnection: close\r\n\r\n")
              _ = try wire.readToEnd()
            }
          }
        }
      }
      try await group.waitForAll()
    }
    try await proxy.lives()
  }
}
