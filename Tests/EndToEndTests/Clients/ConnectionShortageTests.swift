import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `When worker_connections are used up` {
  private func start(_ scene: Scene, connections: Int, http: String = "", _ server: String) async throws -> (
    Sallyport, UInt16
  ) {
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      """
      worker_processes 1;
      error_log error.log info;
      pid sallyport.pid;
      events { worker_connections \(connections); }
      http { access_log off; \(http) server { listen 127.0.0.1:\(port); \(server) } }
      """)
    return (daemon, port)
  }

  private static func request(_ path: String) -> String { "GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n" }

  @Test func `the API and the status page answer where every connection is taken, and health fails`() async throws {
    let scene = try Scene.ofTest(), go = Flag(), pages = try scene.port()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.request()
      go.wait()
      try wire.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    }
    defer { go.raise() }
    let (daemon, port) = try await start(
      scene, connections: 4,
      http: """
        client_queue_timeout 60s;
        server { listen 127.0.0.1:\(pages); location = /status { status; } location /api { api; } }
        """, "location / { proxy_pass http://127.0.0.1:\(upstream.port); }")
    // Each of them takes a connection to the upstream, too.
    let busy = try (0..<2).map { _ in try Wire.dial(port: port) }
    for wire in busy { try wire.write(Self.request("/")) }
    let late = try Wire.dial(port: port)
    try late.write(Self.request("/"))
    // The late client waits for a place, or a request for its connection to the upstream.
    try await daemon.logged("4 worker_connections are not enough, ")
    for page in ["status", "api/9/connections", "status"] {
      #expect(try await scene.curl(["http://127.0.0.1:\(pages)/\(page)"]).status == 200)
    }
    try await until("a fault of the worker") {
      let health = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
      return health.text.contains("FAILED  workers: worker 0 has no connection left, all 4 are taken")
    }
    go.raise()
    try await offPool {
      for wire in busy + [late] {
        let answer = try wire.read(through: "\r\n\r\nok")
        #expect(answer != nil)
        wire.close()
      }
    }
  }

  @Test func `idle clients make room, the oldest first, and the log says so once`() async throws {
    let scene = try Scene.ofTest()
    let (daemon, port) = try await start(scene, connections: 8, "location / { return 200 ok; }")
    try await offPool {
      func ask(_ wire: Wire, times: Int = 1) throws {
        for _ in 0..<times {
          try wire.write(Self.request("/"))
          #expect(try wire.read(through: "\r\n\r\nok") != nil)
        }
      }
      let busy = try Wire.dial(port: port)
      var idle: [Wire] = []
      for _ in 0..<7 {
        let wire = try Wire.dial(port: port)
        try ask(wire)
        idle.append(wire)
        // Longer than the clock's millisecond, so that they have idled for different times.
        try ask(busy, times: 50)
      }
      for oldest in idle.prefix(2) {
        let late = try Wire.dial(port: port)
        try ask(late, times: 50)
        #expect(try oldest.isClosedByPeer())
        idle.append(late)
      }
      for wire in idle.dropFirst(2) + [busy] {
        try ask(wire)
        wire.close()
      }
    }
    try await daemon.logged("worker_connections are not enough, reusing connections")
    #expect(daemon.errorLog.split(separator: "\n").filter { $0.contains("are not enough") }.count == 1)
  }

  @Test func `an upstream's idle connection makes room for a client`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      while try wire.read(through: "\r\n\r\n") != nil {
        try wire.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup")
      }
    }
    let (_, port) = try await start(
      scene, connections: 2, http: "upstream kept { server 127.0.0.1:\(upstream.port); keepalive 1; }",
      """
      location / { return 200 ok; }
      location /up { proxy_pass http://kept; proxy_http_version 1.1; proxy_set_header Connection ""; }
      """)
    try await offPool {
      let first = try Wire.dial(port: port)
      try first.write(Self.request("/up"))
      #expect(try first.read(through: "\r\n\r\nup") != nil)
      // Used for more than a millisecond after the upstream's last answer, so that it has idled for less.
      for _ in 0..<50 {
        try first.write(Self.request("/"))
        #expect(try first.read(through: "\r\n\r\nok") != nil)
      }
      let second = try Wire.dial(port: port)
      for wire in [second, first] {
        try wire.write(Self.request("/"))
        #expect(try wire.read(through: "\r\n\r\nok") != nil)
      }
      second.close()
      first.close()
    }
  }

  @Test func `an upstream's idle session of HTTP 2 makes room for others`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try UpstreamFrameServer.serving(scene) { try $0.answer($1, $1.path) }
    // Each group has a session of its own.
    let groups = (0..<20).map { "upstream g\($0) { server 127.0.0.1:\(upstream.port); }" }.joined()
    let (_, port) = try await start(
      scene, connections: 8, http: groups,
      "proxy_http_version 2;" + (0..<20).map { "location /\($0) { proxy_pass http://g\($0); }" }.joined())
    for index in 0..<20 {
      #expect(try await scene.curl(["http://127.0.0.1:\(port)/\(index)"]).text == "/\(index)")
    }
    #expect(upstream.connections == 20)
  }

  @Test func `unfinished handshakes go before a verified client's idle connection`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      """
      worker_processes 1; error_log error.log info; pid sallyport.pid;
      events { worker_connections 16; }
      http { access_log off;
        server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) location / { return 200 ok; } } }
      """)
    try await scene.talk(tls: port, identity: cast.alice) { wire in
      func ask() throws {
        try wire.write(Self.request("/"))
        #expect(try wire.read(through: "\r\n\r\nok") != nil)
      }
      try ask()
      var stalled: [Wire] = []
      for index in 0..<200 {
        let other = try Wire.dial(port: port)
        // Some send the beginning of a ClientHello.
        if index % 2 == 0 { try other.write([0x16, 0x03, 0x01, 0x02, 0x00, 0x01]) }
        stalled.append(other)
      }
      // All were accepted: the last ones are ended too in their turn.
      #expect(try stalled[180].isClosedByPeer())
      try ask()
    }
    try await daemon.logged("worker_connections are not enough, reusing connections")
    #expect(!daemon.errorLog.contains("[alert]"))
  }

  /// The header of the PROXY protocol and a ClientHello that is looked at stay in the socket until they are whole.
  @Test(arguments: ["listen 127.0.0.1:PORT proxy_protocol", "listen 127.0.0.1:PORT; ssl_preread on"])
  func `clients that send one byte and wait keep their places no longer than silent ones`(listen: String) async throws {
    let scene = try Scene.ofTest(), port = try scene.port(), lines = listen.replacing("PORT", with: "\(port)")
    let isPreread = listen.contains("preread")
    _ = try await Sallyport.start(
      scene,
      """
      worker_processes 1; error_log error.log info; pid sallyport.pid;
      events { worker_connections 16; }
      \(isPreread ? "stream { server { \(lines); return served; } }"
        : "http { access_log off; server { \(lines); return 200 served; } }")
      """)
    try await offPool {
      var stalled: [Wire] = []
      for _ in 0..<200 {
        let wire = try Wire.dial(port: port)
        try wire.write([isPreread ? 0x16 : 0x50])
        stalled.append(wire)
      }
      // All were accepted: the last ones are ended too in their turn.
      #expect(try stalled[180].isClosedByPeer())
      let asker = try Wire.dial(port: port)
      try asker.write(isPreread ? "hello" : "PROXY UNKNOWN\r\n\(Self.request("/"))")
      #expect(try asker.read(through: "served") != nil)
    }
  }

  @Test func `a client for whom no place can be made waits in the queue, and is served`() async throws {
    let scene = try Scene.ofTest()
    let (upstream, gate) = try Self.gated(scene)
    let (daemon, port) = try await start(
      scene, connections: 4, "location / { proxy_pass http://127.0.0.1:\(upstream.port); }")
    try await offPool {
      let busy = try (0..<2).map { _ in
        let wire = try Wire.dial(port: port)
        try wire.write(Self.request("/"))
        return wire
      }
      Self.pause { upstream.connections >= 2 }
      let late = try Wire.dial(port: port)
      try late.write(Self.request("/"))
      Self.pause { scene.text("error.log").contains("new clients wait") }
      gate.raise()
      for wire in busy + [late] { #expect(try wire.read(through: "\r\n\r\nup") != nil) }
    }
    #expect(!daemon.errorLog.contains("[alert]"))
  }

  @Test(arguments: ["0", "200ms"]) func `no longer than client_queue_timeout, and then it is refused`(
    timeout: String
  ) async throws {
    let scene = try Scene.ofTest()
    let (upstream, gate) = try Self.gated(scene)
    let (daemon, port) = try await start(
      scene, connections: 2, http: "client_queue_timeout \(timeout);",
      "location / { proxy_pass http://127.0.0.1:\(upstream.port); }")
    try await offPool {
      let busy = try Wire.dial(port: port)
      try busy.write(Self.request("/"))
      Self.pause { upstream.connections >= 1 }
      let late = try Wire.dial(port: port)
      #expect(try late.isClosedByPeer())
      gate.raise()
      #expect(try busy.read(through: "\r\n\r\nup") != nil)
    }
    try await daemon.logged("[alert]", "2 worker_connections are not enough")
  }

  @Test func `a request for whose upstream connection there is no place waits for one`() async throws {
    let scene = try Scene.ofTest()
    let (upstream, gate) = try Self.gated(scene)
    let (daemon, port) = try await start(
      scene, connections: 3,
      "location / { proxy_pass http://127.0.0.1:\(upstream.port); } location /ok { return 200 ok; }")
    try await offPool {
      let second = try Wire.dial(port: port)
      try second.write(Self.request("/ok"))
      #expect(try second.read(through: "\r\n\r\nok") != nil)
      let first = try Wire.dial(port: port)
      try first.write(Self.request("/"))
      Self.pause { upstream.connections >= 1 }
      try second.write(Self.request("/"))
      gate.raise()
      for wire in [first, second] { #expect(try wire.read(through: "\r\n\r\nup") != nil) }
    }
    #expect(!daemon.errorLog.contains("[error]"))
  }

  /// Waits on a thread of its own for what must come.
  private static func pause(until condition: () -> Bool) {
    for _ in 0..<30_000 where !condition() { usleep(1000) }
  }

  /// An upstream that answers once the flag is raised.
  private static func gated(_ scene: Scene) throws -> (ScriptedUpstream, Flag) {
    let gate = Flag()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      while try wire.read(through: "\r\n\r\n") != nil {
        gate.wait()
        try wire.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup")
      }
    }
    return (upstream, gate)
  }
}
