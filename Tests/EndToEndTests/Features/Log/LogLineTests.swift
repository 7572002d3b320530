import Crypto
import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `What the logs say` {
  @Test(.ofHTTP1) func `a refused head is logged with the rule that it broke`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port)
    for (head, reason) in [
      ("GET /a HTTP/1.1\r\n\r\n", "no Host in an HTTP/1.1 request"),
      (
        "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "both Content-Length and"
      ),
      ("GET /a HTTP/2.0\r\nHost: h\r\n\r\n", "the version is other than HTTP/1.x"),
      ("GET /a HTTP/1.1\r\nHost: h\r\nBad : 1\r\n\r\n", "whitespace between a field name and its colon"),
    ] {
      _ = try await proxy.talk { wire in
        try wire.write(head)
        return try wire.readToEnd()
      }
      try await proxy.daemon.logged(
        "[info]", "client sent invalid request: \(reason)", "while reading client request headers, client: 127.0.0.1")
    }
    #expect(upstream.connections == 0)
  }

  @Test(.ofHTTP1) func `a head that never ends is a 408 with what is known of its request`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, http: "client_header_timeout 300ms;")
    for head in ["GET /who HT", "GET /known HTTP/1.1\r\nHost: h\r\n"] {
      let request = head.prefix { $0 != "\r\n" }
      let answer = try await proxy.talk { wire in
        try wire.write(head)
        return try wire.response().status
      }
      #expect(answer == 408)
      try await until("the access log's line") { scene.text("access.log").contains("\"\(request)\" 408 ") }
    }
    try await proxy.daemon.logged(
      "client timed out (110: Connection timed out) while reading client request headers, client: 127.0.0.1",
      "request: \"GET /known HTTP/1.1\"")
  }

  @Test(.ofHTTP1) func `a path that fills the line names no other client`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port); root \(scene.path("www")); }"))
    let forged = "/,%20client:%20192.0.2.6,%20server:%20forged,/"
    // A control character of the path has four characters in the line.
    let path = forged + String(repeating: "%01", count: 2600)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)\(path)"]).status == 404)
    try await daemon.logged("[error]", "open() \"", ", client: 192.0.2.6, server: forged", "…, client: 127.0.0.1, ")
  }

  private static let format =
    #"log_format f escape=none "$uri|$status|$upstream_status|$upstream_ssl_result|$upstream_ssl_spki|"#
    + #"$upstream_http_x_up|$upstream_cookie_c|$sent_trailer_x_sum|";"#

  @Test func `what an upstream said is known to the access log, also of a connection that is closed by then`()
    async throws
  {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let (port, upstream) = (try scene.port(), try scene.port())
    _ = try await NginxUpstream.secure(
      scene, upstream, certificate: "server",
      """
      location / { add_header X-Up yes; add_header Set-Cookie "b=1"; add_header Set-Cookie "C=2; Path=/"; return 200 ok; }
      """)
    let plain = try ScriptedUpstream.echo(scene)
    // Not the one that echoes: it would wait for the rest of a request.
    let deaf = try ScriptedUpstream(scene) { wire, _ in _ = try wire.readSome() }
    let server = try Certificate.loadAll(MaterialReference(path: scene.path("server.pem")))
    let pin = try #require(server.first.map { Pin.spelling(publicKeyDigest: $0.spkiSHA256) })
    _ = try await Sallyport.serve(
      scene,
      """
      \(Self.format)
      upstream kept { server 127.0.0.1:\(upstream); keepalive 8; }
      server { listen 127.0.0.1:\(port); access_log f.log f; proxy_ssl_name a.test;
        location /once { proxy_pass https://kept; proxy_ssl_trusted_certificate ca.pem; }
        location /kept { proxy_pass https://kept; \(PlainProxy.kept) proxy_ssl_trusted_certificate ca.pem; }
        location /bypin { proxy_pass https://kept; proxy_ssl_verify off; proxy_ssl_pin \(pin); }
        location /anybody { proxy_pass https://kept; proxy_ssl_verify off; }
        location /wrong { proxy_pass https://kept; proxy_ssl_verify off; proxy_ssl_pin ca.pem; }
        location /notls { proxy_pass https://127.0.0.1:\(deaf.port); proxy_ssl_verify off; }
        location /chunked { proxy_pass http://127.0.0.1:\(plain.port); proxy_http_version 1.1; }
      }
      """)
    for path in ["once", "kept", "bypin", "anybody", "wrong", "notls", "chunked/9"] {
      _ = try await scene.curl(["-H", "TE: trailers", "-H", "Connection: TE", "http://127.0.0.1:\(port)/\(path)"])
    }
    try await until("the lines") { scene.text("f.log").split(separator: "\n").count == 7 }
    let key = pin.dropFirst("sha256//".count)
    for line in [
      "/once|200|200|trusted|\(key)|yes|2||", "/kept|200|200|trusted|\(key)|yes|2||",
      "/bypin|200|200|trusted-by-pin|\(key)|yes|2||", "/anybody|200|200|unverified|\(key)|yes|2||",
      "/wrong|502|502|pin|\(key)||||", "/notls|502|502|incompatible|||||", "/chunked/9|200|200|||||9|",
    ] { #expect(scene.text("f.log").split(separator: "\n").contains(line[...]), "\(line)") }
  }

  @Test func `an attempt that timed out is a 504 in $upstream_status, one that nobody answered a 502`() async throws {
    let scene = try Scene.ofTest()
    let over = Flag()
    let slow = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.request()
      over.wait()
    }
    let (port, nobody) = (try scene.port(), try scene.port())
    _ = try await Sallyport.start(
      scene,
      configuration(
        """
        \(Self.format)
        upstream both { server 127.0.0.1:\(nobody); server 127.0.0.1:\(slow.port); }
        server { listen 127.0.0.1:\(port); access_log f.log f;
          location / { proxy_pass http://both; proxy_read_timeout 300ms; proxy_next_upstream_tries 2; } }
        """
      ).replacing("worker_processes 2", with: "worker_processes 1"))
    let result = try await scene.curl(["http://127.0.0.1:\(port)/"])
    over.raise()
    #expect(result.status == 504)
    try await until("the line") { !scene.text("f.log").isEmpty }
    #expect(scene.text("f.log").hasPrefix("/|504|502, 504|"), "\(scene.text("f.log"))")
  }

  @Test(.ofHTTP1) func `the bytes of a request are those that went out and came in, of each attempt`() async throws {
    let scene = try Scene.ofTest()
    let failing = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.request()
      try wire.answer("failed", status: "502 Bad Gateway", closing: true)
    }
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.request()
      try wire.answer("hello, world", closing: true)
    }
    let port = try scene.port()
    _ = try await Sallyport.start(
      scene,
      configuration(
        """
        log_format f '$bytes_sent|$body_bytes_sent|$upstream_bytes_sent|$upstream_response_length|$upstream_status';
        upstream both { server 127.0.0.1:\(failing.port); server 127.0.0.1:\(upstream.port); }
        server { listen 127.0.0.1:\(port); access_log f.log f;
          location /own/ { return 200 "own\\n"; }
          location / { proxy_pass http://both; proxy_next_upstream http_502 non_idempotent; } }
        """
      ).replacing("worker_processes 2", with: "worker_processes 1"))
    for target in ["/", "/own/"] {
      let came = try await scene.talk(port) { wire in
        try wire.write("POST \(target) HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc")
        return try wire.readToEnd().count
      }
      try await until("the record of \(target)") { scene.text("f.log").contains("\(came)|") }
      let record = scene.text("f.log").split(separator: "\n").last ?? ""
      let asked = [failing, upstream].map { "\($0.received[0].count)" }.joined(separator: ", ")
      #expect(record == (target == "/" ? "\(came)|12|\(asked)|0, 12|502, 200" : "\(came)|4|-|-|-"))
    }
  }

  @Test(.ofHTTP1) func `pin names its own option for a pass phrase`() async throws {
    let scene = try Scene.ofTest()
    let file = try scene.pkcs12("client", TestAuthority().client())
    let without = try await scene.sallyport("pin", file)
    #expect(without.status != 0)
    #expect(without.errors.contains("--password-file") && !without.errors.contains("ssl_password_file"))
    let words = try scene.write("words", text: IdentityFiles.password + "\n")
    #expect(try await scene.sallyport("pin", file, "--password-file", words).status == 0)
  }
}

@Suite(.stagedOverBoth) struct `Policies that are the same` {
  @Test func `locations that say the same of TLS share kept connections, one that differs does not`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let (port, upstream) = (try scene.port(), try scene.port())
    _ = try await NginxUpstream.secure(
      scene, upstream, certificate: "server", #"location / { return 200 "$connection "; }"#)
    let says = "proxy_ssl_trusted_certificate ca.pem; proxy_ssl_pin server.pem; proxy_ssl_name a.test;"
    _ = try await Sallyport.serve(
      scene,
      """
      upstream kept { server 127.0.0.1:\(upstream); keepalive 8; }
      server { listen 127.0.0.1:\(port); \(PlainProxy.kept)
        location /a { proxy_pass https://kept; \(says) }
        location /b { proxy_pass https://kept; \(says) }
        location /c { proxy_pass https://kept; \(says) proxy_ssl_verify_depth 2; } }
      """)
    let answers = try await scene.ask(port) { client in
      try ["/a", "/b", "/c", "/a"].map { try client.get($0).text }
    }
    try #require(answers.count == 4)
    #expect(answers[0] == answers[1] && answers[0] == answers[3] && answers[0] != answers[2], "\(answers)")
  }

  /// nginx as the other opinion. Where it differs it is the laxer: it goes by the last fault, and behind a purpose or
  /// depth that is wrong comes the missing anchor once more, which it excuses.
  @Test func `optional_no_ca excuses what nginx's does, and refuses what it refuses`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let (theirs, ours) = (try scene.port(), try scene.port())
    func block(_ port: UInt16) -> String {
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost;
        ssl_certificate \(scene.path("server.pem")); ssl_certificate_key \(scene.path("server.key"));
        ssl_client_certificate \(scene.path("ca.pem")); ssl_verify_client optional_no_ca;
        location / { return 200 "$ssl_client_verify"; } }
      """
    }
    _ = try await NginxUpstream.start(scene, ports: [theirs], block(theirs))
    _ = try await Sallyport.start(scene, configuration(block(ours)))
    let strangers = try TestAuthority("Strangers")
    for authority in [cast.authority, strangers] {
      for kind in TestAuthority.ClientKind.allCases {
        let client = try scene.identity("client", authority.client(kind))
        let nginx = try await scene.curl(cast.to(theirs) + client.curl + ["https://localhost/"])
        let sallyport = try await scene.curl(cast.to(ours) + client.curl + ["https://localhost/"])
        let isStranger = authority.root.certificate == strangers.root.certificate
        let isStricter = kind == .tooDeep || (isStranger && kind == .serverAuthOnly)
        #expect(sallyport.status == (isStricter ? 400 : nginx.status), "\(kind)")
        if nginx.status == 200, !isStricter {
          #expect(sallyport.text.prefix(7) == nginx.text.prefix(7), "\(kind)")
        }
      }
    }
  }
}
