import Crypto
import TestSupport
import Testing

@Suite(.staged) struct `Health checks` {
  @Test func `a server that turns bad gets no requests until it is good again`() async throws {
    let scene = try Scene.ofTest()
    let a = try await HealthUpstream.start(scene, "a", "200"), b = try await HealthUpstream.start(scene, "b", "200")
    let proxy = try await CheckedProxy(
      scene, [a.address, b.address], "proxy_pass http://app; health_check interval=50ms fails=2;")
    #expect(try await proxy.servers(of: 4) == ["a", "b"])
    try a.answer("503")
    try await proxy.until(a.address, isUp: false)
    let before = a.lines("request").count
    #expect(try await proxy.servers(of: 6) == ["b"] && a.lines("request").count == before)
    try await proxy.daemon.logged(
      "[error]", "upstream \"app\": server \(a.address) is down: 2 health checks in a row failed, the last one: ",
      "the status is 503")
    try b.answer("404")
    try await proxy.until(b.address, isUp: false)
    let refused = try await proxy.get()
    #expect(refused.status == 502)
    try await proxy.daemon.logged("no live upstreams while connecting to upstream")
    try a.answer("302")
    try await proxy.until(a.address, isUp: true)
    #expect(try await proxy.servers(of: 4) == ["a"])
    try await proxy.daemon.logged("[error]", "server \(a.address) is up again: health check passed")
    #expect(try await proxy.checks(a.address, "failed") >= 2)
    #expect(try await proxy.checks(a.address, "passed") >= 2)
  }

  @Test func `the request is of no client`() async throws {
    let scene = try Scene.ofTest(), a = try await HealthUpstream.start(scene, "a", "200")
    let proxy = try await CheckedProxy(
      scene, [a.address],
      """
      proxy_pass http://app/inner/; proxy_http_version 1.1;
      proxy_set_header X-Client $ssl_client_s_dn; proxy_set_header X-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Key k; health_check interval=50ms uri=/health?full=1;
      """)
    try await proxy.until(a.address, "passed", times: 1)
    let line = try #require(a.lines("check").first)
    #expect(line.hasPrefix("check GET /health?full=1 HTTP/1.1 "))
    #expect(
      line.contains(
        "[('X-Key', 'k'), ('Host', 'app'), ('User-Agent', 'sallyport-health-check'), ('Connection', 'close')]"),
      "\(line)")
  }

  @Test func `over TLS, a check has the location's pin and certificate`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let certified = try cast.authority.server(names: ["up.test"])
    _ = try scene.identity("up", certified)
    let pinned = try await HealthUpstream.start(scene, "pinned", "200", "up", "mutual")
    // The same name and CA, with another key.
    let other = try await HealthUpstream.start(scene, "other", "200", "server", "mutual")
    let proxy = try await CheckedProxy(
      scene, [pinned.address, other.address],
      """
      proxy_pass https://app; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_verify_name off;
      proxy_ssl_pin \(Pin.spelling(publicKeyDigest: certified.certificate.spkiSHA256));
      proxy_ssl_certificate alice.pem; proxy_ssl_certificate_key alice.key; health_check interval=50ms mandatory;
      """)
    try await proxy.until(pinned.address, isUp: true)
    try await proxy.until(other.address, "failed", times: 3)
    #expect(try await proxy.isUp(other.address) == false)
    #expect(try await proxy.servers(of: 4) == ["pinned"])
    #expect(other.lines("check").isEmpty && other.lines("request").isEmpty)
    #expect(pinned.lines("check").allSatisfy { $0.hasSuffix("'commonName': 'alice'}") })
    let line = try await proxy.daemon.logged("server \(other.address) is down")
    #expect(line.contains("pin") && line.contains("SSL handshaking"), "\(line)")
    try await proxy.daemon.logged("[notice]", "server \(pinned.address) is up: its first health check passed")
    let refused = try await proxy.metric("sallyport_upstream_handshakes_total", "result=\"pin\"")
    #expect(try #require(refused) >= 3)
  }

  @Test func `nginx as the upstream is judged by a match block, on another port and on a unix socket`() async throws {
    let scene = try Scene.ofTest()
    let good = try scene.port(), bad = try scene.port(), health = try scene.port()
    let socket = scene.path("up.sock")
    _ = try await NginxUpstream.start(
      scene, ports: [good, bad, health], sockets: [socket],
      """
      server { listen 127.0.0.1:\(good); default_type text/plain; return 200 "Welcome to good"; }
      server { listen 127.0.0.1:\(bad); default_type text/plain; return 200 "maintenance mode"; }
      server { listen 127.0.0.1:\(health); location / { return 204; } }
      server { listen unix:\(socket); default_type text/plain; return 200 "Welcome to unix"; }
      """)
    let proxy = try await CheckedProxy(
      scene, ["127.0.0.1:\(good)", "127.0.0.1:\(bad)", "unix:\(socket)"],
      "proxy_pass http://app; health_check interval=50ms match=welcome mandatory;",
      http: """
        match welcome { status 200; header Content-Type = text/plain; header ! Refresh; body ~ "^Welcome to"; }
        match empty { status 204; }
        upstream elsewhere { server 127.0.0.1:\(bad); }
        """,
      locations: "location /else { proxy_pass http://elsewhere; health_check port=\(health) match=empty mandatory; }")
    try await proxy.until("127.0.0.1:\(good)", isUp: true)
    try await proxy.until("unix:\(socket)", isUp: true)
    try await proxy.until("127.0.0.1:\(bad)", "failed", times: 2)
    #expect(try await proxy.servers(of: 6) == ["Welcome to good", "Welcome to unix"])
    try await proxy.daemon.logged("server 127.0.0.1:\(bad) is down", "the body doesn't match \"^Welcome to\"")
    // The check asks the other port, and requests go to the server's own.
    try await proxy.until("127.0.0.1:\(bad)", isUp: true, of: "elsewhere")
    #expect(try await proxy.get("/else").text == "maintenance mode")
  }

  @Test func `a reload keeps what is known of a server, and ends the check in progress`() async throws {
    let scene = try Scene.ofTest()
    let a = try await HealthUpstream.start(scene, "a", "503"), b = try await HealthUpstream.start(scene, "b", "200")
    let proxy = try await CheckedProxy(
      scene, [a.address, b.address], "proxy_pass http://app; health_check interval=50ms;")
    try await proxy.until(a.address, isUp: false)
    // From now on no check of `a` ends.
    try a.answer("hang")
    try await until("a check that hangs") { a.lines("hanging").count == 1 }
    try await proxy.reload()
    try await until("the end of that check") { a.lines("left").count == 1 }
    try await until("a check of the new generation") { a.lines("hanging").count == 2 }
    #expect(try await proxy.isUp(a.address) == false)
    #expect(try await proxy.servers(of: 6) == ["b"])
    #expect(proxy.daemon.errorLog.split(separator: "\n").count { $0.contains("is down") } == 1)
  }

  @Test func `one worker of several checks, one check at a time`() async throws {
    let scene = try Scene.ofTest()
    let slow = try await HealthUpstream.start(scene, "slow", "hang"),
      b = try await HealthUpstream.start(scene, "b", "200")
    let proxy = try await CheckedProxy(
      scene, [slow.address, b.address], "proxy_pass http://app; health_check interval=50ms mandatory;", workers: 4)
    try await proxy.until(b.address, "passed", times: 20)
    #expect(slow.lines("check").count == 1)
    // What one worker found out, all of them heed: none tries the server that waits for its first check.
    #expect(try await proxy.servers(of: 12) == ["b"])
    // The upstream's lines reach the test late on a busy machine.
    let passed = try await proxy.checks(b.address, "passed")
    try await until("the upstream to tell of as many checks") { b.lines("check").count >= passed }
    let asked = b.lines("check").count
    #expect(try await asked <= proxy.checks(b.address, "passed") + 2)
  }

  @Test func `an upstream that sends without end is cut`() async throws {
    let scene = try Scene.ofTest()
    let endless = try await HealthUpstream.start(scene, "endless", "endless")
    let drip = try await HealthUpstream.start(scene, "drip", "drip")
    let proxy = try await CheckedProxy(
      scene, [endless.address, drip.address],
      "proxy_pass http://app; proxy_read_timeout 500ms; health_check interval=50ms;")
    try await until("the end of a body without end") { !endless.lines("cut").isEmpty }
    try await proxy.until(endless.address, "passed", times: 1)
    // A byte now and then is no answer.
    try await proxy.until(drip.address, isUp: false)
    try await until("the end of the slow body") { !drip.lines("cut").isEmpty }
    try await proxy.daemon.logged("server \(drip.address) is down", "no whole response in proxy_read_timeout")
    #expect(try await proxy.isUp(endless.address) == true)
  }

  @Test func `a server that must wait for its first check gets nothing before`() async throws {
    let scene = try Scene.ofTest(), a = try await HealthUpstream.start(scene, "a", "hang")
    let proxy = try await CheckedProxy(
      scene, [a.address], "proxy_pass http://app; proxy_read_timeout 1s; health_check interval=50ms mandatory;")
    #expect(try await proxy.get().status == 502 && a.lines("request").isEmpty)
    try a.answer("200")
    try await proxy.until(a.address, isUp: true)
    #expect(try await proxy.get().text == "a")
  }
}

@Suite(
  .staged, .enabled("grpcio is not installed") { await Scene.succeeds(GRPCScripts.python, ["-c", "import grpc"]) })
struct `Health checks of gRPC` {
  @Test func `a server is up while it says SERVING`() async throws {
    let scene = try Scene.ofTest(), _ = try Cast(scene)
    let a = try await HealthUpstream.start(scene, "a", "0801", "tls", grpc: true)
    let proxy = try await CheckedProxy(
      scene, [a.address],
      """
      grpc_pass grpcs://app; grpc_ssl_trusted_certificate ca.pem; grpc_ssl_name localhost;
      health_check interval=50ms mandatory type=grpc grpc_service=test.Test;
      """)
    try await proxy.until(a.address, isUp: true)
    #expect(try await proxy.call() == "0")
    #expect(a.lines("check").first == "check 0a09746573742e54657374")
    for (answer, reason) in [
      ("0802", "it says NOT_SERVING"), ("0803", "it says SERVICE_UNKNOWN"), ("1001", "it says UNKNOWN"),
      ("08", "the message ends within a number"), ("fail 5", "its grpc-status is 5"),
      (String(repeating: "12", count: 70_000), "the response has more than 64 KiB"),
    ] {
      try a.answer(answer)
      try await proxy.until(a.address, isUp: false)
      #expect(try await proxy.call(message: nil) == "14", "\(reason)")
      try await proxy.daemon.logged("server \(a.address) is down: health check failed", reason)
      try a.answer("0801")
      try await proxy.until(a.address, isUp: true)
    }
  }

  @Test func `a server without the service is up where its status is said`() async throws {
    let scene = try Scene.ofTest()
    let a = try await HealthUpstream.start(scene, "a", "-", "none", grpc: true)
    let proxy = try await CheckedProxy(
      scene, [a.address], "grpc_pass grpc://app; health_check interval=50ms type=grpc grpc_status=12 mandatory;",
      http: "upstream strict { server \(a.address); }",
      locations: "location /strict/ { grpc_pass grpc://strict; health_check interval=50ms type=grpc; }")
    try await proxy.until(a.address, isUp: true)
    #expect(try await proxy.call() == "0")
    try await proxy.until(a.address, isUp: false, of: "strict")
    try await proxy.daemon.logged("upstream \"strict\": server \(a.address) is down", "its grpc-status is 12")
  }
}
