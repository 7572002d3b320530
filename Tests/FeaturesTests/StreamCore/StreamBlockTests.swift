import ConfigurationSupport
@testable import Features
@testable import Forward
import Language
import TLS
import TestSupport
import Testing
@testable import Traffic
import Upstream

/// The block `stream` as a configuration says it, and where `http` ends.
@Suite struct `The block stream` {
  private static func server(_ text: String) -> ServerSettings? {
    LoadedText.streamServer(text).settings?.http.servers.first
  }

  @Test func `it is a configuration of its own, and stands beside http`() throws {
    let alone = try #require(LoadedText("stream { server { listen 81; return a; } }").settings?.http)
    #expect(alone.servers.count == 1 && alone.listeners.map(\.kind) == [.stream])
    for order in [["http { server { listen 80; return 204; } }", "stream { server { listen 81; return a; } }"]] {
      for text in [order, order.reversed()] {
        let both = try #require(LoadedText(text.joined()).settings?.http)
        #expect(both.listeners.map(\.kind) == [.http, .stream])
        #expect(both.servers.map { $0.stream != nil } == [false, true])
        #expect(both.listeners.map(\.servers) == [[0], [1]])
      }
    }
  }

  @Test(arguments: [
    (
      "stream { }",
      "1:1 \"stream\" has no \"server\" block: it has nothing to pass"
        + " | server { listen 5433 ssl; proxy_pass db:5432; }"
    ),
    (
      "stream { server { return a; } }",
      "1:10 no \"listen\" is defined for server in stream | listen ADDRESS:PORT ssl;"
    ),
    (
      "stream { server { listen 81; proxy_pass a; } }",
      "1:41 no port in upstream in \"proxy_pass\" directive: \"a\" | proxy_pass ADDRESS:PORT; or an upstream's name"
    ),
    (
      "stream { upstream u { server a; } server { listen 81; proxy_pass u; } }",
      "1:30 no port in upstream \"a\" | server ADDRESS:PORT;"
    ),
    (
      "stream { server { listen 127.0.0.1; return a; } }",
      "1:26 no port in \"listen\" directive: \"127.0.0.1\" | ADDRESS:PORT"
    ),
    (
      "stream { server { listen 81 udp; return a; } }",
      "1:29 `listen … udp` is nginx's, but not supported here"
        + " | leave it out: sallyport passes connections of TCP and of unix sockets"
    ),
    ("stream { server { listen 81 http2; return a; } }", "1:29 invalid parameter \"http2\" in \"listen\" directive"),
    ("http { server { listen 80 udp; return 204; } }", "1:27 invalid parameter \"udp\" in \"listen\" directive"),
    (
      "stream { server { listen 81; location / { } return a; } }",
      "1:30 \"location\" directive is not allowed here | this is server in stream; it belongs in server, location of \"http\": connections of \"stream\" carry no requests"
    ),
    (
      "http { server { listen 80; return 204; } } stream { server { listen 80; return a; } }",
      "1:62 \"listen\" of http and of stream for 0.0.0.0:80"
        + " | an address serves one of them; the other line is at /etc/x.conf:1:17"
    ),
    (
      "stream { server { listen 81; ssl_verify_reject http; return a; } }",
      "1:48 invalid value \"http\" in \"ssl_verify_reject\" directive | it must be \"handshake\": a client of stream"
        + " that is refused gets a TLS alert: its protocol has no page for that"
    ),
    (
      "stream { server { listen 81; ssl_revoked_connections close; return a; } }",
      "1:30 \"ssl_revoked_connections\" directive is not allowed here | this is server in stream; it belongs in http, server"
    ),
    (
      "stream { upstream u { random two least_time=header; server a:1; } server { listen 81; proxy_pass u; } }",
      "1:34 invalid parameter \"least_time=header\""
        + " | least_conn, least_time=connect, least_time=first_byte or least_time=last_byte"
    ),
    (
      "stream { upstream u { least_time header; server a:1; } server { listen 81; proxy_pass u; } }",
      "1:34 invalid parameter \"header\" | connect, first_byte or last_byte"
    ),
    (
      "stream { upstream u { server a:1 route=a; } server { listen 81; proxy_pass u; } }",
      "1:34 invalid parameter \"route=a\""
        + " | weight=N, max_fails=N, fail_timeout=TIME, max_conns=N, slow_start=TIME, backup or down"
    ),
    (
      "stream { server { listen 81; access_log /x.log; return a; } }",
      "1:30 log format is not specified"
        + " | log_format NAME '$remote_addr $status $session_time'; and access_log /x.log NAME;"
    ),
  ])
  func `what can't be meant has its place`(text: String, problem: String) {
    #expect(LoadedText(text).problems == [problem])
  }

  /// As nginx since 1.25.5, which says nothing of it.
  @Test func `a server without content is told, and its sessions end with 500`() throws {
    #expect(
      LoadedText("stream { server { listen 81; } }").problems == [
        "1:10 warning: no handler for server: each of its connections ends with the status 500"
          + " | name what becomes of them: proxy_pass ADDRESS:PORT; or return TEXT; or pass ADDRESS:PORT;"
      ])
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig.stream("server { listen 127.0.0.1:1; }", scene)
    let client = try TCPClient(rig)
    #expect(client.heard().isEmpty && client.hasEnd)
    #expect(rig.accessLines(scene) == ["500"])
    #expect(scene.text("error.log").contains("no handler for server"))
  }

  @Test(arguments: ["combined", "json", "f"])
  func `a format of http is none in stream`(format: String) {
    let http = "http { log_format f $uri; server { listen 80; return 204; } }"
    let errors = LoadedText("\(http) stream { server { listen 81; access_log /x.log \(format); return a; } }").errors
    #expect(errors.count == 1 && errors.first?.contains("unknown log format \"\(format)\"") == true, "\(errors)")
  }

  @Test(arguments: [
    ("proxy_pass a:1;", "return a;"), ("proxy_pass a:1;", "pass 127.0.0.1:1;"), ("return a;", "pass 127.0.0.1:1;"),
  ])
  func `a server has one content`(first: String, second: String) {
    for (one, other) in [(first, second), (second, first)] {
      let names = [one, other].map { $0.prefix { $0 != " " } }
      #expect(
        LoadedText.streamServer("\(one)\n\(other)").errors == [
          "3:1 \"\(names[1])\" beside \"\(names[0])\": a server can have only one content handler"
            + " | use a separate server; \(names[0]) is at /etc/x.conf:2:1"
        ])
    }
    #expect(LoadedText.streamServer("\(first)\n\(first)").errors.count == 1)
  }

  @Test func `a server that refuses every handshake needs no content`() {
    let loaded = LoadedText("stream { server { listen 81 ssl; ssl_reject_handshake on; } }")
    #expect(loaded.problems == [] && loaded.settings != nil)
  }

  @Test func `rules apply before its return, so that no line warns of them`() {
    #expect(LoadedText.streamServer("deny all; return a;").problems == [])
    #expect(LoadedText.server("deny all; return 200 a;").problems.count == 1)
  }

  // MARK: Names of one block

  @Test(arguments: [
    "request", "uri", "host", "http_x", "arg_a", "cookie_c", "sent_http_x", "request_time", "upstream_status",
  ])
  func `a variable of a request is none in stream`(name: String) {
    #expect(
      LoadedText.streamServer("return $\(name);").problems == [
        "2:8 unknown \"\(name)\" variable | \"stream\" hasn't it: its connections carry no requests"
      ])
  }

  @Test(arguments: [
    "session_time", "bytes_received", "protocol", "ssl_preread_server_name", "upstream_first_byte_time",
  ])
  func `a variable of a session is none in http`(name: String) {
    let errors = LoadedText.server("return 200 $\(name);").errors
    #expect(errors.count == 1 && errors.first?.hasPrefix("2:12 unknown \"\(name)\" variable") == true, "\(errors)")
    #expect(LoadedText.streamServer("return $\(name);").problems == [])
  }

  @Test func `what a block defines, the other one doesn't know`() {
    let http = "http { map $uri $m { default 1; } upstream g { server a:1; } server { listen 80; return 204; } }"
    for (line, problem) in [
      ("return $m;", "unknown \"m\" variable"), ("proxy_pass g;", "no port in upstream"),
    ] {
      let errors = LoadedText("\(http) stream { server { listen 81; \(line) } }").errors
      #expect(errors.count == 1 && errors.first?.contains(problem) == true, "\(errors)")
    }
    let stream =
      "stream { map $remote_addr $m { default 1; } upstream g { server a:1; } server { listen 81; return a; } }"
    let errors = LoadedText("\(stream) http { server { listen 80; return 200 $m; } }").errors
    #expect(errors.count == 1 && errors.first?.contains("unknown \"m\" variable") == true, "\(errors)")
  }

  @Test func `both may use a name, each for its own`() throws {
    let loaded = LoadedText(
      """
      http { map $uri $m { default h; } upstream g { server 127.0.0.1:1; } log_format f $uri;
        server { listen 80; location / { proxy_pass http://g; } location /m { return 200 $m; } } }
      stream { map $remote_addr $m { default s; } upstream g { server 127.0.0.1:2; } log_format f $session_time;
        server { listen 81; proxy_pass g; } server { listen 82; return $m; } }
      """)
    #expect(loaded.problems == [])
    let http = try #require(loaded.settings?.http)
    #expect(http.groups.map(\.name) == ["g", "g"] && http.groups.map(\.isOfStream) == [false, true])
    guard case .group(1, .http)? = http.servers[1].root[UpstreamPass.self]?.target.upstream else {
      Issue.record("stream's server passes to http's group")
      return
    }
    #expect(http.computed.count == 2 && Set(http.slotNames.values) == ["m"])
  }

  @Test func `a zone of limit_conn belongs to the block that declares it`() {
    let errors = LoadedText(
      """
      http { limit_conn_zone $http_x zone=z:1m; server { listen 80; return 204; } }
      stream { server { listen 81; limit_conn z 1; return a; } }
      """
    ).errors
    #expect(
      errors == [
        "2:41 the shared memory zone \"z\" is already declared for a different use"
          + " | \"limit_conn\" needs a zone of \"limit_conn_zone\" in the same block, \"http\" or \"stream\""
      ])
    #expect(
      LoadedText(
        """
        http { limit_conn_zone $http_x zone=z:1m; server { listen 80; return 204; } }
        stream { limit_conn_zone $remote_addr zone=z:1m; server { listen 81; return a; } }
        """
      ).errors.first?.contains("is already bound to key \"$http_x\"") == true)
  }

  // MARK: TLS

  private static let tls =
    "stream { server { listen 81 ssl; ssl_certificate c.pem; ssl_certificate_key k.pem; return a; "

  @Test(arguments: [
    ("", AcceptedProtocols.any), ("ssl_alpn a bc;", .names(["a", "bc"])),
    ("starttls postgres;", .names(["postgresql"])),
    ("starttls postgres; ssl_alpn x;", .names(["x"])), ("starttls smtp;", .any),
  ])
  func `what ALPN may select`(line: String, expected: AcceptedProtocols) {
    let loaded = LoadedText("\(Self.tls) \(line) } }")
    #expect(loaded.settings?.http.servers.first?.tls?.protocols == expected, "\(loaded.problems)")
  }

  @Test func `ALPN of http stays that of HTTP`() {
    let loaded = LoadedText(
      "http { server { listen 443 ssl; ssl_certificate c.pem; ssl_certificate_key k.pem; return 204; } }")
    #expect(loaded.settings?.http.servers.first?.tls?.protocols == .http)
  }

  @Test func `a name of ALPN has 1 to 255 bytes`() {
    for name in ["''", String(repeating: "a", count: 256)] {
      let errors = LoadedText("\(Self.tls) ssl_alpn a \(name); } }").errors
      #expect(
        errors.count == 1 && errors.first?.hasSuffix("in \"ssl_alpn\" directive | 1 to 255 bytes (RFC 7301)") == true)
    }
    #expect(LoadedText("\(Self.tls) ssl_alpn \(String(repeating: "a", count: 255)); } }").problems == [])
  }

  @Test func `a client that is refused gets an alert`() {
    let text = "\(Self.tls) ssl_client_certificate ca.pem; ssl_verify_client on; } }"
    #expect(LoadedText(text).settings?.http.servers.first?.tls?.rejection == .handshake)
    let confirmed = LoadedText(text.replacing("} }", with: "ssl_verify_reject handshake; } }"))
    #expect(confirmed.settings != nil)
    #expect(confirmed.problems.allSatisfy { $0.contains("notice: \"ssl_verify_reject\" is taken and has no effect") })
  }

  @Test(arguments: [
    "ssl on;", "ssl_early_data on;", "ssl_buffer_size 4k;", "http2 on;", "keepalive 4;",
  ])
  func `what only requests have is no directive of stream`(line: String) {
    let errors = LoadedText.streamServer("return a; \(line)").errors
    #expect(errors.count == 1 && errors.first?.contains("directive is not allowed here") == true, "\(errors)")
  }

  // MARK: Settings

  @Test func `nginx's defaults hold`() throws {
    let settings = try #require(Self.server("return a;")?.stream)
    #expect(settings == StreamServerSettings())
    #expect(settings.proxyHeaderTimeout == 30_000 && settings.handshakeTimeout == 60_000 && settings.lifetime == 0)
    #expect(settings.preread.timeout == 30_000 && settings.preread.bufferSize == 16_384 && !settings.preread.isOn)
    let pass = try #require(Self.server("proxy_pass 127.0.0.1:1;")?.root[UpstreamPass.self])
    #expect(pass.tcp?.timeout == 600_000 && pass.timeouts.connect == 60_000 && pass.tcp?.bufferSize == 16_384)
    #expect(pass.retry.conditions != [] && pass.trust.tls == nil && pass.version == .tcp)
  }

  @Test func `a server inherits what stream says`() throws {
    let loaded = LoadedText(
      """
      stream { proxy_timeout 7s; proxy_half_close on; proxy_upload_rate 1k; ssl_handshake_timeout 3s;
        server { listen 81; proxy_pass 127.0.0.1:1; } server { listen 82; proxy_pass 127.0.0.1:1; proxy_timeout 8s; } }
      """)
    let servers = try #require(loaded.settings?.http.servers)
    let passes = servers.compactMap { $0.root[UpstreamPass.self]?.tcp }
    #expect(passes.map(\.timeout) == [7_000, 8_000] && passes.map(\.keepsHalfOpen) == [true, true])
    #expect(
      passes.allSatisfy { $0.uploadRate != nil } && servers.map { $0.stream?.handshakeTimeout } == [3_000, 3_000])
  }

  @Test(
    arguments: [
      ("least_time connect;", .leastTime(.connect, countsInFlight: false)),
      ("least_time first_byte inflight;", .leastTime(.firstByte, countsInFlight: true)),
      ("least_time last_byte;", .leastTime(.lastByte, countsInFlight: false)),
      ("random two least_time=connect;", .randomTwo(.connect)),
      ("random two least_time=first_byte;", .randomTwo(.firstByte)),
    ] as [(String, BalanceMethod)])
  func `a group compares the times of sessions`(line: String, method: BalanceMethod) throws {
    let loaded = LoadedText(
      "stream { upstream u { \(line) server a:1; server b:1; } server { listen 81; proxy_pass u; } }")
    #expect(loaded.problems == [])
    #expect(try #require(loaded.settings?.http.groups.first).method == method)
  }

  @Test func `proxy_ssl_alpn takes several names, variables, and "" for none`() throws {
    let tls = "proxy_pass a:1; proxy_ssl on; proxy_ssl_trusted_certificate ca.pem;"
    for (names, constant, count) in [("x y", ["x", "y"], 0), ("x $remote_addr", [], 2), (#""""#, [], 0)] {
      let pass = try #require(Self.server("\(tls) proxy_ssl_alpn \(names);")?.root[UpstreamPass.self])
      #expect(pass.trust.tls?.protocols == constant && pass.tcp?.offeredProtocols.count == count, "\(names)")
    }
  }

  @Test func `TLS to an upstream needs trust, as in http`() throws {
    #expect(
      LoadedText.streamServer("proxy_ssl on;\nproxy_pass a:1;").errors.first?.hasPrefix(
        "3:1 this TLS upstream has no trust settings") == true)
    let plain = LoadedText.streamServer("proxy_pass a:1;\nproxy_ssl_verify on;").problems
    #expect(
      plain == [
        "3:1 warning: \"proxy_ssl_verify\" has no effect: the connection to the upstream has no TLS"
          + " | proxy_ssl on;, for the proxy_pass at /etc/x.conf:2:1"
      ])
    let pass = try #require(
      Self.server("proxy_pass a:1; proxy_ssl on; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_alpn x y;")?
        .root[UpstreamPass.self])
    #expect(pass.trust.tls?.protocols == ["x", "y"] && pass.scheme == .https)
    #expect(pass.trust.name.constant == Array("a".utf8))
  }

  @Test func `no name is both refused and supported`() {
    for entry in foreignDirectives {
      #expect(
        Features.all.directives.table.families.flatMap(\.entries).allSatisfy { $0.name != entry.name }, "\(entry.name)")
    }
  }
}
