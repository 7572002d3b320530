import Foundation
import TestSupport
import Testing

@Suite(.stagedAlone) struct `Load` {
  /// A factor for the requests of each client: SALLYPORT_LOAD.
  static var scale: Double {
    ProcessInfo.processInfo.environment["SALLYPORT_LOAD"].flatMap(Double.init) ?? 1
  }
  /// 10 GiB down and 2 GiB up where SALLYPORT_BODIES is `full`.
  private static var isFull: Bool { ProcessInfo.processInfo.environment["SALLYPORT_BODIES"] == "full" }

  private static var isSanitized: Bool { ProcessInfo.processInfo.environment["SALLYPORT_SANITIZER"] != nil }

  struct Report: Decodable {
    let answers, bytes, upstreamConnections, connections: Int
    let faults: [String]
  }

  @Test func `64 clients with 1000 requests each are all answered, byte for byte`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let clients = 64, requests = max(1, Int(1000 * Self.scale))
    for index in 0..<4 { _ = try scene.identity("client\(index)", cast.authority.client(commonName: "client\(index)")) }
    let pattern = Pattern.bytes(7 << 20)
    try scene.write("pattern", pattern)
    try scene.makeFolder("files")
    for size in [0, 1, 1023, 1024, 4097, 16_384, 16_385, 65_537, 131_072, 1 << 20, 5 << 20] {
      try scene.write("files/\(size)", Array(pattern[(size % 4096)...].prefix(size)))
    }
    let echo = try await scene.listening(.echo)
    let (files, port) = try (scene.port(), scene.port())
    _ = try await NginxUpstream.start(
      scene, ports: [files],
      "server { listen 127.0.0.1:\(files); root \(scene.folder); access_log off; keepalive_requests 500; }")
    let daemon = try await Sallyport.serve(
      scene,
      """
      client_max_body_size 0; keepalive_requests 300;
      proxy_http_version 1.1; proxy_set_header Connection "";
      upstream files { server 127.0.0.1:\(files); keepalive 32; }
      upstream echo { server 127.0.0.1:\(echo); keepalive 32; }
      server {
        listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls)
        location /files/ { proxy_pass http://files; }
        location /echo/ { proxy_pass http://echo; proxy_set_header X-Client $ssl_client_s_dn_cn; }
      }
      """)
    let result = try await scene.python(
      .load, "\(port)", scene.folder, "\(clients)", "\(requests)", "\(UInt16.random(in: 0...9999))",
      within: .seconds(300))
    let report = try JSONDecoder().decode(Report.self, from: Data(result.output))
    #expect(report.faults == [], "\(result.errors)")
    #expect(report.answers == clients * requests)
    #expect(report.connections >= clients)
    // Kept connections were used: an upstream that is asked 32,000 times sees a few hundred of them.
    #expect(report.upstreamConnections < clients * requests / 20)
    try await until("the access log of all") {
      scene.bytes("access.log").count { $0 == 0x0A } >= report.answers
    }
    #expect(!daemon.errorLog.contains("[error]") && !daemon.errorLog.contains("[alert]"))
  }

  @Test(.disabled(if: isSanitized, "measures memory")) func `a body of gigabytes passes both ways in little memory`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let (down, up) = Self.isFull ? (10 << 30, 2 << 30) : (1 << 30, 512 << 20)
    for (name, size) in [("down", down), ("up", up)] {
      try scene.write(name, [])
      truncate(scene.path(name), size)
    }
    let sink = try await scene.listening(.sink)
    let (files, port) = try (scene.port(), scene.port())
    _ = try await NginxUpstream.start(
      scene, ports: [files], "server { listen 127.0.0.1:\(files); root \(scene.folder); sendfile on; }")
    let daemon = try await Sallyport.serve(
      scene,
      """
      client_max_body_size 0;
      server {
        listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls)
        location / { proxy_pass http://127.0.0.1:\(files); }
        location /up { proxy_pass http://127.0.0.1:\(sink); proxy_request_buffering off; }
        location /kept { proxy_pass http://127.0.0.1:\(sink); proxy_request_buffering on; }
      }
      """)
    func curl(_ arguments: String...) async throws -> String {
      try await scene.run(
        "curl",
        ["-q", "-sS", "--noproxy", "*", "--max-time", "600"] + cast.to(port) + cast.alice.curl + arguments,
        within: .seconds(600)
      ).everything
    }
    #expect(
      try await curl("-o", "/dev/null", "-w", "%{http_code} %{size_download}", "https://localhost/down")
        == "200 \(down)")
    #expect(try await curl("-H", "Expect:", "-T", scene.path("up"), "https://localhost/up") == "\(up)")
    #expect(try await curl("-H", "Expect:", "-T", scene.path("up"), "https://localhost/kept") == "\(up)")
    let peak = try #require(daemon.memory("VmHWM"))
    #expect(peak < 64 << 10, "\(peak) KiB at most")
  }

  @Test(.disabled(if: isSanitized, "measures memory"))
  func `a client that does not read stops the upstream, in little memory`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    try scene.write("down", [])
    truncate(scene.path("down"), 1 << 30)
    let (files, port) = try (scene.port(), scene.port())
    let nginx = try await NginxUpstream.start(
      scene, ports: [files],
      "server { listen 127.0.0.1:\(files); root \(scene.folder); send_timeout 1s; }")
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls)
        location / { proxy_pass http://127.0.0.1:\(files); } }
      """)
    let clients = try (0..<8).map { _ in try OpenSSLClient(scene, port: port, identity: cast.alice) }
    for client in clients { try client.wire.write("GET /down HTTP/1.1\r\nHost: localhost\r\n\r\n") }
    // nginx gives up on who takes nothing for a second: so each was stopped.
    try await until("nginx's sending to stop", within: .seconds(40)) {
      nginx.accessLog.split(separator: "\n").count == clients.count
    }
    let peak = try #require(daemon.memory("VmHWM"))
    #expect(peak < 64 << 10, "\(peak) KiB at most")
  }
}
