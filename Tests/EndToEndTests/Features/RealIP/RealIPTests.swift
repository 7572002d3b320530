import TestSupport
import Testing

/// `set_real_ip_from` and `listen … proxy_protocol`, beside nginx with the same server blocks.
@Suite(.staged) struct `Where the client is` {
  private static let variables =
    #"add_header V "$remote_addr|$remote_port|$realip_remote_addr|$proxy_add_x_forwarded_for|$proxy_protocol_addr|$proxy_protocol_port|$proxy_protocol_server_addr|$proxy_protocol_server_port" always;"#

  /// The server blocks, on four ports.
  private static func servers(_ ports: [UInt16]) -> String {
    """
    \(variables)
    server { listen 127.0.0.1:\(ports[0]);
      location /plain { return 200 a; }
      location /default { set_real_ip_from 127.0.0.0/8; allow 192.0.2.0/24; deny all; proxy_pass http://127.0.0.1:\(ports[1]); }
      location /xff { set_real_ip_from 127.0.0.1; set_real_ip_from 10.0.0.0/8; set_real_ip_from fc00::/7;
        real_ip_header X-Forwarded-For; proxy_pass http://127.0.0.1:\(ports[1]); }
      location /recursive { set_real_ip_from localhost; set_real_ip_from 10.0.0.0/8; set_real_ip_from fc00::/7;
        real_ip_header X-Forwarded-For; real_ip_recursive on; proxy_pass http://127.0.0.1:\(ports[1]); }
      location /everybody { set_real_ip_from 0.0.0.0/0; set_real_ip_from ::/0;
        real_ip_header X-Forwarded-For; real_ip_recursive on; proxy_pass http://127.0.0.1:\(ports[1]); }
      location /field { set_real_ip_from 127.0.0.1; real_ip_header CF-Connecting-IP; proxy_pass http://127.0.0.1:\(ports[1]); }
      location /stranger { set_real_ip_from 192.0.2.9; proxy_pass http://127.0.0.1:\(ports[1]); }
      location /unix { set_real_ip_from unix:; proxy_pass http://127.0.0.1:\(ports[1]); }
      location /noproxy { set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol; proxy_pass http://127.0.0.1:\(ports[1]); }
    }
    server { listen 127.0.0.1:\(ports[1]); add_header X-Up yes; location / { return 200 ok; } }
    server { listen 127.0.0.1:\(ports[2]); set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For; real_ip_recursive on;
      location / { set_real_ip_from 192.0.2.1; return 200 "early $remote_addr"; } }
    server { listen 127.0.0.1:\(ports[3]) proxy_protocol;
      location /believed { set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol; proxy_pass http://127.0.0.1:\(ports[1]); }
      location / { proxy_pass http://127.0.0.1:\(ports[1]); } }
    """
  }

  private static let lines: [[String]] = [
    [], ["X-Real-IP: 192.0.2.7"], ["X-Real-IP: 192.0.2.7:81"], ["X-Real-IP: [2001:db8::7]:82"],
    ["X-Real-IP: [2001:db8::7]"], ["X-Real-IP: unknown"], ["X-Real-IP: 192.0.2.1", "X-Real-IP: 192.0.2.2"],
    ["X-Forwarded-For: 192.0.2.7"], ["X-Forwarded-For: 192.0.2.1, 192.0.2.2"],
    ["X-Forwarded-For: 192.0.2.1, 10.1.1.1"], ["X-Forwarded-For: 192.0.2.1,10.1.1.1 , 10.2.2.2,,"],
    ["X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 10.1.1.1, 10.2.2.2"],
    ["X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: evil", "X-Forwarded-For: 10.1.1.1"],
    ["X-Forwarded-For: 192.0.2.1, evil, 10.1.1.1"], ["X-Forwarded-For: 192.0.2.1:9000, [fc00::1]:443"],
    ["X-Forwarded-For: ,192.0.2.1"], ["X-Forwarded-For: ,"], ["X-Forwarded-For:"], ["X-Forwarded-For: , 10.0.0.1"],
    ["X-Forwarded-For: 10.0.0.3, 10.0.0.2, 10.0.0.1"], ["X-Forwarded-For: 2001:db8::1"],
    ["X-Forwarded-For: ::ffff:192.0.2.1, ::ffff:10.0.0.1"], ["X-Forwarded-For: 192.0.2.1\t, 10.0.0.1"],
    ["X-Forwarded-For: 192.0.2.1;10.0.0.1"], ["X-Forwarded-For: 192.0.2.01, 10.0.0.1:0"],
    ["CF-Connecting-IP: 192.0.2.3"], ["cf-connecting-ip: 192.0.2.3, 192.0.2.4", "CF-Connecting-IP: 192.0.2.5"],
  ]

  private static let paths = [
    "/plain", "/default", "/xff", "/recursive", "/everybody", "/field", "/stranger", "/unix", "/noproxy",
  ]

  /// One connection's answer: status, the variables and the body.
  private static func ask(_ port: UInt16, _ first: [UInt8]) throws -> String {
    let wire = try Wire.dial(port: port)
    defer { wire.close() }
    try wire.write(first)
    let text = String(decoding: try wire.readToEnd(), as: UTF8.self)
    let head = text.split(separator: "\r\n").filter { $0.hasPrefix("HTTP/1.1 ") || $0.hasPrefix("V: ") }
    let body = text.split(separator: "\r\n\r\n", maxSplits: 1).dropFirst().first ?? ""
    let fields = head.map { $0.hasPrefix("HTTP") ? String($0.prefix(12)) : String($0) }
    return (fields + [head.first?.contains("200") == true ? String(body) : ""]).joined(separator: "\n")
  }

  private static func request(_ path: String, _ lines: [String]) -> [UInt8] {
    Array(
      (["GET \(path) HTTP/1.1", "Host: h", "Connection: close"] + lines + ["", ""]).joined(separator: "\r\n").utf8)
  }

  /// A source port differs by itself.
  private static func withoutPort(_ answer: String) -> String {
    answer.replacing(/127\.0\.0\.1\|\d{4,5}\|127\.0\.0\.1\|/, with: "127.0.0.1|PORT|127.0.0.1|")
  }

  private static func both(_ scene: Scene) async throws -> (ours: [UInt16], theirs: [UInt16]) {
    let ours = try (0..<4).map { _ in try scene.port() }, theirs = try (0..<4).map { _ in try scene.port() }
    _ = try await NginxUpstream.start(scene, ports: theirs, servers(theirs))
    _ = try await Sallyport.start(scene, configuration("\(servers(ours))"))
    return (ours, theirs)
  }

  @Test(.ofHTTP1) func `the client's address is nginx's for every line that proxies write`() async throws {
    let scene = try Scene.ofTest()
    let (ours, theirs) = try await Self.both(scene)
    var addresses: Set<String> = []
    for lines in Self.lines {
      for path in Self.paths {
        let expected = Self.withoutPort(try Self.ask(theirs[0], Self.request(path, lines)))
        let answer = Self.withoutPort(try Self.ask(ours[0], Self.request(path, lines)))
        #expect(answer == expected, "\(path) \(lines)")
        addresses.insert(answer)
      }
      let expected = Self.withoutPort(try Self.ask(theirs[2], Self.request("/", lines)))
      #expect(Self.withoutPort(try Self.ask(ours[2], Self.request("/", lines))) == expected, "the server's: \(lines)")
    }
    // The comparison is not one of empty answers.
    #expect(addresses.count > 40)
    #expect(addresses.contains { $0.contains("V: 192.0.2.1|9000|127.0.0.1|") })
  }

  private static let headers: [String] = [
    "PROXY TCP4 192.0.2.1 198.51.100.7 8080 443\r\n", "PROXY TCP6 2001:db8::1 ::1 1 65535\r\n",
    "PROXY TCP6 2001:DB8::1 ::1 0 1\r\n", "PROXY UNKNOWN\r\n", "PROXY UNKNOWN ffff:: x y z\r\n",
    "", "PROXY TCP4 192.0.2.1 198.51.100.7 65536 443\r\n", "PROXY TCP4 192.0.2.1 198.51.100.7 8080 443\n",
    "PROXY TCP5 192.0.2.1 198.51.100.7 8080 443\r\n", "PROXY TCP4 192.0.2.x 198.51.100.7 8080 443\r\n",
  ]

  @Test(.ofHTTP1) func `a header of the PROXY protocol gives nginx's variables, or ends the connection`() async throws {
    let scene = try Scene.ofTest()
    let (ours, theirs) = try await Self.both(scene)
    func compare(_ header: [UInt8], _ what: String) throws {
      for path in ["/believed", "/other"] {
        let bytes = header + Self.request(path, [])
        let expected = Self.withoutPort(try Self.ask(theirs[3], bytes))
        #expect(Self.withoutPort(try Self.ask(ours[3], bytes)) == expected, "\(path) \(what)")
      }
    }
    for header in Self.headers { try compare(Array(header.utf8), header) }
    for input in FuzzInput.all(of: "FuzzProxyProtocol") where input.name.contains("v2-") && !input.name.contains("tlv")
    {
      guard let length = input.bytes.dropFirst(15).first else { continue }
      try compare(Array(input.bytes.prefix(16 + Int(length))), input.name)
    }
    #expect(
      try Self.ask(ours[3], Array(Self.headers[0].utf8) + Self.request("/believed", [])).contains("V: 192.0.2.1|8080|"))
    #expect(
      scene.text("error.log").contains(
        "broken header: \"GET /believed HTTP/1.1\" while reading PROXY protocol, client: 127.0.0.1"))
    #expect(
      scene.text("nginx/error.log").contains("broken header: \"GET /believed HTTP/1.1"))
  }

  @Test(.ofHTTP1) func `TLVs are variables, and a header may come byte by byte, or too late`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      client_header_timeout 400ms;
      server { listen 127.0.0.1:\(port) proxy_protocol; location / {
        return 200 "$proxy_protocol_tlv_alpn|$proxy_protocol_tlv_0x01|$proxy_protocol_tlv_ssl_cn|$proxy_protocol_tlv_ssl_version|$proxy_protocol_tlv_ssl_verify|$proxy_protocol_tlv_netns"; } }
      """)
    func tlv(_ type: UInt8, _ value: [UInt8]) -> [UInt8] { [type, 0, UInt8(value.count)] + value }
    let inner = [7, 0, 0, 0, 0] + tlv(0x21, Array("TLSv1.3".utf8)) + tlv(0x22, Array("alice".utf8))
    let content = [192, 0, 2, 1, 198, 51, 100, 7, 1, 2, 3, 4] + tlv(1, Array("h2".utf8)) + tlv(0x20, inner)
    let header = [13, 10, 13, 10, 0, 13, 10, 0x51, 0x55, 0x49, 0x54, 10, 0x21, 0x11, 0, UInt8(content.count)] + content
    let wire = try Wire.dial(port: port)
    for byte in header { try wire.write([byte]) }
    try wire.write(Self.request("/", []))
    let answer = String(decoding: try wire.readToEnd(), as: UTF8.self)
    #expect(answer.hasSuffix("h2|h2|alice|TLSv1.3|0|"))
    let late = try Wire.dial(port: port)
    try late.write("PROXY TCP4 192.")
    #expect(try late.isClosedByPeer())
    try await daemon.logged(
      "client timed out (110: Connection timed out) while reading PROXY protocol, client: 127.0.0.1")
    let ended = try Wire.dial(port: port)
    try ended.write("PROXY TCP4 192.")
    ended.finishWriting()
    #expect(try ended.isClosedByPeer())
    try await daemon.logged("client closed connection while reading PROXY protocol")
  }

  @Test(.ofHTTP1) func `the TLS handshake follows the header, over both versions of HTTP`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl proxy_protocol; http2 on; \(Cast.tls)
        set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol;
        location / { return 200 "$remote_addr $proxy_protocol_addr $server_protocol $realip_remote_addr"; } }
      """)
    for version in ["--http1.1", "--http2"] {
      let answer = try await scene.curl([
        version, "-k", "--haproxy-protocol", "--cert", scene.path("alice.pem"), "--key", scene.path("alice.key"),
        "https://127.0.0.1:\(port)/",
      ])
      let spoken = version == "--http2" ? "HTTP/2.0" : "HTTP/1.1"
      #expect(answer.text == "127.0.0.1 127.0.0.1 \(spoken) 127.0.0.1", "\(answer.errors)")
    }
    #expect(try await scene.curl(["-k", "--http1.1", "https://127.0.0.1:\(port)/"]).exit == 35)
  }
}
