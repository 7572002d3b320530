import Bytes
import Compression
import TestSupport
import Testing

/// `gzip` beside nginx: which responses are compressed, and what their fields and their decompressed bodies are.
@Suite(.staged) struct `Compression beside nginx` {
  private static let accepting: [String] = [
    "gzip", "gzip, deflate, br", "deflate", "gzip;q=0", "gzip;q=0.5", "GZIP", "x-gzip", "br, gzip", "gzip;q=1.0",
    "gzip;q=1.5", "gzip;q=0.0001", "*", "gzip ;q=0.001, x", "identity", "gzi", "agzip", "a,gzip", "gzip;", "gzip;q",
    "gzip;x", "gzip; q=1", "gzip;Q=1,", "gzip;q=2", "gzip;q=0,gzip", "gzip x", "gzip;q=.5", "gzip;q=1.",
  ]

  private static func site(_ scene: Scene) throws -> String {
    let www = try scene.makeFolder("www")
    try scene.write("www/a.txt", text: String(repeating: "some text, ", count: 5000))
    try scene.write("www/a.css", text: "body { color: red; background: white }")
    try scene.write("www/a.html", text: "<p>some words, some words</p>")
    try scene.write("www/short.html", text: "short")
    try scene.write("www/a.bin", text: String(repeating: "x", count: 100))
    return www
  }

  private func request(_ path: String, _ fields: String...) -> NginxComparison.Request {
    NginxComparison.Request(path, ["--compressed"] + fields.flatMap { ["-H", $0] })
  }

  @Test func `files`() async throws {
    let scene = try Scene.ofTest(), www = try Self.site(scene)
    let beside = try await NginxComparison(
      scene,
      """
      include /etc/nginx/mime.types;
      server { listen PORT; gzip on;
        location /all/ { alias \(www)/; gzip_types *; gzip_vary on; gzip_comp_level 9; gzip_min_length 0; }
        location /some/ { alias \(www)/; gzip_types text/plain TEXT/css; gzip_min_length 38; gzip_proxied any; }
        location /html/ { alias \(www)/; gzip_vary on; gzip_http_version 1.0; }
        location /off/ { alias \(www)/; gzip off; gzip_vary on; }
        location /agent/ { alias \(www)/; gzip_types *; gzip_disable msie6 "crawler|b.t"; }
        location /if/ { root /nowhere; gzip off; if ($arg_x) { gzip on; } return 404 "some words that are many"; }
        location /return/ { default_type text/html; return 200 "some words that are many"; }
        location /page/ { root /nowhere; }
      }
      """)
    var requests: [NginxComparison.Request] = []
    for folder in ["all", "some", "html", "off"] {
      for name in ["a.txt", "a.css", "a.html", "short.html", "a.bin", "none"] {
        let path = "/\(folder)/\(name)"
        requests += [
          request(path, "Accept-Encoding: gzip"), request(path, "Accept-Encoding: br"),
          request(path, "Accept-Encoding: gzip", "Via: 1.1 x"),
          request(path, "Accept-Encoding: gzip", "Range: bytes=0-1"),
          request(path, "Accept-Encoding: br", "Range: bytes=0-1"),
          NginxComparison.Request(path, ["-I", "-H", "Accept-Encoding: gzip"]),
          NginxComparison.Request(path, ["--http1.0", "--compressed", "-H", "Accept-Encoding: gzip"]),
        ]
      }
    }
    requests += Self.accepting.map { request("/all/a.txt", "Accept-Encoding: \($0)") }
    requests += [
      "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)",
      "Mozilla/4.0 (compatible; MSIE 5.5)", "Mozilla/4.0 (compatible; MSIE 7.0)", "a Crawler", "bot", "MSIE 6.0",
      "Mozilla/4.0 (compatible; MSIE 5.0) Opera 7",
    ].map { request("/agent/a.txt", "Accept-Encoding: gzip", "User-Agent: \($0)") }
    requests += ["/return/", "/page/x", "/if/", "/if/?x=1"].map { request($0, "Accept-Encoding: gzip") }
    try await beside.expectSame(requests)
  }

  @Test func `files compressed earlier, and responses that are decompressed`() async throws {
    let scene = try Scene.ofTest(), www = try scene.makeFolder("www")
    let text = String(repeating: "some text, ", count: 5000), packed = try Self.compressed(text)
    for name in ["a.txt", "b.txt", "a.html"] { try scene.write("www/\(name)", text: text) }
    for name in ["a.txt.gz", "c.txt.gz"] { try scene.write("www/\(name)", packed) }
    _ = try scene.makeFolder("www/b.txt.gz")
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        let coding = request.target.hasSuffix("other") ? "br" : "GZIP"
        try wire.answer(
          bytes: packed, fields: ["Content-Encoding: \(coding)", "Content-Type: text/html", "ETag: \"x\""])
      }
    }
    let beside = try await NginxComparison(
      scene,
      """
      include /etc/nginx/mime.types;
      server { listen PORT; gzip on; gzip_min_length 0; gzip_types text/plain;
        location /on/ { alias \(www)/; gzip_static on; }
        location /vary/ { alias \(www)/; gzip_static on; gzip_vary on; gzip_http_version 1.0; gzip_proxied any; }
        location /always/ { alias \(www)/; gzip_static always; gzip_vary on; }
        location /both/ { alias \(www)/; gzip_static always; gunzip on; gzip_vary on; }
        location /un/ { gunzip on; gzip_vary on; proxy_pass http://127.0.0.1:\(upstream.port); }
        location /not/ { gunzip off; proxy_pass http://127.0.0.1:\(upstream.port); }
      }
      """)
    var requests: [NginxComparison.Request] = []
    for folder in ["on", "vary", "always", "both"] {
      for name in ["a.txt", "b.txt", "c.txt", "a.html", "a.txt.gz", "none", ""] {
        let path = "/\(folder)/\(name)"
        for fields in [
          ["Accept-Encoding: gzip"], ["Accept-Encoding: br"], ["Accept-Encoding: gzip", "Via: 1.1 x"],
          ["Accept-Encoding: gzip", "Range: bytes=2-5"], ["Range: bytes=2-5"],
        ] {
          let options = fields.flatMap { ["-H", $0] }
          requests.append(NginxComparison.Request(path, ["--compressed"] + options))
          requests.append(NginxComparison.Request(path, ["-I"] + options))
        }
        requests.append(NginxComparison.Request(path, ["--http1.0", "--compressed", "-H", "Accept-Encoding: gzip"]))
      }
    }
    for path in ["/un/x", "/un/other", "/not/x"] {
      for coding in ["gzip", "br", "gzip;q=0"] {
        requests.append(request(path, "Accept-Encoding: \(coding)"))
      }
    }
    try await beside.expectSame(requests)
  }

  private static func compressed(_ text: String) throws -> [UInt8] {
    let stream = try #require(GzipStream(level: 6, length: nil))
    var output = ByteBuffer()
    #expect(Array(text.utf8).withUnsafeBytes { stream.compress($0, .finish, to: &output) })
    return Array(output.readable)
  }

  @Test func `what gzip_proxied names, one by one`() async throws {
    let scene = try Scene.ofTest()
    let answers = [
      [], ["Expires: Sun, 06 Nov 1994 08:49:37 GMT"], ["Expires: Sun, 06 Nov 2044 08:49:37 GMT"], ["Expires: junk"],
      ["Cache-Control: no-cache"], ["Cache-Control: max-age=1, no-store"], ["Cache-Control: private"],
      ["Cache-Control: public"], ["Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"], ["ETag: \"x\""], ["ETag: x"],
      ["ETag: W/\"x\"", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"], ["Content-Encoding: br"],
      ["Cache-Control: no-cache", "Expires: Sun, 06 Nov 2044 08:49:37 GMT"], ["Content-Type: TEXT/HTML ; charset=x"],
    ]
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        let number = Int(request.target.drop { $0 != "n" }.dropFirst().prefix { $0.isNumber }) ?? 0
        let fields = answers.indices.contains(number) ? answers[number] : []
        let type = fields.contains { $0.hasPrefix("Content-Type") } ? [] : ["Content-Type: text/html"]
        let body = String(repeating: "<p>words</p>", count: 100)
        try wire.answer(body, fields: fields + type)
      }
    }
    let words = [
      "off", "expired", "no-cache", "no-store", "private", "no_last_modified", "no_etag", "auth", "any",
      "expired no-cache no-store private auth", "no_last_modified no_etag",
    ]
    let locations = words.enumerated().map { index, word in
      "location /\(index)/ { gzip_proxied \(word); proxy_pass http://127.0.0.1:\(upstream.port); }"
    }
    let beside = try await NginxComparison(
      scene, "server { listen PORT; gzip on; gzip_vary on; \(locations.joined(separator: "\n")) }")
    var requests: [NginxComparison.Request] = []
    for index in words.indices {
      for number in answers.indices {
        requests.append(request("/\(index)/n\(number)", "Accept-Encoding: gzip", "Via: 1.0 cache"))
      }
      requests.append(request("/\(index)/n4", "Accept-Encoding: gzip", "Via: 1.0 cache", "Authorization: Basic eDp5"))
    }
    requests += answers.indices.map { request("/0/n\($0)", "Accept-Encoding: gzip") }
    try await beside.expectSame(requests)
  }
}

/// `gzip` over both versions of HTTP: streams, ends, and the bodies that stay as they are.
@Suite(.stagedOverBoth) struct `Compressing responses` {
  private static let gzip = ["--compressed", "-H", "Accept-Encoding: gzip"]

  @Test func `a large body is whole, from an upstream and from a file`() async throws {
    let scene = try Scene.ofTest()
    let words = (0..<200_000).map { "\($0 &* 7919 % 100_003) " }.joined()
    _ = try scene.makeFolder("www")
    try scene.write("www/a.txt", text: String(words.prefix(1_000_000)))
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { _ in try wire.answer(words, fields: ["Content-Type: text/plain"]) }
    }
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      types { text/plain txt; }
      log_format r '$gzip_ratio $body_bytes_sent';
      server { listen 127.0.0.1:\(port); gzip on; gzip_types *; access_log ratio.log r;
        location / { proxy_pass http://127.0.0.1:\(upstream.port); }
        location /slow { limit_rate 2m; gzip_comp_level 9; proxy_pass http://127.0.0.1:\(upstream.port); }
        location /a.txt { root \(scene.path("www")); } }
      """)
    for path in ["/", "/slow"] {
      let answer = try await scene.curl(Self.gzip + ["http://127.0.0.1:\(port)\(path)"])
      #expect(
        answer.text == words && answer["Content-Encoding"] == "gzip" && answer["Content-Length"] == nil, "\(path)")
    }
    let file = try await scene.curl(Self.gzip + ["http://127.0.0.1:\(port)/a.txt"])
    #expect(file.text.utf8.count == 1_000_000 && file["ETag"]?.hasPrefix("W/\"") == true)
    try await until("three lines with ratios") {
      let lines = scene.text("ratio.log").split(separator: "\n")
      return lines.count == 3 && lines.allSatisfy { (Double($0.prefix { $0 != " " }) ?? 0) > 1.5 }
    }
  }

  @Test(.ofHTTP1) func `an event of a stream arrives before the next one is there`() async throws {
    let scene = try Scene.ofTest(), mayGoOn = Flag()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.request()
      try wire.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: one\n\n")
      mayGoOn.wait()
      try wire.write("data: two\n\n")
      wire.finishWriting()
    }
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); gzip on; gzip_types text/event-stream;
        location / { proxy_pass http://127.0.0.1:\(upstream.port); } }
      """)
    try await scene.talk(port) { wire in
      try wire.write(NginxTwin.get("/", "Accept-Encoding: gzip"))
      let head = String(decoding: try wire.read(through: "\r\n\r\n") ?? [], as: UTF8.self)
      #expect(head.contains("Content-Encoding: gzip"))
      // Until an empty stored block, at which a flush ends (RFC 1951 §3.2.4).
      var body: [UInt8] = []
      while !body.suffix(4).elementsEqual([0, 0, 0xFF, 0xFF]) {
        let line = String(decoding: try wire.read(through: "\r\n") ?? [], as: UTF8.self)
        guard let size = Int(line.filter { $0.isHexDigit }, radix: 16), size > 0 else { break }
        body += try wire.read(exactly: size)
        _ = try wire.read(exactly: 2)
      }
      #expect(body.suffix(4).elementsEqual([0, 0, 0xFF, 0xFF]))
      mayGoOn.raise()
      _ = try wire.readToEnd()
    }
  }

  @Test func `over TLS, what a client's identity is in stays as it is`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        let cookie = request.target == "/sets" ? ["Set-Cookie: a=b"] : []
        let transform = request.target == "/fixed" ? ["Cache-Control: no-transform"] : []
        try wire.answer(
          String(repeating: "text ", count: 100), fields: ["Content-Type: text/html"] + cookie + transform)
      }
    }
    _ = try scene.makeFolder("www")
    try scene.write("www/a.html", text: String(repeating: "text ", count: 100))
    let (port, plain) = (try scene.port(), try scene.port())
    _ = try await Sallyport.serve(
      scene,
      """
      gzip on; gzip_proxied any; gzip_vary on; types { text/html html; }
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; ssl_verify_client optional;
        ssl_certificate server.pem; ssl_certificate_key server.key; ssl_client_certificate ca.pem;
        location / { proxy_pass http://127.0.0.1:\(upstream.port); }
        location /a.html { root \(scene.path("www")); } }
      server { listen 127.0.0.1:\(plain); location / { proxy_pass http://127.0.0.1:\(upstream.port); } }
      """)
    func isCompressed(_ path: String, _ options: String...) async throws -> Bool {
      let answer = try await scene.curl(cast.to(port) + Self.gzip + options + ["https://localhost\(path)"])
      #expect(answer.text == String(repeating: "text ", count: 100) && answer["Vary"] == "Accept-Encoding", "\(path)")
      return answer["Content-Encoding"] == "gzip"
    }
    let identity = ["--cert", scene.path("alice.pem"), "--key", scene.path("alice.key")]
    #expect(try await isCompressed("/"))
    #expect(try await !isCompressed("/", identity[0], identity[1], identity[2], identity[3]))
    #expect(try await !isCompressed("/", "-H", "Cookie: a=b"))
    #expect(try await !isCompressed("/", "-H", "Authorization: Bearer x"))
    #expect(try await !isCompressed("/sets"))
    #expect(try await !isCompressed("/fixed"))
    #expect(try await isCompressed("/a.html", identity[0], identity[1], identity[2], identity[3]))
    // As without an identity: a compressed file has no ranges.
    #expect(try await isCompressed("/a.html", identity[0], identity[1], identity[2], identity[3], "-r", "0-9"))
    let open = try await scene.curl(Self.gzip + ["-H", "Cookie: a=b", "http://127.0.0.1:\(plain)/"])
    #expect(open["Content-Encoding"] == "gzip")
  }
}
