import Glibc
import TestSupport
import Testing

/// Times, rates and numbers that bound sessions of `stream`.
@Suite(.staged) struct `Limits of sessions of stream` {
  enum Wait: CaseIterable, Sendable {
    case proxyHeader, halfOfProxyHeader, handshake, halfOfHello, negotiation, halfOfNegotiation,
      handshakeAfterNegotiation
    case preread, halfOfPreread, upstreamHandshake, upstreamNegotiation, silence, silentUpstream, silentClient, lifetime

    /// The words of the listen, the lines of the server block, and what the client says.
    var parts: (listen: String, server: String, said: [UInt8]) {
      switch self {
      case .proxyHeader: ("proxy_protocol", "proxy_protocol_timeout 200ms;", [])
      case .halfOfProxyHeader: ("proxy_protocol", "proxy_protocol_timeout 200ms;", Array("PROXY TCP4 1".utf8))
      case .handshake: ("ssl", "ssl_handshake_timeout 200ms;", [])
      case .halfOfHello: ("ssl", "ssl_handshake_timeout 200ms;", [0x16, 3, 1, 1, 0, 1, 0])
      case .negotiation: ("ssl", "ssl_handshake_timeout 200ms; starttls postgres;", [])
      case .halfOfNegotiation: ("ssl", "ssl_handshake_timeout 200ms; starttls postgres;", [0, 0, 0])
      case .handshakeAfterNegotiation:
        ("ssl", "ssl_handshake_timeout 200ms; starttls postgres;", [0, 0, 0, 8, 4, 0xD2, 0x16, 0x2F])
      case .preread: ("", "ssl_preread on; preread_timeout 200ms;", [])
      case .halfOfPreread: ("", "ssl_preread on; preread_timeout 200ms;", [0x16, 3, 1, 1, 0, 1, 0])
      case .upstreamHandshake: ("", "proxy_connect_timeout 200ms; proxy_ssl on;", Array("hello".utf8))
      case .upstreamNegotiation:
        ("", "proxy_connect_timeout 200ms; proxy_ssl on; proxy_starttls smtp;", Array("hello".utf8))
      case .silence: ("", "proxy_timeout 200ms;", [])
      case .silentUpstream: ("", "proxy_timeout 200ms;", Array("hello".utf8))
      case .silentClient: ("", "proxy_timeout 200ms; proxy_half_close on;", Array("greet me".utf8))
      case .lifetime: ("", "connection_max_time 200ms;", Array("hello".utf8))
      }
    }

    var status: String {
      switch self {
      case .upstreamHandshake, .upstreamNegotiation: "502"
      case .handshake, .halfOfHello, .handshakeAfterNegotiation: "500"
      case .preread, .halfOfPreread, .silence, .silentUpstream, .silentClient, .lifetime: "200"
      default: "400"
      }
    }

    var log: String {
      switch self {
      case .proxyHeader, .halfOfProxyHeader: "timed out (110: Connection timed out) while reading PROXY protocol"
      case .handshake, .halfOfHello, .handshakeAfterNegotiation: "while SSL handshaking"
      case .negotiation, .halfOfNegotiation: "timed out (110: Connection timed out) while negotiating TLS"
      case .preread, .halfOfPreread: "timed out (110: Connection timed out) while prereading client data"
      case .upstreamHandshake, .upstreamNegotiation: "upstream timed out"
      case .silence, .silentUpstream, .silentClient: "connection timed out (110: Connection timed out)"
      case .lifetime: "the connection has lasted as long as it may (connection_max_time)"
      }
    }
  }

  @Test(arguments: Wait.allCases) func `each time limit ends the connection, and says which one`(wait: Wait)
    async throws
  {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      if wait == .silentClient {
        _ = try wire.readSome()
        try wire.write("greetings")
      }
      _ = try wire.readToEnd()
    }
    let (listen, server, said) = wait.parts
    let front = try await StreamFront(
      scene, to: upstream, listen: listen,
      server: """
        \(listen == "ssl" ? Cast.tls : "") \(server)
        proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name localhost;
        """)
    let came = try await front.talk { wire in
      try wire.write(said)
      return try wire.readToEnd()
    }
    let expected =
      switch wait {
      case .handshakeAfterNegotiation: "S"
      case .silentClient: "greetings"
      default: ""
      }
    #expect(String(decoding: came, as: UTF8.self) == expected)
    #expect(try await front.line().status == wait.status)
    try await front.daemon.logged(wait.log)
    try await front.endsWithoutSessions()
  }

  @Test func `a server whose system doesn't answer is given up after proxy_connect_timeout`() async throws {
    let scene = try Scene.ofTest()
    let full = try QuietListener.full(scene)
    let front = try await StreamFront(scene, to: "127.0.0.1:\(full.port)", server: "proxy_connect_timeout 200ms;")
    #expect(try await front.talk { try $0.readToEnd() }.isEmpty)
    #expect(try await front.line().status == "502")
    try await front.daemon.logged("upstream timed out", "127.0.0.1:\(full.port)")
    try await front.endsWithoutSessions()
  }

  // MARK: Rates

  /// In each second that has begun, one rate more may pass: what has come by an end is a multiple of it.
  @Test(arguments: ["proxy_upload_rate", "proxy_download_rate"], [false, true])
  func `a rate lets each second's bytes pass, and holds the rest back`(rate: String, hasTLS: Bool) async throws {
    let scene = try Scene.ofTest()
    let cast = try Cast(scene)
    let isUpload = rate == "proxy_upload_rate"
    let ended = Flag()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      if !isUpload { try wire.write(Pattern.bytes(500_000)) }
      _ = try wire.readToEnd()
      ended.raise()
    }
    let front = try await StreamFront(
      scene, to: upstream, listen: hasTLS ? "ssl" : "",
      server: "\(hasTLS ? Cast.tls : "") \(rate) 1000; connection_max_time 300ms;")
    let dial: @Sendable () throws -> Wire = {
      hasTLS
        ? try OpenSSLClient(scene, port: front.port, identity: cast.alice).wire : try Wire.dial(port: front.port)
    }
    let came = try await offPool {
      let wire = try dial()
      // The end of the session may come first.
      if isUpload { try? wire.write(Pattern.bytes(200_000)) }
      return try wire.readToEnd()
    }
    try await until("the end at the upstream") { ended.isRaised }
    let passed = isUpload ? upstream.received.first ?? [] : came
    #expect(!passed.isEmpty && passed.count % 1000 == 0 && passed.count < 100_000, "\(passed.count)")
    #expect(Pattern.equal(passed, Pattern.bytes(passed.count)))
    try await front.endsWithoutSessions()
  }

  @Test(arguments: ["proxy_upload_rate", "proxy_download_rate"])
  func `with a rate all bytes pass in the end, and a variable may say that there is none`(rate: String) async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.mirror(scene)
    let (slow, free) = try (scene.port(), scene.port())
    _ = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        map $server_port $rate { \(slow) 100000; default 0; }
        \(rate) $rate;
        server { listen 127.0.0.1:\(slow); proxy_pass 127.0.0.1:\(upstream.port); }
        server { listen 127.0.0.1:\(free); proxy_pass 127.0.0.1:\(upstream.port); }
        """))
    for port in [slow, free] {
      #expect(try await scene.talk(port) { try $0.echoes(String(repeating: "x", count: 150_000)) })
    }
  }

  // MARK: Numbers

  @Test func `limit_conn refuses one session more than there may be, until one has ended`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.mirror(scene)
    let front = try await StreamFront(
      scene, to: upstream, server: "limit_conn z 2;",
      stream: "limit_conn_zone $binary_remote_addr zone=z:1m; limit_conn_log_level warn;")
    let (first, second) = try await offPool { try (Wire.dial(port: front.port), Wire.dial(port: front.port)) }
    #expect(try await offPool { try first.echoes() && second.echoes() })
    #expect(try await front.talk { try $0.readToEnd() }.isEmpty)
    let line = try await front.line()
    #expect(line.status == "503" && line["limit_conn_status"] == "REJECTED")
    try await front.daemon.logged("[warn]", "limiting connections by zone \"z\"")
    #expect(upstream.connections == 2)
    first.close()
    #expect(try await front.line(1)["limit_conn_status"] == "PASSED")
    #expect(try await front.talk { try $0.echoes() })
    #expect(try await offPool { try second.echoes() })
    second.close()
    try await front.endsWithoutSessions()
  }

  @Test func `with limit_conn_dry_run, a session too many is logged and let in`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.mirror(scene)
    let front = try await StreamFront(
      scene, to: upstream, server: "limit_conn z 1; limit_conn_dry_run on;",
      stream: "limit_conn_zone $binary_remote_addr zone=z:1m;")
    let first = try await offPool { try Wire.dial(port: front.port) }
    #expect(try await offPool { try first.echoes() })
    #expect(try await front.talk { try $0.echoes() })
    let line = try await front.line()
    #expect(line.status == "200" && line["limit_conn_status"] == "REJECTED_DRY_RUN")
    try await front.daemon.logged("[error]", "limiting connections, dry run, by zone \"z\"")
    first.close()
    #expect(try await front.line(1)["limit_conn_status"] == "PASSED")
    try await front.endsWithoutSessions()
  }
}
