import Bytes
@testable import Features
@testable import Forward
import Glibc
import TestSupport
import Testing
@testable import Traffic
import Transport

/// How much of a file waits in memory for a client that takes nothing, and for many of them.
@Suite struct `Slices of files` {
  private static let address = "192.0.2.1"
  private static let slice = 131_072, smallSlice = 16_384

  private func rig(_ scene: Scene, _ more: String = "") throws -> Rig {
    let folder = try scene.makeFolder("www")
    try scene.write("www/big", text: String(repeating: "0123456789", count: 90_000))
    return try Rig("server { listen 80; root \(folder); \(more) }")
  }

  /// Starts a request whose client takes no byte of the body.
  private func ask(_ rig: Rig, _ lines: String...) throws -> MemoryStream {
    let stream = try rig.ask(["GET /big HTTP/1.1", "Host: h"] + lines)
    stream.takesNothing = true
    return stream
  }

  /// Runs what threads of the pool posted, until `isSo` holds for all of these clients.
  private func turn(
    _ rig: Rig, until what: String, _ clients: [MemoryStream], _ isSo: (MemoryStream) -> Bool
  ) async throws {
    func isDone() -> Bool {
      rig.loop.wakeUp()
      rig.loop.cork.flush()
      return clients.allSatisfy(isSo)
    }
    // A file comes in several steps, of milliseconds each. Amid the whole suite, a poll comes seconds after the last one, so
    // that waiting by polls alone would take longer than `until` waits.
    for _ in 0..<2000 {
      if isDone() { return }
      usleep(1000)
    }
    try await until(what, isDone)
  }

  /// Runs what threads of the pool posted, until no more is read for these clients before they take some.
  private func waiting(_ rig: Rig, _ clients: MemoryStream...) async throws { try await waiting(rig, clients) }
  private func waiting(_ rig: Rig, _ clients: [MemoryStream]) async throws {
    try await turn(rig, until: "the handlers to wait for their clients", clients) { $0.watchedFor != nil }
  }

  /// The client takes all bytes, until the response has ended.
  private func takeAll(_ rig: Rig, _ client: MemoryStream) async throws {
    client.takesNothing = false
    client.exchange?.streamDidDrain()
    try await turn(rig, until: "the end of the response", [client]) { $0.hasEnded || $0.cutReason != nil }
    #expect(client.cutReason == nil)
  }

  @Test func `a client that takes nothing gets one slice read for it`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene)
    let client = try ask(rig)
    try await waiting(rig, client)
    #expect(client.status == 200 && client.body.utf8.count == Self.slice)
    #expect(rig.worker.responses.used == 0, "no read is in progress, and the test's client counts its own bytes")
    try await takeAll(rig, client)
    #expect(client.body.utf8.count == 900_000)
  }

  // Larger than any file that could be read as a whole beside others.
  @Test func `a large file goes slice by slice, and takes no more memory than a small one`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene)
    #expect(truncate(scene.path("www/big"), 3 << 30) == 0)
    let client = try ask(rig)
    try await waiting(rig, client)
    #expect(client.head.contains("Content-Length: 3221225472") && client.body.utf8.count == Self.slice)
    for count in 1...3 {
      client.takesNothing = false
      client.exchange?.streamDidDrain()
      client.takesNothing = true
      #expect(rig.worker.responses.used == FileBuffers.slice, "a read is in progress")
      try await turn(rig, until: "slice \(count)", [client]) {
        $0.body.utf8.count == Self.slice + count * FileBuffers.slice
      }
      #expect(rig.worker.responses.used == 0)
    }
    let tail = try rig.ask("GET /big HTTP/1.1", "Host: h", "Range: bytes=3221225470-")
    try await turn(rig, until: "the end", [tail]) { $0.hasEnded }
    #expect(tail.status == 206 && tail.head.contains("Content-Range: bytes 3221225470-3221225471/3221225472"))
    client.exchange?.clientDidLeave()
  }

  @Test func `a file that is replaced or written to while it is sent ends the response, and is never mixed`()
    async throws
  {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene, "error_log \(scene.path("error.log"));")
    let other = String(repeating: "abcdefghij", count: 90_000)
    for replaces in [true, false] {
      try scene.write("www/big", text: String(repeating: "0123456789", count: 90_000))
      let client = try ask(rig)
      try await waiting(rig, client)
      try scene.write(replaces ? "www/other" : "www/big", text: other)
      if replaces { #expect(rename(scene.path("www/other"), scene.path("www/big")) == 0) }
      client.takesNothing = false
      client.exchange?.streamDidDrain()
      try await turn(rig, until: "the break", [client]) { $0.cutReason != nil }
      #expect(client.cutReason == .upstreamBroke && !client.body.contains("a"))
    }
    #expect(scene.text("error.log").contains("has changed while it was sent"))
  }

  @Test func `slices are small while the worker's responses take much memory, and the file comes whole`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene)
    rig.worker.responses.take(32 << 20)
    let client = try ask(rig)
    try await waiting(rig, client)
    #expect(client.body.utf8.count == Self.smallSlice)
    try await takeAll(rig, client)
    #expect(client.body.utf8.count == 900_000)
    rig.worker.responses.giveBack(32 << 20)
    #expect(rig.worker.responses.used == 0)
  }

  @Test func `reads of many clients take a bounded amount of memory, and none once they have left`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene), gauge = rig.worker.responses
    let held = Flag(), pool = rig.worker.shared.pool
    defer { held.raise() }
    for _ in 0..<BlockingWork.files.limits.lanes { _ = pool.run(.files, for: "held") { held.wait() } }
    let clients = try (0..<1000).map { _ in try ask(rig) }
    let bound = 32 << 20 + 1000 * Self.smallSlice
    #expect(gauge.used > 32 << 20 && gauge.used <= bound)
    // Some leave while their read waits, and some when it has ended, before the loop has its bytes.
    for client in clients[..<400] { client.exchange?.clientDidLeave() }
    #expect(pool.waiting(.files, for: Self.address) == 600 && gauge.used < bound - 400 * Self.smallSlice)
    held.raise()
    try await until("the reads to end") { pool.isIdle(.files) }
    for client in clients[400..<600] { client.exchange?.clientDidLeave() }
    try await waiting(rig, Array(clients[600...]))
    #expect(clients[..<600].allSatisfy { $0.body.isEmpty })
    #expect(clients[600...].allSatisfy { $0.body.utf8.count == Self.smallSlice })
    #expect(gauge.used == 0)
  }

  @Test func `a compressed file waits with one slice, compressed or not`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene, "gzip on; gzip_types *;")
    let client = try ask(rig, "Accept-Encoding: gzip")
    try await waiting(rig, client)
    #expect(client.head.contains("Content-Encoding: gzip"))
    #expect(client.exchange.flatMap { GzipFilter.compressor(of: $0) }?.received == UInt64(Self.slice))
    // Half of the slice waits for the next turn of the loop.
    #expect(rig.worker.responses.used >= Self.slice / 2 && rig.worker.responses.used <= Self.slice)
    client.exchange?.clientDidLeave()
    #expect(rig.worker.responses.used == 0)
  }

  @Test func `responses of one worker compress a bounded number of bytes in one turn of the loop`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene, "gzip on; gzip_types *;")
    // The loop of the rig stays in one turn.
    let clients = try (0..<20).map { _ in try ask(rig, "Accept-Encoding: gzip") }
    try await waiting(rig, clients)
    let compressors = clients.compactMap { $0.exchange.flatMap { GzipFilter.compressor(of: $0) } }
    let done = compressors.map { Int($0.received) - $0.kept.count }
    #expect(compressors.count == 20 && done.reduce(0, +) == CompressionGauge.turnSize / 2)
    for compressor in compressors { compressor.again() }
    #expect(compressors.map { Int($0.received) - $0.kept.count }.reduce(0, +) == CompressionGauge.turnSize)
    for client in clients { client.exchange?.clientDidLeave() }
    #expect(rig.worker.responses.used == 0)
  }

  @Test func `what a rate keeps back is counted`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene, "limit_rate 1k;")
    let client = try ask(rig)
    try await waiting(rig, client)
    #expect(client.body.utf8.count < Self.smallSlice && rig.worker.responses.used >= Self.slice - Self.smallSlice)
    client.exchange?.clientDidLeave()
    #expect(rig.worker.responses.used == 0)
  }

  @Test func `waiting bytes are counted by the memory that they take`() {
    let gauge = BodyMemoryBudget(limit: 1000)
    do {
      var waiting = WaitingBytes(in: gauge)
      [UInt8](repeating: 1, count: 100_000).withUnsafeBytes { waiting.append($0) }
      #expect(gauge.used == 100_000)
      waiting.consume(99_999)
      #expect(gauge.used == 100_000 && waiting.count == 1, "the memory is freed as a whole")
      waiting.consume(1)
      #expect(gauge.used == 0 && waiting.isEmpty)
      [UInt8](repeating: 1, count: 5000).withUnsafeBytes { waiting.append($0) }
      #expect(gauge.used == 5000)
    }
    #expect(gauge.used == 0)
  }
}
