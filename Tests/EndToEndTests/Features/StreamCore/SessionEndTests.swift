import Glibc
import TestSupport
import Testing

/// How sessions end: which side ends first, in good order or not, and what `proxy_half_close` changes.
@Suite(.staged) struct `Ends of sessions of stream` {
  private static let size = 1_000_000

  // MARK: In good order

  @Test func `without proxy_half_close, the upstream gets all of a client that ends, and then both connections end`()
    async throws
  {
    let scene = try Scene.ofTest()
    let (come, go) = (Count(), Flag())
    scene.atEnd { go.raise() }
    let upstream = try ScriptedUpstream(scene, records: false) { wire, _ in
      go.wait()
      come.add(try wire.readToEnd().count)
      // Nobody is there any more.
      try? wire.write("late")
    }
    let front = try await StreamFront(scene, to: upstream)
    let wire = try Wire.dial(port: front.port)
    try await offPool {
      try wire.write(Pattern.bytes(Self.size))
      wire.finishWriting()
    }
    go.raise()
    #expect(try await offPool { try wire.readToEnd() }.isEmpty)
    try await until("the end at the upstream") { come.value > 0 }
    #expect(come.value == Self.size)
    #expect(try await front.line()["bytes_received"] == "\(Self.size)")
    try await front.endsWithoutSessions()
  }

  @Test func `without proxy_half_close, the client gets all of an upstream that ends, and then both connections end`()
    async throws
  {
    let scene = try Scene.ofTest()
    let ended = Flag()
    let upstream = try ScriptedUpstream(scene, records: false) { wire, _ in
      try wire.write(Pattern.bytes(Self.size))
      wire.finishWriting()
      if try wire.isClosedByPeer() { ended.raise() }
    }
    let front = try await StreamFront(scene, to: upstream)
    let bytes = try await front.talk { try $0.readToEnd() }
    #expect(Pattern.equal(bytes, Pattern.bytes(Self.size)))
    try await until("the end at the upstream") { ended.isRaised }
    try await front.endsWithoutSessions()
  }

  @Test func `with proxy_half_close, an upstream answers a client that has ended`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene, records: false) { wire, _ in
      let came = try wire.readToEnd()
      try wire.write(Array("\(came.count) ".utf8) + Pattern.bytes(Self.size))
    }
    let front = try await StreamFront(scene, to: upstream, server: "proxy_half_close on;")
    let answer = try await front.talk { wire in
      try wire.write(Pattern.bytes(Self.size))
      wire.finishWriting()
      return try wire.readToEnd()
    }
    #expect(Pattern.equal(answer, Array("\(Self.size) ".utf8) + Pattern.bytes(Self.size)))
    try await front.endsWithoutSessions()
  }

  @Test func `with proxy_half_close, a client goes on to send to an upstream that has ended`() async throws {
    let scene = try Scene.ofTest()
    let come = Count()
    let upstream = try ScriptedUpstream(scene, records: false) { wire, _ in
      try wire.write(Pattern.bytes(Self.size))
      wire.finishWriting()
      come.add(try wire.readToEnd().count)
    }
    let front = try await StreamFront(scene, to: upstream, server: "proxy_half_close on;")
    let bytes = try await front.talk { wire in
      let bytes = try wire.readToEnd()
      try wire.write(Pattern.bytes(Self.size))
      return bytes
    }
    #expect(Pattern.equal(bytes, Pattern.bytes(Self.size)))
    try await until("the client's bytes at the upstream") { come.value == Self.size }
    try await front.endsWithoutSessions()
  }

  /// A close_notify is the end of a side, and an end without one is none in good order.
  @Test(arguments: [true, false]) func `TLS ends as its bytes did, on both sides`(isHalf: Bool) async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let server = try await scene.tlsServer(TLSSteps("tls", "read=5", "count", "send=answer", "notify", "fin"))
    let front = try await StreamFront(
      scene, to: "127.0.0.1:\(server.port)", listen: "ssl",
      server: """
        \(Cast.tls) proxy_half_close \(isHalf ? "on" : "off"); proxy_ssl on; proxy_ssl_trusted_certificate ca.pem;
        proxy_ssl_name localhost;
        """)
    let came = try await scene.tlsClient(front.port, TLSSteps("tls", "send=hello", "many=100000", "notify", "rest"))
    #expect(came == (isHalf ? "answer<end>" : "<end>"))
    // Without half-closing, nobody takes its answer.
    #expect(try await server.line().hasPrefix("hello100000<end>"))
    try await front.endsWithoutSessions()
  }

  // MARK: Out of order

  @Test(arguments: [true, false]) func `a client's TLS that is cut is cut for the upstream too`(isHalf: Bool)
    async throws
  {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let server = try await scene.tlsServer(TLSSteps("tls", "read=5", "send=answer", "rest"))
    let front = try await StreamFront(
      scene, to: "127.0.0.1:\(server.port)", listen: "ssl",
      server: """
        \(Cast.tls) proxy_half_close \(isHalf ? "on" : "off"); proxy_ssl on; proxy_ssl_trusted_certificate ca.pem;
        proxy_ssl_name localhost;
        """)
    let came = try await scene.tlsClient(front.port, TLSSteps("tls", "send=hello", "read=6", "fin", "wait"))
    #expect(came == "answer")
    // An upstream of TLS must not take a part for the whole (RFC 8446 §6.1).
    #expect(try await server.line() == "hello<reset>")
    try await front.endsWithoutSessions()
  }

  @Test(arguments: [true, false]) func `an upstream's TLS that is cut is cut for the client too`(isHalf: Bool)
    async throws
  {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let server = try await scene.tlsServer(TLSSteps("tls", "read=5", "send=part", "fin", "wait"))
    let front = try await StreamFront(
      scene, to: "127.0.0.1:\(server.port)", listen: "ssl",
      server: """
        \(Cast.tls) proxy_half_close \(isHalf ? "on" : "off"); proxy_ssl on; proxy_ssl_trusted_certificate ca.pem;
        proxy_ssl_name localhost;
        """)
    #expect(try await scene.tlsClient(front.port, TLSSteps("tls", "send=hello", "rest")) == "part<cut>")
    try await front.endsWithoutSessions()
  }

  enum Moment: CaseIterable, Sendable {
    case atOnce, afterBytes, whileBytesWait, afterTheOtherHasEnded
  }

  @Test(arguments: Moment.allCases, [true, false])
  func `a client's reset is the upstream's`(moment: Moment, isHalf: Bool) async throws {
    let scene = try Scene.ofTest()
    let (wasReset, ready, go) = (Flag(), Flag(), Flag())
    scene.atEnd { go.raise() }
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      switch moment {
      case .atOnce: break
      case .afterBytes: _ = try wire.read(exactly: 5)
      case .whileBytesWait:
        _ = try wire.read(exactly: 5)
        _ = try wire.writeUntilFull(Pattern.bytes(100_000), limit: 100_000_000)
      case .afterTheOtherHasEnded:
        _ = try wire.read(exactly: 5)
        wire.finishWriting()
      }
      ready.raise()
      _ = try wire.readToEnd()
      if wire.isReset { wasReset.raise() }
      go.wait()
    }
    let front = try await StreamFront(scene, to: upstream, server: "proxy_half_close \(isHalf ? "on" : "off");")
    let wire = try Wire.dial(port: front.port)
    if moment != .atOnce { try wire.write("hello") }
    if moment == .afterTheOtherHasEnded { #expect(try await offPool { try wire.isClosedByPeer() }) }
    try await until("the upstream's turn") { ready.isRaised }
    wire.reset()
    if isHalf || moment != .afterTheOtherHasEnded {
      try await until("the reset at the upstream") { wasReset.isRaised }
    }
    _ = try await front.line()
    try await front.endsWithoutSessions()
  }

  @Test(arguments: Moment.allCases, [true, false])
  func `an upstream's reset ends the client's connection`(moment: Moment, isHalf: Bool) async throws {
    let scene = try Scene.ofTest()
    let go = Flag()
    scene.atEnd { go.raise() }
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      switch moment {
      case .atOnce: break
      case .afterBytes: try wire.write(try wire.read(exactly: 5))
      case .whileBytesWait:
        try wire.write(try wire.read(exactly: 5))
        go.wait()
      case .afterTheOtherHasEnded: _ = try wire.readToEnd()
      }
      wire.reset()
    }
    let front = try await StreamFront(scene, to: upstream, server: "proxy_half_close \(isHalf ? "on" : "off");")
    try await front.talk { wire in
      switch moment {
      case .atOnce: break
      case .afterBytes: #expect(try wire.echoes())
      case .whileBytesWait:
        #expect(try wire.echoes())
        _ = try wire.writeUntilFull(Pattern.bytes(100_000), limit: 100_000_000)
        go.raise()
      case .afterTheOtherHasEnded:
        try wire.write("hello")
        wire.finishWriting()
      }
      #expect(try wire.readToEnd().isEmpty)
    }
    _ = try await front.line()
    try await front.endsWithoutSessions()
  }

  // MARK: Before the content

  /// The beginnings of what a client says before its bytes pass.
  private static let beginnings = ["", "PROXY TCP4 1", "\u{16}\u{3}\u{1}", "\u{0}\u{0}\u{0}\u{8}", "EHLO me"]

  @Test func `a client that leaves at any step, in order or not, leaves nothing behind`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let upstream = try ScriptedUpstream.mirror(scene)
    let ports = try (0..<7).map { _ in try scene.port() }
    let pass = "proxy_pass 127.0.0.1:\(upstream.port);"
    let daemon = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        \(Cast.tls)
        server { listen 127.0.0.1:\(ports[0]) proxy_protocol; \(pass) }
        server { listen 127.0.0.1:\(ports[1]) ssl; \(pass) }
        server { listen 127.0.0.1:\(ports[2]) ssl; starttls postgres; \(pass) }
        server { listen 127.0.0.1:\(ports[3]) ssl; starttls smtp; \(pass) }
        server { listen 127.0.0.1:\(ports[4]); ssl_preread on; \(pass) }
        server { listen 127.0.0.1:\(ports[5]) ssl proxy_protocol; starttls ldap; \(pass) }
        server { listen 127.0.0.1:\(ports[6]); \(pass) }
        """))
    try await offPool {
      for port in ports {
        for beginning in Self.beginnings {
          let bytes = beginning.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
          let wires = try (0..<3).map { _ in
            let wire = try Wire.dial(port: port)
            try wire.write(bytes)
            return wire
          }
          wires[0].reset()
          wires[1].close()
          wires[2].finishWriting()
          _ = try wires[2].readToEnd()
        }
      }
    }
    try await until("a line of each session") {
      ports.allSatisfy { StreamLine.all(scene, $0).count == 3 * Self.beginnings.count }
    }
    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended() == .exited(0))
  }

  @Test func `an upstream that leaves at any step before the client's bytes ends the session with 502`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let gone = try ScriptedUpstream(scene) { wire, number in
      if number % 2 == 0 { wire.reset() }
    }
    let half = try ScriptedUpstream(scene) { wire, number in
      _ = try wire.readSome()
      try wire.write([UInt8(ascii: "S")])
      _ = try wire.readSome()
      try wire.write([0x16, 3, 3])
      if number % 2 == 0 { wire.reset() }
    }
    let ports = try (0..<4).map { _ in try scene.port() }
    let closed = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name localhost;
        server { listen 127.0.0.1:\(ports[0]); proxy_pass 127.0.0.1:\(closed); }
        server { listen 127.0.0.1:\(ports[1]); proxy_ssl on; proxy_pass 127.0.0.1:\(gone.port); }
        server { listen 127.0.0.1:\(ports[2]); proxy_ssl on; proxy_starttls postgres; proxy_pass 127.0.0.1:\(gone.port); }
        server { listen 127.0.0.1:\(ports[3]); proxy_ssl on; proxy_starttls postgres; proxy_pass 127.0.0.1:\(half.port); }
        """))
    try await offPool {
      for port in ports {
        for _ in 0..<4 {
          let wire = try Wire.dial(port: port)
          try? wire.write("secret")
          #expect(try wire.readToEnd().isEmpty)
        }
      }
    }
    for port in ports {
      try await until("the lines of port \(port)") { StreamLine.all(scene, port).count == 4 }
      #expect(StreamLine.all(scene, port).allSatisfy { $0.status == "502" && $0["bytes_sent"] == "0" })
    }
    #expect(!gone.receivedText.contains("secret") && !half.receivedText.contains("secret"))
    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended() == .exited(0))
  }
}
