import Foundation
import Glibc
import HTTP
import TestSupport
import Testing

/// Frames that cost a server work and carry no request, or requests that the client has no use for.
struct HTTP2Flood: Sendable, CustomTestStringConvertible {
  var name: String
  var limit: HTTP2Limit
  /// Sent before the flood.
  var opening: [HTTP2Frame] = []
  /// Sent in turns; the answers to each are read before the next.
  var rounds: [[HTTP2Frame]]
  var testDescription: String { name }

  private static func rounds(_ count: Int, of size: Int, _ frames: (UInt32) -> [HTTP2Frame]) -> [[HTTP2Frame]] {
    (0..<count).map { round in (0..<size).flatMap { frames(UInt32(2 * (round * size + $0) + 1)) } }
  }

  private static func once(_ count: Int, _ frame: HTTP2Frame) -> [[HTTP2Frame]] {
    [[HTTP2Frame](repeating: frame, count: count)]
  }

  /// Floods that end their connection with ENHANCE_YOUR_CALM.
  static let all: [HTTP2Flood] = [
    .init(name: "PING", limit: .pings, rounds: once(1000, .ping(1))),
    .init(name: "PING answers", limit: .pings, rounds: once(1000, .ping(1, flags: HTTP2Frame.acknowledged))),
    .init(name: "SETTINGS", limit: .settings, rounds: once(200, .settings([3: 100]))),
    .init(name: "empty SETTINGS", limit: .settings, rounds: once(200, .settings())),
    .init(name: "PRIORITY", limit: .priorities, rounds: once(2000, .priority(1))),
    .init(name: "WINDOW_UPDATE", limit: .windowUpdates, rounds: once(10_000, .windowUpdate(0, 1))),
    .init(
      name: "empty DATA", limit: .emptyData, opening: [.post(1)], rounds: once(400, .data(1, ends: false))),
    .init(name: "unknown frames", limit: .unknownFrames, rounds: once(1000, HTTP2Frame(type: 0x42, stream: 1))),
    .init(
      name: "DATA on an answered stream", limit: .unwantedFrames, opening: [.post(1, "/refused")],
      rounds: rounds(20, of: 1000) { _ in [.data(1, "x", ends: false)] }),
    .init(
      name: "DATA on a closed stream", limit: .unwantedFrames, opening: [.post(1, "/held"), .reset(1)],
      rounds: once(20_000, .data(1, "x", ends: false))),
    .init(
      name: "large DATA on a closed stream", limit: .unwantedFrames, opening: [.post(1, "/held"), .reset(1)],
      rounds: once(400, .data(1, String(repeating: "x", count: 16_384), ends: false))),
    .init(
      name: "a head on a closed stream", limit: .unwantedFrames, opening: [.post(1, "/held"), .reset(1)],
      rounds: once(20_000, .get(1, "/ok"))),
    .init(name: "GOAWAY", limit: .unknownFrames, rounds: once(1000, .goAway())),
  ]

  static let continuations: [HTTP2Flood] = {
    let start = HTTP2Frame.headers(1, HPACK.block(HPACK.request("GET", "/")), flags: HTTP2Frame.endStream)
    return ["", "d", String(repeating: "d", count: 8000)].map { value in
      let more = value.isEmpty ? [] : HPACK.literal("x-dummy", value)
      return .init(
        name: "CONTINUATION of \(more.count) bytes", limit: .continuations, opening: [start],
        rounds: once(100, .continuation(1, more, ends: false)))
    }
  }()

  static let rapidResets: [HTTP2Flood] = [
    .init(name: "at once", limit: .resets, rounds: rounds(1, of: 1500) { [.get($0, "/ok"), .reset($0)] }),
    .init(name: "in rounds", limit: .resets, rounds: rounds(30, of: 50) { [.get($0, "/held"), .reset($0)] }),
    .init(
      name: "of bodies", limit: .resets,
      rounds: rounds(30, of: 50) { [.post($0), .data($0, "x", ends: false), .reset($0)] }),
  ]

  /// The client's errors make the server reset its streams.
  static let madeResets: [HTTP2Flood] = [
    .init(
      name: "a window beyond its limit", limit: .resets,
      rounds: rounds(30, of: 50) { [.post($0), .windowUpdate($0, .max >> 1), .windowUpdate($0, .max >> 1)] }),
    .init(
      name: "more data than the length", limit: .resets,
      rounds: rounds(30, of: 50) { [.post($0, "/", [("content-length", "1")]), .data($0, "xx")] }),
    .init(
      name: "a second head", limit: .resets,
      rounds: rounds(30, of: 50) {
        [.post($0), .headers($0, HPACK.block([("x-a", "b")]), flags: HTTP2Frame.endHeaders)]
      }),
    .init(
      name: "a field that is forbidden", limit: .resets, rounds: rounds(30, of: 50) { [.get($0, "/", [("X", "b")])] }),
    .init(
      name: "more streams than were allowed", limit: .resets,
      rounds: [(0..<128).map { .get(2 * $0 + 1, "/held") }]
        + (0..<40).map { round in (0..<50).map { .get(257 + 2 * (50 * round + $0), "/held") } }),
  ]

  /// Plays it, and returns the error code with which the server ended the connection. A client that doesn't acknowledge
  /// the server's SETTINGS is not bound by them.
  func play(_ client: FrameClient) throws -> HTTP2Frame.ErrorCode? {
    client.send(opening)
    for round in rounds where client.goAwayCode != .enhanceYourCalm {
      client.send(round)
      _ = try client.settle()
    }
    return client.hasEnded ? client.goAwayCode : nil
  }
}

@Suite(.staged) struct `Floods of HTTP 2` {
  /// Requests alone end no connection here.
  private static let patient = "keepalive_requests 1000000;"

  private func check(
    _ flood: HTTP2Flood, _ front: HTTP2Front, acknowledges: Bool = true
  ) async throws {
    let code = try await front.scene.talk(front.port) { wire in
      let client = FrameClient(wire)
      try client.begin(acknowledges: acknowledges)
      return try flood.play(client)
    }
    #expect(code == .enhanceYourCalm, "\(flood.name)")
    try await isTold(flood.limit, front)
    #expect(try await front.serves())
    #expect(!front.daemon.errorLog.contains("[error]") && !front.daemon.errorLog.contains("[alert]"))
  }

  private func isTold(_ limit: HTTP2Limit, _ front: HTTP2Front) async throws {
    try await front.daemon.logged("[info]", "\(limit.reason)", "client: 127.0.0.1")
    #expect(try await front.count(of: limit.rawValue) > 0, "\(limit)")
  }

  @Test(arguments: HTTP2Flood.all) func `frames that carry nothing end the connection once they are too many`(
    flood: HTTP2Flood
  ) async throws {
    let front = try await HTTP2Front(.ofTest(), server: Self.patient)
    try await check(flood, front)
    #expect(front.upstream.connections == 0)
  }

  /// A window of each may have been on its way when the client learned of the answer.
  @Test func `clients whose uploads are refused early keep their connection`() async throws {
    let front = try await HTTP2Front(.ofTest(), server: Self.patient)
    let count = try await front.frames { client in
      let body = String(repeating: "x", count: 16_384)
      return try (0..<200 as Range<UInt32>).count { round in
        let stream = 2 * round + 1
        client.send(.post(stream, "/refused"))
        guard try client.response(on: stream).status == 403 else { return false }
        client.send((0..<3).map { .data(stream, body, ends: $0 == 2) })
        return true
      }
    }
    #expect(count == 200)
    #expect(try await front.count(of: "unwanted_frames") == 0)
  }

  @Test(arguments: HTTP2Flood.rapidResets) func `CVE-2023-44487: a client that resets its streams at once is cut off`(
    flood: HTTP2Flood
  ) async throws {
    try await check(flood, HTTP2Front(.ofTest(), server: Self.patient))
  }

  @Test(arguments: HTTP2Flood.madeResets)
  func `CVE-2025-8671: a client that makes the server reset its streams is cut off`(flood: HTTP2Flood) async throws {
    let front = try await HTTP2Front(.ofTest(), server: Self.patient)
    try await check(flood, front, acknowledges: flood.name != "more streams than were allowed")
  }

  @Test(arguments: HTTP2Flood.continuations)
  func `CVE-2024-27316: a head of endless CONTINUATION frames ends the connection`(
    flood: HTTP2Flood
  ) async throws {
    let front = try await HTTP2Front(.ofTest(), server: Self.patient)
    try await check(flood, front)
    #expect(front.upstream.connections == 0)
  }

  @Test func `streams beyond http2_max_concurrent_streams are refused, also while what was reset comes to its end`()
    async throws
  {
    let front = try await HTTP2Front(.ofTest(), server: "http2_max_concurrent_streams 4;")
    let refused = try await front.scene.talk(front.port) { wire in
      let client = FrameClient(wire)
      try client.begin(acknowledges: false)
      client.send((0..<6).map { .get(2 * $0 + 1, "/held") })
      return try client.settle().filter { $0.kind == .reset && $0.errorCode == .refusedStream }.map(\.stream)
    }
    #expect(refused == [9, 11])
    try await isTold(.concurrentStreams, front)
    #expect(front.upstream.connections == 4)
    let code = try await front.frames { client in
      client.send((0..<5).map { .get(2 * $0 + 1, "/held") })
      return try client.ending()
    }
    #expect(code == .protocolError)
    #expect(try await front.count(of: "concurrent_streams") == 3)
  }

  @Test(arguments: [2, 100, 2000]) func `a head that grows from an entry of 4 KiB is refused`(times: Int) async throws {
    let front = try await HTTP2Front(.ofTest(), server: Self.patient)
    let bomb =
      HPACK.block(HPACK.request("GET", "/")) + HPACK.literal("x-bomb", String(repeating: "b", count: 4000), .indexed)
      + [UInt8](repeating: HPACK.indexed(62)[0], count: times)
    let (status, code) = try await front.frames { client in
      client.send(.headers(1, bomb))
      return (try client.response(on: 1).status, client.goAwayCode)
    }
    switch times {
    case 2: #expect(status == 200)
    case 100: #expect(status == 400 || code == .enhanceYourCalm)
    default: #expect(code == .enhanceYourCalm)
    }
    if times > 2 {
      try await isTold(.headerList, front)
      #expect(front.upstream.connections == 0)
    }
    #expect(try await front.serves())
  }

  /// One byte stands for each of the fields, and a window of zero keeps all streams open.
  @Test(
    .enabled(if: ProcessInfo.processInfo.environment["SALLYPORT_SANITIZER"] == nil, "a sanitizer keeps freed memory"))
  func `CVE-2026-49975: empty fields and cookie crumbs on 128 streams take bounded memory`() async throws {
    let front = try await HTTP2Front(.ofTest(), server: Self.patient)
    let before = try #require(front.daemon.memory("VmRSS"))
    let grown = try await front.frames(settings: [4: 0]) { client in
      // The first head puts both fields into the table; cookie is the newer one.
      let first = HPACK.literal("x-e", "", .indexed) + HPACK.literal("cookie", "", .indexed)
      let crumbs = [UInt8](repeating: HPACK.indexed(62)[0], count: 450)
      let empty = [UInt8](repeating: HPACK.indexed(63)[0], count: 450)
      for stream in 0..<128 as Range<UInt32> {
        let block = HPACK.block(HPACK.request("GET", "/held"))
        client.send(.headers(2 * stream + 1, block + (stream == 0 ? first : crumbs + empty)))
      }
      _ = try client.settle()
      return front.daemon.memory("VmRSS").map { $0 - before }
    }
    #expect(front.upstream.connections > 0)
    // 128 KiB a stream: a head of 32 KiB, its 900 fields, and an exchange.
    #expect(try #require(grown) < 128 * 128)
  }

  @Test func `trailers that grow from an entry of 4 KiB are refused`() async throws {
    let front = try await HTTP2Front(.ofTest(), server: Self.patient)
    let bomb =
      HPACK.literal("x-bomb", String(repeating: "b", count: 4000), .indexed)
      + [UInt8](repeating: HPACK.indexed(62)[0], count: 2000)
    let code = try await front.frames { client in
      client.send(.post(1), .data(1, "x", ends: false), .headers(1, bomb))
      return try client.ending()
    }
    #expect(code == .enhanceYourCalm)
    try await isTold(.headerList, front)
    #expect(front.upstream.connections == 0)
  }

  @Test func `a client that takes its response byte by byte is cut off`() async throws {
    let front = try await HTTP2Front(.ofTest())
    let (code, taken) = try await front.frames(settings: [4: 1]) { client in
      client.send(.get(1, "/bytes/100000"))
      var taken = 0
      while let frame = try client.next(), frame.kind != .goAway {
        guard frame.kind == .data else { continue }
        taken += frame.payload.count
        client.send(.windowUpdate(1, 1))
      }
      return (try client.ending(), taken)
    }
    #expect(code == .enhanceYourCalm && taken < 2000)
    try await isTold(.smallWindows, front)
    #expect(try await front.serves())
  }

  @Test(.disabled(if: Sanitizer.isUsed, "a sanitizer has an allocator of its own"), arguments: ["/big", "/gzip"])
  func `files that clients without window ask for take little memory, which goes back when they have left`(
    path: String
  ) async throws {
    let scene = try Scene.ofTest()
    _ = try scene.makeFolder("www")
    try scene.write("www/big", (0..<900_000).map { UInt8(truncatingIfNeeded: $0 &* 2_654_435_761 >> 13) })
    try scene.write("www/small", text: "small")
    let front = try await HTTP2Front(
      scene,
      server: """
        root \(scene.path("www")); location = /big {} location = /small {}
        location = /gzip { alias \(scene.path("www/big")); gzip on; gzip_types *; }
        """)
    let before = try #require(front.daemon.memory("VmRSS"))
    let (port, connections) = (front.port, 16)
    let peak = try await offPool {
      let clients = try (0..<connections).map { _ in
        let client = FrameClient(try Wire.dial(port: port))
        try client.begin([4: 0])
        client.send((0..<128).map { .get(2 * $0 + 1, path, path == "/gzip" ? [("accept-encoding", "gzip")] : []) })
        return client
      }
      defer { for client in clients { client.wire.close() } }
      for client in clients {
        var heads = 0
        while heads < 128, let frame = try client.next() { if frame.kind == .headers { heads += 1 } }
        #expect(heads == 128)
      }
      // Files of one address are read in turn: theirs are read when this one is.
      let last = FrameClient(try Wire.dial(port: port))
      defer { last.wire.close() }
      try last.begin()
      #expect(try last.get(1, "/small").text == "small")
      return front.daemon.memory("VmHWM") ?? .max
    }
    // Each of the two workers has 32 MiB of whole slices, 256 compressors, and 16 KiB for each of the 2048 streams.
    let bound = (path == "/gzip" ? 320 : 160) * 1024
    #expect(peak - before < bound, "\(before) to \(peak) KiB")
    try await until("the memory to be given back") {
      let page = try await scene.page(port, "/metrics").text
      return !page.contains("memory_returned\"} 0") && (front.daemon.memory("VmRSS") ?? .max) - before < 64 * 1024
    }
  }

  /// The last of them has all of its bytes, and waits only for the frame that ends it.
  @Test(arguments: [("/bytes/100000", 0), ("/bytes/100000", 10), ("/bytes/10", 0), ("/ok", 1), ("/pause", 5)])
  func `a stream without window is reset after send_timeout`(path: String, window: UInt32) async throws {
    let front = try await HTTP2Front(
      .ofTest(), server: "send_timeout 300ms;", location: "proxy_http_version 1.1; proxy_buffering off;",
      upstream: { wire in
        try wire.serve { request in
          guard request.target == "/pause" else { return try wire.echo(request) }
          try wire.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
          usleep(50_000)
          try wire.write("0\r\n\r\n")
        }
      })
    let (first, second) = try await front.frames(settings: [4: window]) { client in
      let first = try client.get(1, path)
      client.send(.settings([4: 100]))
      return (first, try client.get(3, "/ok"))
    }
    #expect(first.status == 200 && first.body.count == Int(window) && first.resetCode == .cancel)
    #expect(second.text == "ok")
    try await isTold(.stalledStreams, front)
  }
}
