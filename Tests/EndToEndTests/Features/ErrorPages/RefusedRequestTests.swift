import TestSupport
import Testing

/// Requests that no server block has admitted, or whose head was refused: error pages, `add_header … always`, variables and
/// the access log, beside nginx.
@Suite(.staged) struct `Requests that are refused before a location` {
  private static let log = """
    log_format known '$status|$request|$request_method|$uri|$args|$host|$request_uri'
      '|$server_name|$scheme|$code|$ssl_client_verify|$server_protocol';
    map $status $code { ~^4 client; 000 none; default other; }
    access_log known.log known;
    """

  /// The line of each request in turn, of sallyport and of nginx.
  private func lines(_ scene: Scene, _ count: Int) async throws -> (ours: [Substring], theirs: [Substring]) {
    func lines(_ file: String) -> [Substring] { scene.text(file).split(separator: "\n") }
    try await until("\(count) lines of both logs") {
      lines("known.log").count >= count && lines("twin/known.log").count >= count
    }
    return (lines("known.log"), lines("twin/known.log"))
  }

  private func compareLogs(_ scene: Scene, _ count: Int, sourceLocation: SourceLocation = #_sourceLocation) async throws
  {
    let (ours, theirs) = try await lines(scene, count)
    // Each worker writes its lines by itself, so those of two connections may come in either order.
    for (mine, yours) in zip(ours.sorted(), theirs.sorted()) { #expect(mine == yours, sourceLocation: sourceLocation) }
    #expect(ours.count == theirs.count, sourceLocation: sourceLocation)
  }

  private static func request(_ line: String, host: String, _ fields: String...) -> String {
    ([line, "Host: \(host)"] + fields + ["Connection: close"]).joined(separator: "\r\n") + "\r\n\r\n"
  }

  @Test func `plain HTTP on a port of TLS gets the page, the fields and the log of its Host`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let twin = try await NginxTwin(
      scene,
      """
      \(Self.log)
      server { listen LISTEN ssl; server_name a.test; \(Cast.tls)
        add_header X-A "$status [$https]" always;
        error_page 497 =307 https://$host$request_uri; error_page 400 /bad;
        location = /bad { return 200 "$status $uri"; }
        location / { return 200 a; } }
      server { listen LISTEN ssl; server_name b.test; \(Cast.tls(verify: "optional"))
        error_page 497 @plain; add_header X-B $status always;
        location @plain { return 200 "$status $uri $request_method $scheme [$ssl_client_verify] [$ssl_protocol]"; }
        location / { return 200 b; } }
      server { listen LISTEN ssl; server_name c.test; \(Cast.tls)
        error_page 497 301 https://c.test/?$status; location / { return 200 c; } }
      server { listen LISTEN ssl; server_name d.test; \(Cast.tls) add_header X-D $status always; }
      """)
    let requests = [
      Self.request("GET /x?y=1 HTTP/1.1", host: "a.test"), Self.request("HEAD /x HTTP/1.1", host: "b.test"),
      "GET /q HTTP/1.0\r\n\r\n", Self.request("DELETE /x HTTP/1.1", host: "unknown.test"),
      Self.request("GET /x HTTP/1.1", host: "a.test", "X Y: 1"),
      Self.request("POST /%41?y=1 HTTP/1.1", host: "b.test", "Content-Length: 3") + "abc",
      Self.request("GET /x?y=1 HTTP/1.1", host: "c.test"), Self.request("OPTIONS /x HTTP/1.1", host: "d.test"),
    ]
    for request in requests { try await twin.compare(request) }
    try await compareLogs(scene, requests.count)
    let log = scene.text("error.log")
    #expect(log.contains("[info]") && log.contains("client sent plain HTTP request to HTTPS port"), "\(log)")
  }

  @Test func `a client that was not admitted gets variables, fields and the log of its own block`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let stranger = try scene.identity("stranger", TestAuthority("Other").client())
    let twin = try await NginxTwin(
      scene,
      """
      \(Self.log)
      server { listen LISTEN ssl; server_name a.test; \(Cast.tls)
        add_header X-A "$status" always; error_page 495 496 /refused;
        location = /refused { internal; add_header X-Code "$status $code" always;
          if ($request_uri ~ ^/named) { return 403 "$status"; }
          return 200 "$status $request_uri $uri $request_method $code"; }
        location / { return 200 "ok $status $code"; } }
      server { listen LISTEN ssl; server_name b.test; ssl_certificate server.pem; ssl_certificate_key server.key;
        add_header X-B "$status" always; error_page 421 @misdirected;
        location @misdirected { rewrite ^/x/(.*)$ /found/$1; return 200 "$status $uri"; }
        location / { return 200 "ok $status"; } }
      server { listen LISTEN ssl; server_name c.test; \(Cast.tls) add_header X-C "$status" always; }
      """)
    func ask(_ port: UInt16, _ words: [String]) async throws -> String {
      let answer = try await scene.curl(["--http1.1"] + cast.to(port) + words)
      let fields = ["X-A", "X-B", "X-C", "X-Code"].map { answer[$0] ?? "-" }
      let text = answer.text.contains("<hr>") ? "page" : answer.text
      return "\(answer.status) \(fields) \(text)"
    }
    let asked = [
      ["https://a.test/x%41?y=1"], ["-d", "abc", "https://a.test/x?y=1"], ["https://a.test/named"],
      ["-X", "DELETE", "https://a.test/x"] + stranger.curl, ["https://c.test/x%41/../y?z=1"],
      ["-H", "Host: a.test", "https://b.test/x/y?z=1"], ["https://a.test/x"] + cast.alice.curl,
    ]
    for words in asked {
      let (mine, yours) = try await (ask(twin.ours, words), ask(twin.theirs, words))
      #expect(mine == yours, "\(words)")
    }
    // In nginx, $host of a misdirected request is the name that it asked for in vain only after its block was found.
    let (ours, theirs) = try await lines(scene, asked.count)
    func withoutHost(_ lines: [Substring]) -> [Substring] {
      lines.map { $0.replacing("|b.test|/x/", with: "|a.test|/x/") }
    }
    #expect(withoutHost(ours) == withoutHost(theirs))
  }

  @Test func `a head that is refused has its request line in the log, and what is known of it`() async throws {
    let scene = try Scene.ofTest()
    let twin = try await NginxTwin(
      scene,
      """
      \(Self.log)
      server { listen LISTEN; server_name a.test; add_header X-A "$status" always; location / { return 200 a; } }
      server { listen LISTEN; server_name b.test; add_header X-B "$status" always;
        error_page 400 405 494 /bad;
        location = /bad { return 200 "$status $request_uri $uri $code"; } }
      """)
    let long = String(repeating: "x", count: 9000)
    let requests = [
      Self.request("TRACE /t?q=1 HTTP/1.1", host: "a.test"), Self.request("TRACE /t?q=1 HTTP/1.1", host: "b.test"),
      Self.request("CONNECT /t HTTP/1.1", host: "a.test"),
      Self.request("POST /l?q=1 HTTP/1.1", host: "b.test", "Content-Length: x"),
      Self.request("POST /l?q=1 HTTP/1.1", host: "a.test", "Transfer-Encoding: x"),
      Self.request("GET /f?q=1 HTTP/1.1", host: "b.test", "X: \(long)"),
      "GET /n?q=1 HTTP/1.1\r\n\r\n", "GET /n HTTP/1.1\r\nHost: a/b\r\n\r\n",
    ]
    for request in requests { try await twin.compare(request) }
    try await compareLogs(scene, requests.count)
  }

  /// nginx says less of these: neither method nor target.
  @Test func `a line that is no request line is in the log as it came`() async throws {
    let scene = try Scene.ofTest()
    let twin = try await NginxTwin(
      scene, "\(Self.log) server { listen LISTEN; server_name a.test; location / { return 200 a; } }")
    let requests = [
      "get /x HTTP/1.1\r\n\r\n", "\u{16}\u{3}\u{1}\"junk\r\n\r\n", "GET x HTTP/1.1\r\n\r\n",
      "GET /v?q=1 HTTP/2.0\r\n\r\n", "GET /v HTTQ/1.1\r\n\r\n", "OPTIONS * HTTP/1.1\r\n\r\n",
      "GET /%zz HTTP/1.1\r\nHost: a.test\r\n\r\n", "GET /../x HTTP/1.1\r\nHost: a.test\r\n\r\n",
      "GET /" + String(repeating: "x", count: 9000) + " HTTP/1.1\r\nHost: a.test\r\n\r\n",
    ]
    for request in requests { try await twin.compare(request) }
    let (ours, theirs) = try await lines(scene, requests.count)
    func firstFields(_ lines: [Substring]) -> [[Substring]] { lines.map { Array($0.split(separator: "|").prefix(2)) } }
    #expect(firstFields(ours) == firstFields(theirs))
    #expect(ours[3].contains("|GET|/v|q=1|a.test|/v?q=1|") && ours[3].hasSuffix("|-"), "\(ours[3])")
  }

  @Test func `a refused head goes to no upstream as what it was`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); error_page 400 405 501 @other;
        location @other { proxy_pass http://127.0.0.1:\(upstream.port); } }
      """)
    let heads = [
      "TRACE /t HTTP/1.1\r\nCookie: secret", "POST /t HTTP/1.1\r\nTransfer-Encoding: x", "CONNECT /t HTTP/1.1",
    ]
    for line in heads {
      let answer = try await scene.talk(port) { wire in
        try wire.write("\(line)\r\nHost: h\r\n\r\n")
        return String(decoding: try wire.readToEnd(), as: UTF8.self)
      }
      #expect(answer.contains("X-Method: GET") && answer.contains("X-Target: /t"), "\(answer)")
    }
    #expect(!upstream.receivedText.contains("secret"))
  }

  /// The block that `Host` names has not admitted the client, so none of its locations may run for it.
  @Test func `a refused head runs no error page of a block that has not admitted its client`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name a.test; \(Cast.tls) error_page 405 /page;
        location = /page { return 200 secret; } }
      server { listen 127.0.0.1:\(port) ssl; server_name b.test;
        ssl_certificate server.pem; ssl_certificate_key server.key; location / { return 200 b; } }
      """)
    let trace = ["-X", "TRACE", "-H", "Host: a.test"]
    let stranger = try await scene.curl(cast.to(port) + trace + ["https://b.test/"])
    #expect(stranger.status == 405 && !stranger.text.contains("secret"), "\(stranger.text)")
    let alice = try await scene.curl(cast.to(port) + trace + cast.alice.curl + ["https://a.test/"])
    #expect(alice.status == 405 && alice.text == "secret", "\(alice.text)")
  }
}
