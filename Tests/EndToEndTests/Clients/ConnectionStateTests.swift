import TestSupport
import Testing

@Suite(.staged) struct `Open connections by state` {
  /// Counts by state; the connection that asks is one of them.
  private static func counts(_ scene: Scene, _ port: UInt16) async throws -> [String: Int] {
    let page = try PrometheusPage(await scene.page(port, "/metrics").text)
    return page.samples.filter { $0.name == "sallyport_client_connections" }.reduce(into: [:]) { counts, sample in
      counts[sample.labels["state"] ?? "", default: 0] += Int(sample.value)
    }
  }

  /// None of these connections is one of `stream`.
  private static func has(_ states: [String: Int], _ scene: Scene, _ port: UInt16) async throws {
    let wanted = states.merging(["stream": 0]) { first, _ in first }
    var last: [String: Int] = [:]
    for _ in 0..<300 {
      last = try await counts(scene, port)
      if last == wanted { return }
      try await Task.sleep(for: .milliseconds(20))
    }
    #expect(last == wanted)
  }

  @Test func `handshakes, idle clients, requests and tunnels are told apart, and add up`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), gate = Flag()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      guard let head = try wire.read(through: "\r\n\r\n") else { return }
      if String(decoding: head, as: UTF8.self).contains("websocket") {
        try wire.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        _ = try wire.readSome()
      } else {
        gate.wait()
        try wire.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nup")
      }
    }
    let tls = try scene.port(), plain = try scene.port(), behind = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(tls) ssl; server_name localhost; \(Cast.tls) location / { return 200 ok; } }
      server { listen 127.0.0.1:\(behind) proxy_protocol; location / { return 200 ok; } }
      server { listen 127.0.0.1:\(plain);
        location = /metrics { metrics; }
        location = /ok { return 200 ok; }
        location / { proxy_pass http://127.0.0.1:\(upstream.port); proxy_http_version 1.1;
          proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $http_connection; } }
      """)
    try await Self.has(["handshake": 0, "idle": 0, "active": 1, "tunnel": 0, "draining": 0], scene, plain)
    let wires = try await offPool {
      func request(_ path: String, _ fields: String = "") -> String {
        "GET \(path) HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n"
      }
      let silent = try Wire.dial(port: tls), hello = try Wire.dial(port: tls), header = try Wire.dial(port: behind)
      try hello.write([0x16, 0x03, 0x01, 0x02, 0x00, 0x01])
      try header.write("PROXY TCP4 ")
      let kept = try Wire.dial(port: plain)
      try kept.write(request("/ok"))
      #expect(try kept.read(through: "\r\n\r\nok") != nil)
      let fresh = try Wire.dial(port: plain)
      let half = try Wire.dial(port: plain), asked = try Wire.dial(port: plain), tunnel = try Wire.dial(port: plain)
      try half.write("GET / HTTP/1.1\r\nHo")
      try asked.write(request("/slow"))
      try tunnel.write(request("/", "Upgrade: websocket\r\nConnection: Upgrade\r\n"))
      #expect(try tunnel.read(through: "\r\n\r\n") != nil)
      return [silent, hello, header, kept, fresh, half, asked, tunnel]
    }
    try await Self.has(["handshake": 3, "idle": 2, "active": 3, "tunnel": 1, "draining": 0], scene, plain)
    gate.raise()
    try await Self.has(["handshake": 3, "idle": 3, "active": 2, "tunnel": 1, "draining": 0], scene, plain)
    wires.forEach { $0.close() }
    try await Self.has(["handshake": 0, "idle": 0, "active": 1, "tunnel": 0, "draining": 0], scene, plain)
    // A whole mutual-TLS session, over HTTP/2 where curl speaks it, leaves nothing behind.
    #expect(try await scene.curl(cast.to(tls) + cast.alice.curl + ["https://localhost/"]).status == 200)
    try await Self.has(["handshake": 0, "idle": 0, "active": 1, "tunnel": 0, "draining": 0], scene, plain)
  }
}
