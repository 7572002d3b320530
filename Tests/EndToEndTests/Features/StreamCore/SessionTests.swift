import Glibc
import Synchronization
import TestSupport
import Testing

/// Connections of `stream` from their first byte to their last.
@Suite(.staged) struct `Sessions of stream` {
  enum Way: CaseIterable, Sendable {
    case plain, fromTLS, toTLS, throughTLS
    var isFromTLS: Bool { self == .fromTLS || self == .throughTLS }
    var isToTLS: Bool { self == .toTLS || self == .throughTLS }
  }

  /// A front for that way, whose upstream has TLS by HAProxy.
  private static func front(
    _ way: Way, _ scene: Scene, to upstream: ScriptedUpstream, server: String = ""
  ) async throws -> StreamFront {
    let cast = try Cast(scene)
    var (lines, target) = (server, upstream.port)
    if way.isFromTLS { lines += Cast.tls }
    if way.isToTLS {
      let identity = try scene.identity("upstream", cast.authority.server(names: ["up.test"]))
      try scene.write("both.pem", text: scene.text("upstream.pem") + scene.text("upstream.key"))
      target = try scene.port()
      try await HAProxy.start(
        scene, port: target, to: upstream.port, mode: "tcp", bind: "ssl crt \(scene.path("both.pem"))")
      lines += "proxy_ssl on; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name up.test;"
      #expect(identity.certificate == scene.path("upstream.pem"))
    }
    return try await StreamFront(scene, to: "127.0.0.1:\(target)", listen: way.isFromTLS ? "ssl" : "", server: lines)
  }

  private static func dial(_ front: StreamFront, _ way: Way) throws -> Wire {
    guard way.isFromTLS else { return try Wire.dial(port: front.port) }
    let alice = [
      "-cert", front.scene.path("alice.pem"), "-key", front.scene.path("alice.key"), "-verify_return_error", "-CAfile",
      front.scene.path("ca.pem"),
    ]
    return try OpenSSLClient(front.scene, port: front.port, alice).wire
  }

  // MARK: Bytes

  @Test(arguments: Way.allCases) func `many bytes pass both ways at once, each in its place`(way: Way) async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.mirror(scene, records: false)
    let front = try await Self.front(way, scene, to: upstream)
    let wire = try await offPool { try Self.dial(front, way) }
    let bytes = Pattern.bytes(3_000_000)
    async let sending: Void = offPool { try wire.write(bytes) }
    let came = try await offPool { try wire.read(exactly: bytes.count) }
    try await sending
    #expect(Pattern.equal(came, bytes))
    wire.close()
    let line = try await front.line()
    #expect(line.status == "200" && line["bytes_received"] == "3000000" && line["bytes_sent"] == "3000000")
    try await front.endsWithoutSessions()
  }

  @Test(arguments: Way.allCases) func `each byte passes without waiting for the next one`(way: Way) async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.mirror(scene)
    let front = try await Self.front(way, scene, to: upstream)
    let came = try await offPool {
      let wire = try Self.dial(front, way)
      defer { wire.close() }
      return try "\u{0}hello, byte by byte\r\n".utf8.map { byte in
        try wire.write([byte])
        return try wire.read(exactly: 1)[0]
      }
    }
    #expect(came == Array("\u{0}hello, byte by byte\r\n".utf8))
  }

  @Test(arguments: Way.allCases) func `either side may speak first, and alone`(way: Way) async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, number in
      if number == 0 { try wire.write("220 hello\r\n") } else { _ = try wire.readToEnd() }
    }
    let front = try await Self.front(way, scene, to: upstream)
    #expect(try await offPool { try Self.dial(front, way).textToEnd() } == "220 hello\r\n")
    let wire = try await offPool {
      let wire = try Self.dial(front, way)
      try wire.write("bye")
      return wire
    }
    try await until("the client's bytes at the upstream") { upstream.received.last == Array("bye".utf8) }
    wire.close()
  }

  // MARK: Back-pressure

  /// Far more than the buffers of the system on both connections hold.
  private static let much = 200_000_000

  @Test(arguments: [Way.plain, .throughTLS])
  func `an upstream that reads nothing holds the client back, in bounded memory, and gets all in the end`(
    way: Way
  ) async throws {
    let scene = try Scene.ofTest()
    let (go, count) = (Flag(), Count())
    scene.atEnd { go.raise() }
    let upstream = try ScriptedUpstream(scene, records: false) { wire, _ in
      go.wait()
      while case let some = try wire.readSome(), !some.isEmpty { count.add(some.count) }
    }
    let front = try await Self.front(way, scene, to: upstream)
    let wire = try await offPool { try Self.dial(front, way) }
    let before = try #require(front.daemon.memory("VmHWM"))
    let sent = try await offPool { try wire.writeUntilFull(Pattern.bytes(1_000_003), limit: Self.much) }
    let after = try #require(front.daemon.memory("VmHWM"))
    #expect(sent < 60_000_000)
    if !Sanitizer.isUsed { #expect(after - before < 4096, "KiB for \(sent) bytes") }
    go.raise()
    try await until("all of the client's bytes at the upstream") { count.value == sent }
    wire.close()
  }

  @Test(arguments: [Way.plain, .throughTLS])
  func `a client that reads nothing holds the upstream back, in bounded memory, and gets all in the end`(
    way: Way
  ) async throws {
    let scene = try Scene.ofTest()
    let count = Count()
    let upstream = try ScriptedUpstream(scene, records: false) { wire, _ in
      count.add(try wire.writeUntilFull(Pattern.bytes(1_000_003), limit: Self.much))
    }
    let front = try await Self.front(way, scene, to: upstream)
    let before = try #require(front.daemon.memory("VmHWM"))
    let wire = try await offPool { try Self.dial(front, way) }
    try await until("the upstream to be held back") { count.value > 0 }
    let after = try #require(front.daemon.memory("VmHWM"))
    #expect(count.value < 60_000_000)
    if !Sanitizer.isUsed { #expect(after - before < 4096, "KiB for \(count.value) bytes") }
    let came = try await offPool { try wire.readToEnd() }
    let sent = count.value
    #expect(came.count == sent && Pattern.equal(Array(came.prefix(1_000_003)), Pattern.bytes(1_000_003)))
    try await front.endsWithoutSessions()
  }
}

/// A number that threads of a test add to.
final class Count: Sendable {
  private let number = Mutex(0)
  func add(_ more: Int) { number.withLock { $0 += more } }
  var value: Int { number.withLock { $0 } }
}
