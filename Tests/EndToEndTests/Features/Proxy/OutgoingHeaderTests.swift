import TestSupport
import Testing

/// `proxy_protocol` towards upstreams.
@Suite(.staged) struct `The PROXY header for an upstream` {
  /// HAProxy with one frontend that expects a header and tells what the header says.
  private static func haproxy(_ scene: Scene, _ port: UInt16, _ bind: String = "") async throws {
    let folder = try scene.makeFolder("haproxy")
    let file = try scene.write(
      "haproxy/haproxy.cfg",
      text: """
        defaults
          mode http
          timeout client 60s
          timeout connect 60s
          timeout server 60s
        frontend f
          bind 127.0.0.1:\(port) accept-proxy \(bind)
          http-request return status 200 content-type text/plain lf-string "%[src] %[dst] %[dst_port]"

        """)
    let process = try ChildProcess(
      "haproxy", ["-db", "-f", file], in: folder, output: "\(folder)/stdout", errors: "\(folder)/stderr")
    scene.atEnd { process.stop() }
    scene.onFailure(show: "haproxy") { scene.text("haproxy/stderr") + scene.text("haproxy/stdout") }
    try await until("haproxy to listen") {
      if let ending = process.ending { throw ToolFailed(description: "haproxy: \(ending)") }
      return (try? Wire.dial(port: port)) != nil
    }
  }

  private static let realIP = "set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;"

  @Test func `is read by nginx and by HAProxy, plain and before TLS`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let (port, nginx, secret, proxy, proxyTLS) = try (
      scene.port(), scene.port(), scene.port(), scene.port(), scene.port()
    )
    let text = "$proxy_protocol_addr $proxy_protocol_server_addr $proxy_protocol_server_port"
    _ = try await NginxUpstream.start(
      scene, ports: [nginx, secret],
      """
      server { listen 127.0.0.1:\(nginx) proxy_protocol; location / { return 200 "\(text)"; } }
      server { listen 127.0.0.1:\(secret) ssl proxy_protocol; ssl_certificate \(scene.path("server.pem"));
        ssl_certificate_key \(scene.path("server.key")); location / { return 200 "\(text)"; } }
      """)
    let pem = scene.text("server.pem") + scene.text("server.key")
    try scene.write("both.pem", text: pem)
    try await Self.haproxy(scene, proxy)
    _ = proxyTLS
    let tls = "proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name localhost;"
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); \(Self.realIP) \(tls)
        location /nginx/1 { proxy_protocol on; proxy_pass http://127.0.0.1:\(nginx); }
        location /nginx/2 { proxy_protocol v2; proxy_pass http://127.0.0.1:\(nginx); }
        location /secret/1 { proxy_protocol on; proxy_pass https://127.0.0.1:\(secret); }
        location /secret/2 { proxy_protocol v2; proxy_pass https://127.0.0.1:\(secret); }
        location /haproxy/1 { proxy_protocol on; proxy_pass http://127.0.0.1:\(proxy); }
        location /haproxy/2 { proxy_protocol v2 certificate; proxy_pass http://127.0.0.1:\(proxy); }
      }
      """)
    _ = cast
    for path in ["/nginx/1", "/nginx/2", "/secret/1", "/secret/2", "/haproxy/1", "/haproxy/2"] {
      for (line, shown) in [
        ("192.0.2.7", "192.0.2.7 127.0.0.1 \(port)"), ("", "127.0.0.1 127.0.0.1 \(port)"),
        ("2001:db8::7", "2001:db8::7 ::ffff:127.0.0.1 \(port)"),
      ] {
        let result = try await scene.curl(["-H", "X-Forwarded-For: \(line)", "http://127.0.0.1:\(port)\(path)"])
        // HAProxy tells a mapped address as an IPv4 one.
        #expect(
          result.text.replacing("::ffff:", with: "") == shown.replacing("::ffff:", with: ""), "\(path) \(line)")
      }
    }
  }

  @Test func `tells of a verified client's certificate, and of no other's`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let stranger = try scene.identity("stranger", TestAuthority("Other").client(commonName: "alice"))
    let (port, plain, up) = try (scene.port(), scene.port(), scene.port())
    let shown =
      "$proxy_protocol_addr|$proxy_protocol_tlv_ssl_verify|$proxy_protocol_tlv_ssl_version|$proxy_protocol_tlv_ssl_cn"
    let headers = "add_header X-Hash $h; add_header X-Raw \"$proxy_protocol_tlv_0xe1\";"
    _ = try await Sallyport.serve(
      scene,
      """
      map $proxy_protocol_tlv_0xe0 $h { "" none; default some; }
      map $proxy_protocol_tlv_0xe1 $der { "" none; default some; }
      server { listen 127.0.0.1:\(up) proxy_protocol; location / { return 200 "\(shown)|$h|$der"; } }
      server { listen 127.0.0.1:\(plain); location / { proxy_protocol v2; proxy_pass http://127.0.0.1:\(up); } }
      server { listen 127.0.0.1:\(port) ssl; http2 on; server_name localhost; \(Cast.tls(verify: "optional_no_ca"))
        location / { proxy_protocol v2; proxy_pass http://127.0.0.1:\(up); }
        location /whole { proxy_protocol v2 certificate; proxy_pass http://127.0.0.1:\(up); }
      }
      """)
    _ = headers
    func ask(_ path: String, _ identity: [String]) async throws -> String {
      try await scene.curl(cast.to(port) + identity + ["https://localhost\(path)"]).text
    }
    #expect(try await ask("/", cast.alice.curl) == "127.0.0.1|0|TLSv1.3|alice|some|none")
    #expect(try await ask("/whole", cast.alice.curl) == "127.0.0.1|0|TLSv1.3|alice|some|some")
    #expect(try await ask("/", []) == "127.0.0.1|1|TLSv1.3||none|none")
    for path in ["/", "/whole"] {
      #expect(try await ask(path, stranger.curl) == "127.0.0.1|1|TLSv1.3||none|none")
    }
    #expect(try await scene.curl(["http://127.0.0.1:\(plain)/"]).text == "127.0.0.1||||none|none")
  }

  @Test func `two clients never share a connection that has one`() async throws {
    let scene = try Scene.ofTest()
    let (port, one, two) = try (scene.port(), scene.port(), scene.port())
    let answer = "location / { return 200 \"$proxy_protocol_addr $connection $connection_requests\"; }"
    _ = try await NginxUpstream.start(
      scene, ports: [one, two],
      """
      server { listen 127.0.0.1:\(one) proxy_protocol; \(answer) }
      server { listen 127.0.0.1:\(two) http2 proxy_protocol; \(answer) }
      """)
    _ = try await Sallyport.start(
      scene,
      configuration(
        """
        upstream one { server 127.0.0.1:\(one); keepalive 16; }
        upstream two { server 127.0.0.1:\(two); keepalive 16; }
        proxy_http_version 1.1; proxy_set_header Connection "";
        server { listen 127.0.0.1:\(port); \(Self.realIP)
          location /on/1 { proxy_protocol on; proxy_pass http://one; }
          location /v2/1 { proxy_protocol v2; proxy_pass http://one; }
          location /on/2 { proxy_protocol on; proxy_http_version 2; proxy_pass http://two; }
          location /v2/2 { proxy_protocol v2; proxy_http_version 2; proxy_pass http://two; }
        }
        """
      ).replacing("worker_processes 2", with: "worker_processes 1"))
    for path in ["/on/1", "/v2/1", "/on/2", "/v2/2"] {
      let texts = try await withThrowingTaskGroup(of: (String, String).self) { group in
        for client in (1...12).flatMap({ [$0, $0] }) {
          group.addTask {
            let arguments = ["-H", "X-Forwarded-For: 192.0.2.\(client)", "http://127.0.0.1:\(port)\(path)"]
            return ("192.0.2.\(client)", try await scene.curl(arguments).text)
          }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      var connections: [String: String] = [:]
      for (client, text) in texts {
        let words = text.split(separator: " ").map(String.init)
        #expect(text.hasPrefix("\(client) "), "\(path): \(text)")
        guard words.count > 1 else { continue }
        #expect(
          connections[words[1]] == nil, "\(path): \(words[1]) served \(connections[words[1]] ?? "") and \(client)")
        connections[words[1]] = client
      }
      #expect(connections.count == 24, "\(path)")
    }
  }

  @Test func `of a connection is the address that the request comes from, request by request`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      let header = try wire.read(through: "\r\n") ?? []
      try wire.serve { _ in try wire.answer(String(decoding: header, as: UTF8.self)) }
    }
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: "proxy_protocol on; \(Self.realIP)", kept: true)
    let texts = try await proxy.talk { wire in
      try (1...3).map { number in
        try wire.write("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.\(number):70\(number)\r\n\r\n")
        return try wire.response().text
      }
    }
    #expect(texts == (1...3).map { "PROXY TCP4 192.0.2.\($0) 127.0.0.1 70\($0) \(proxy.port)\r\n" })
    #expect(upstream.connections == 3)
  }

  @Test func `a health check's says that no client is behind it, and unix clients have no address`() async throws {
    let scene = try Scene.ofTest(), (port, up) = try (scene.port(), scene.port())
    _ = try await NginxUpstream.start(
      scene, ports: [up],
      "server { listen 127.0.0.1:\(up) proxy_protocol; location / { return 200 \"<$proxy_protocol_addr>\"; } }")
    _ = try await Sallyport.serve(
      scene,
      """
      upstream one { server 127.0.0.1:\(up); }
      upstream self { server unix:\(scene.path("s.sock")); }
      server { listen unix:\(scene.path("s.sock"));
        location /on { proxy_protocol on; proxy_pass http://127.0.0.1:\(up); }
        location /v2 { proxy_protocol v2; proxy_pass http://127.0.0.1:\(up); } }
      server { listen 127.0.0.1:\(port);
        location /on { proxy_pass http://self; }
        location /v2 { proxy_pass http://self; }
        location /a { proxy_protocol on; proxy_pass http://one; health_check mandatory; }
      }
      """)
    try await until("the first check to pass") {
      try await scene.curl(["http://127.0.0.1:\(port)/a"]).text == "<127.0.0.1>"
    }
    for path in ["/on", "/v2"] {
      let result = try await scene.curl(["http://127.0.0.1:\(port)\(path)"])
      #expect(result.status == 200 && result.text == "<>", "\(path)")
    }
  }
}
