import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

/// A daemon with the API on a unix socket, in front of two servers that say their names.
private struct APIScene {
  let scene: Scene
  let cast: Cast
  let daemon: Sallyport
  let port: UInt16
  let secure: UInt16
  let servers: [ScriptedUpstream]
  let socket: String
  let text: String

  init(
    _ scene: Scene, group: String = "zone app 64k;", server: String = "", level: String = "info",
    environment: [String: String] = [:]
  ) async throws {
    self.scene = scene
    cast = try Cast(scene)
    servers = [try StreamlessUpstream.named(scene, "one"), try StreamlessUpstream.named(scene, "two")]
    (port, secure) = (try scene.port(), try scene.port())
    socket = scene.path("api.sock")
    text = configuration(
      """
      upstream app { \(group) server 127.0.0.1:\(servers[0].port); server 127.0.0.1:\(servers[1].port); }
      upstream plain { server 127.0.0.1:\(servers[0].port); }
      server { listen 127.0.0.1:\(port); location / { proxy_pass http://app; } location /plain { proxy_pass http://plain; } }
      server { listen 127.0.0.1:\(secure) ssl; server_name localhost; \(Cast.tls) location / { return 200 "in\\n"; }
        location /slow { proxy_pass http://app; } }
      server { listen unix:\(socket); \(server) location /api/ { api write=on; } location /read/ { api; } }
      """, level: level)
    daemon = try await Sallyport.start(scene, text, environment: environment)
  }

  func enter() async throws -> Int {
    try await scene.curl(cast.to(secure) + cast.alice.curl + ["https://localhost/"]).status
  }

  /// The answers of so many requests.
  func names(_ count: Int = 8) async throws -> [String] {
    var all: [String] = []
    for _ in 0..<count { all.append(try await scene.curl(["http://127.0.0.1:\(port)/"]).text) }
    return all
  }

  func api(_ path: String, _ words: String...) async throws -> CurlResult {
    try await scene.curl(["--unix-socket", socket, "http://localhost\(path)"] + words)
  }

  func ctl(_ words: String...) async throws -> ToolResult {
    try await scene.run(Sallyport.binary(), ["ctl"] + words + ["--socket", socket])
  }

  func id(_ index: Int) async throws -> Int {
    let list = try JSONSerialization.jsonObject(with: Data(try await api("/api/9/http/upstreams/app/servers").body))
    let servers = try #require(list as? [[String: Any]])
    return try #require(servers[index]["id"] as? Int)
  }
}

private enum StreamlessUpstream {
  static func named(_ scene: Scene, _ name: String) throws -> ScriptedUpstream {
    try ScriptedUpstream(scene) { wire, _ in
      while let _ = try? wire.read(through: "\r\n\r\n") {
        try wire.write("HTTP/1.1 200 OK\r\nContent-Length: \(name.utf8.count)\r\n\r\n\(name)")
      }
    }
  }
}

@Suite(.staged) struct `The API` {
  @Test func `what nginx Plus documents can be asked`() async throws {
    let api = try await APIScene(Scene.ofTest())
    #expect(try await api.api("/api/").text == "[1,2,3,4,5,6,7,8,9]\n")
    for path in [
      "nginx", "connections", "ssl", "workers", "http", "http/requests", "stream", "http/upstreams", "stream/upstreams",
      "sallyport", "processes", "slabs", "resolvers", "http/server_zones", "http/location_zones", "http/caches",
      "stream/server_zones", "stream/keyvals", "stream/limit_conns", "sallyport/errors",
    ] {
      let answer = try await api.api("/api/9/\(path)")
      #expect(answer.status == 200, "\(path)")
      #expect((try? JSONSerialization.jsonObject(with: Data(answer.body))) != nil, "\(path): \(answer.text)")
    }
    _ = try await api.names(4)
    let upstream = try await api.api("/read/9/http/upstreams/app").text
    #expect(upstream.contains("\"state\":\"up\"") && upstream.contains("\"zone\":\"app\""))
    for (path, code) in [
      ("/api/10/nginx", "UnknownVersion"), ("/api/9/x", "PathNotFound"),
      ("/api/9/http/upstreams/x", "UpstreamNotFound"),
      ("/api/9/http/upstreams/plain", "UpstreamNotFound"),
      ("/api/9/http/upstreams/app/servers/77", "UpstreamServerNotFound"),
    ] {
      let answer = try await api.api(path)
      #expect(answer.status == 404 && answer.text.contains("\"code\":\"\(code)\""), "\(path): \(answer.text)")
      #expect(answer.text.contains("\"request_id\":\""))
    }
  }

  /// nginx Plus's clients ask for what the lists name, and for each name in them.
  @Test func `each path that a list names can be asked`() async throws {
    let api = try await APIScene(Scene.ofTest())
    func names(_ path: String) async throws -> [String] {
      try JSONDecoder().decode([String].self, from: Data(try await api.api("/api/9/\(path)").body))
    }
    var paths: [String] = []
    for name in try await names("") { paths.append(name) }
    for kind in ["http", "stream", "sallyport"] { paths += try await names(kind).map { "\(kind)/\($0)" } }
    #expect(paths.count > 20, "\(paths)")
    for path in paths {
      let answer = try await api.api("/api/9/\(path)")
      #expect(answer.status == 200, "\(path): \(answer.text)")
    }
  }

  @Test func `a server block's requests are counted as a zone of its name`() async throws {
    let api = try await APIScene(Scene.ofTest())
    _ = try await api.names(4)
    let answer = try await api.api("/api/9/http/server_zones")
    let zones = try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: [String: Any]] ?? [:]
    let counts = zones.values.compactMap { ($0["responses"] as? [String: Any])?["2xx"] as? Int }
    #expect(counts.reduce(0, +) >= 4, "\(answer.text)")
    #expect(
      zones.values.compactMap { $0["processing"] as? Int }.reduce(0, +) == 1, "the question itself: \(answer.text)")
    #expect(try await api.api("/api/9/http/server_zones/nowhere").text.contains("ServerZoneNotFound"))
  }

  @Test func `the last errors are told to those who may change something, and to nobody else`() async throws {
    let api = try await APIScene(Scene.ofTest())
    try api.daemon.rewrite(api.text + "nonsense;")
    api.daemon.signal(SIGHUP)
    try await api.daemon.logged("nonsense")
    let told = try await api.ctl("errors")
    #expect(told.status == 0 && told.text.contains("nonsense"), "\(told.everything)")
    #expect(try await api.api("/read/9/sallyport/errors").status == 405)
  }

  @Test func `error logs write more for a time, which a reload keeps, and the log says for whom`() async throws {
    let api = try await APIScene(Scene.ofTest(), level: "notice")
    func disturb() async throws {
      #expect(try await api.scene.curl(["http://127.0.0.1:\(api.port)/", "-X", "G@T"]).status == 400)
    }
    let trace = "client sent invalid request"
    try await disturb()
    #expect(try await api.ctl("log-level").text.isEmpty)
    let told = try await api.ctl("log-level", "info", "--for", "2h")
    #expect(told.status == 0 && told.text == "info for 2 hours, by unix:\n", "\(told.everything)")
    try await api.daemon.logged("[notice]", "api: error logs take the level info for 2 hours, as unix: asked")
    #expect(!api.daemon.errorLog.contains(trace))
    api.daemon.signal(SIGHUP)
    try await api.daemon.logged("reconfigured: generation 2")
    try await disturb()
    try await api.daemon.logged("[info]", trace)
    #expect(try await api.ctl("log-level").text.hasPrefix("info for "))
    #expect(try await api.ctl("log-level", "--end").status == 0)
    try await api.daemon.logged("[notice]", "api: error logs take what error_log says again, as unix: asked")
    #expect(try await api.ctl("log-level").text.isEmpty)
    #expect(try await api.ctl("log-level", "--end").everything.contains("error logs take what error_log says"))
    // A time that ends by itself.
    #expect(try await api.ctl("log-level", "debug", "--for", "1s").status == 0)
    try await api.daemon.logged("again: the time that unix: asked for is over")
    #expect(try await api.api("/read/9/sallyport/log_level").text == "{}\n")
    let asked = try await api.api("/read/9/sallyport/log_level", "-d", #"{"level":"info","seconds":9}"#)
    #expect(asked.text.contains("MethodDisabled"), "\(asked.text)")
  }

  @Test func `a server is drained, taken down and weighed while it serves, and a reload keeps that`() async throws {
    let api = try await APIScene(Scene.ofTest())
    #expect(Set(try await api.names()) == ["one", "two"])
    let first = try await api.id(0), path = "/api/9/http/upstreams/app/servers/\(first)"
    // nginx's own example.
    let patched = try await api.api(path, "-X", "PATCH", "-d", #"{"down":true}"#)
    #expect(patched.status == 200 && patched.text.contains("\"down\":true"))
    #expect(Set(try await api.names()) == ["two"])
    api.daemon.signal(SIGHUP)
    try await api.daemon.logged("reconfigured: generation 2")
    #expect(Set(try await api.names()) == ["two"])
    #expect(try await api.api("/api/9/http/upstreams/app").text.contains("\"state\":\"down\""))
    // A line that says something else now is newer.
    try api.daemon.rewrite(
      api.text.replacing(
        "server 127.0.0.1:\(api.servers[0].port); server",
        with: "server 127.0.0.1:\(api.servers[0].port) weight=2; server"))
    api.daemon.signal(SIGHUP)
    try await api.daemon.logged("reconfigured: generation 3")
    #expect(Set(try await api.names()) == ["one", "two"])
    #expect(try await api.api(path, "-X", "PATCH", "-d", #"{"weight":7,"drain":false}"#).status == 200)
    #expect(try await api.names(16).count { $0 == "one" } == 14)
    try await api.daemon.logged("api: server 127.0.0.1:\(api.servers[0].port) of upstream \"app\" is changed: weight 7")
  }

  @Test func `the status page and the metrics show what was changed while it served`() async throws {
    let api = try await APIScene(
      Scene.ofTest(), server: "location = /status { status; } location = /metrics { metrics; }")
    let first = "127.0.0.1:\(api.servers[0].port)", second = "127.0.0.1:\(api.servers[1].port)"
    func series() async throws -> [String] {
      try await api.api("/metrics").text.split(separator: "\n").map(String.init)
        .filter { $0.hasPrefix("sallyport_upstream_server_override{") || $0.hasPrefix("sallyport_client_denials ") }
    }
    func name(_ server: String, _ setting: String) -> String {
      "sallyport_upstream_server_override{upstream=\"app\",server=\"\(server)\",setting=\"\(setting)\"}"
    }
    #expect(try await series() == ["sallyport_client_denials 0"])
    #expect(try await !api.api("/status").text.contains("Changed by the API"))
    let path = "/api/9/http/upstreams/app/servers/\(try await api.id(0))"
    _ = try await api.api(path, "-X", "PATCH", "-d", #"{"drain":true,"weight":3,"fail_timeout":"20s"}"#)
    let fingerprint = String(repeating: "ab", count: 32)
    #expect(try await api.ctl("deny", fingerprint, "1h").status == 0)
    let all = [
      "\(name(first, "drain")) 1", "\(name(first, "fail_timeout")) 20", "\(name(first, "weight")) 3",
      "sallyport_client_denials 1",
    ]
    #expect(try await series() == all)
    let page = try await api.api("/status").text
    for words in ["Changed by the API", ">drain<", ">weight 3<", ">fail_timeout 20s<", fingerprint, "denied until "] {
      #expect(page.contains(words), "\(words)")
    }
    let json = try await api.api("/status?format=json").text
    let drained = #""overrides":[{"upstream":"app","server":"\#(first)","setting":"drain","value":1}"#
    #expect(json.contains(drained), "\(json)")
    #expect(json.contains(#""denials":[{"fingerprint":"\#(fingerprint)","seconds":"#))
    // What is as the line says again is none, and a server that is removed is one.
    _ = try await api.api(path, "-X", "PATCH", "-d", #"{"drain":false,"weight":1,"fail_timeout":"10s"}"#)
    _ = try await api.api("/api/9/http/upstreams/app/servers/\(try await api.id(1))", "-X", "DELETE")
    #expect(try await series() == ["\(name(second, "removed")) 1", "sallyport_client_denials 1"])
  }

  @Test func `what may not be is refused, and changes nothing`() async throws {
    let api = try await APIScene(Scene.ofTest())
    let id = try await api.id(0), path = "/api/9/http/upstreams/app/servers/\(id)"
    let down = ["-X", "PATCH", "-d", #"{"down":true}"#]
    func answer(_ words: [String], _ target: String? = nil) async throws -> Int {
      try await api.scene.curl(["--unix-socket", api.socket, "http://localhost\(target ?? path)"] + words).status
    }
    #expect(try await answer(down, "/read/9/http/upstreams/app/servers/\(id)") == 405)
    #expect(try await answer(down + ["-H", "Origin: https://evil.example"]) == 403)
    #expect(try await answer(down + ["-H", "Sec-Fetch-Site: cross-site"]) == 403)
    #expect(try await answer(["-H", "Sec-Fetch-Site: same-site"]) == 403)
    // A name that somebody has led here (DNS rebinding) makes pages of the same origin.
    #expect(try await answer(down + ["-H", "Origin: http://localhost", "-H", "Sec-Fetch-Site: same-origin"]) == 403)
    #expect(try await answer(["-H", "Sec-Fetch-Site: same-origin"], "/read/9/http") == 403)
    #expect(try await answer(["-H", "Sec-Fetch-Site: none"], "/read/9/http") == 200)
    #expect(try await answer(["-X", "PATCH", "-d", #"{"down":1}"#]) == 400)
    #expect(try await answer(["-X", "PATCH", "-d", "{"]) == 415)
    #expect(try await answer(["-X", "PATCH", "-d", #"{"server":"127.0.0.1:1"}"#]) == 400)
    #expect(try await answer(["-X", "PATCH"]) == 415)
    #expect(try await answer(["-X", "DELETE"], "/api/9/http/upstreams/app") == 405)
    #expect(try await answer(["-X", "DELETE"], "/read/9/http/upstreams/app/servers/\(id)") == 405)
    #expect(try await answer(["-X", "PUT", "-d", "{}"]) == 405)
    #expect(try await answer(down, "/api/9/http/upstreams/plain/servers/0") == 404)
    #expect(try await answer(["-X", "PATCH", "-d", "@-"], path) == 415)
    let large = try await api.scene.curl(
      ["--unix-socket", api.socket, "http://localhost\(path)", "-X", "PATCH", "--data-binary", "@-"],
      input: [UInt8](repeating: 0x20, count: 100_000))
    #expect(large.status == 413)
    #expect(Set(try await api.names()) == ["one", "two"])
    // A user of this machine who is neither root nor the user that serves may not even look, where changes are possible.
    if geteuid() == 0 {
      chmod(api.scene.folder, 0o711)
      chmod(api.socket, 0o666)
      let stranger = try await api.scene.run(
        "setpriv",
        [
          "--reuid=nobody", "--regid=nogroup", "--clear-groups", "curl", "-s", "--unix-socket", api.socket,
          "http://localhost/api/9/",
        ])
      #expect(stranger.text.contains("may not use the API"))
    }
  }

  @Test func `a page of the server's own name may use the API, and a header makes nobody another user`() async throws {
    let scene = try Scene.ofTest()
    let api = try await APIScene(
      scene, server: "server_name ops.test; set_real_ip_from unix:; real_ip_header X-Real-IP;")
    let id = try await api.id(0)
    let page = ["-H", "Host: ops.test", "-H", "Origin: http://ops.test", "-H", "Sec-Fetch-Site: same-origin"]
    let patched = try await scene.curl(
      [
        "--unix-socket", api.socket, "http://localhost/api/9/http/upstreams/app/servers/\(id)", "-X", "PATCH", "-d",
        "{}",
      ] + page)
    #expect(patched.status == 200, "\(patched.text)")
    guard geteuid() == 0 else { return }
    chmod(scene.folder, 0o711)
    chmod(api.socket, 0o666)
    let stranger = try await scene.run(
      "setpriv",
      [
        "--reuid=nobody", "--regid=nogroup", "--clear-groups", "curl", "-s", "-H", "X-Real-IP: 127.0.0.1",
        "--unix-socket",
        api.socket, "http://localhost/api/9/",
      ])
    #expect(stranger.text.contains("may not use the API"))
  }

  @Test func `no way from TCP leads to an API that only its socket guards`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), upstream = try ScriptedUpstream.echo(scene)
    let ports = try (0..<4).map { _ in try scene.port() }, socket = scene.path("api.sock")
    _ = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        map $remote_addr $to { default unix:\(socket); }
        server { listen 127.0.0.1:\(ports[0]); pass $to; }
        server { listen 127.0.0.1:\(ports[1]) ssl; \(Cast.tls(verify: "off")) pass $to; }
        server { listen 127.0.0.1:\(ports[2]); proxy_pass unix:\(socket); }
        """,
        http: """
          upstream app { zone app 64k; server 127.0.0.1:\(upstream.port); }
          server { listen unix:\(socket); location /api/ { api write=on; } location /read/ { api; } }
          server { listen 127.0.0.1:\(ports[3]); location / { proxy_pass http://unix:\(socket); } }
          """))
    let path = "/api/9/http/upstreams/app/servers/0", patch = ["-X", "PATCH", "-d", #"{"down":true}"#]
    func ask(_ base: String, _ path: String, _ words: [String] = []) async throws -> CurlResult {
      try await scene.curl(words + (base.hasPrefix("https") ? cast.to(ports[1]) : []) + ["\(base)\(path)"])
    }
    let doors = [0, 2, 3].map { "http://127.0.0.1:\(ports[$0])" } + ["https://localhost"]
    for door in doors {
      for words in [[], patch] {
        let answer = try await ask(door, path, words)
        #expect(answer.status == 403 && answer.text.contains("may not use the API"), "\(door): \(answer.text)")
      }
      // What changes nothing shows itself to everybody whom the location lets in.
      #expect(try await ask(door, "/read/9/nginx").status == 200)
    }
    let own = try await scene.curl(["--unix-socket", socket, "http://localhost\(path)"] + patch)
    #expect(own.status == 200, "\(own.text)")
  }

  @Test func `a page's origin has a scheme, and a second line of it is none`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), port = try scene.port(), plain = try scene.port()
    let server = "location /api/ { api write=on; allow 127.0.0.1; deny all; }"
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls(verify: "off")) \(server) }
      server { listen 127.0.0.1:\(plain); server_name localhost; \(server) }
      """)
    func secure(_ fields: String...) async throws -> Int {
      try await scene.curl(
        cast.to(port) + fields.flatMap { ["-H", $0] } + ["-H", "Host: localhost", "https://localhost/api/9/nginx"]
      ).status
    }
    func clear(_ fields: String...) async throws -> Int {
      try await scene.curl(
        fields.flatMap { ["-H", $0] } + ["-H", "Host: localhost", "http://127.0.0.1:\(plain)/api/9/nginx"]
      ).status
    }
    #expect(try await secure("Origin: https://localhost", "Sec-Fetch-Site: same-origin") == 200)
    #expect(try await clear("Origin: http://localhost", "Sec-Fetch-Site: same-origin") == 200)
    #expect(try await secure("Origin: http://localhost") == 403)
    #expect(try await clear("Origin: https://localhost") == 403)
    for origin in [
      "localhost", "ftp://localhost", "null", "https://localhost:443", "https://localhost/", "https://LOCALHOST",
    ] {
      #expect(try await secure("Origin: \(origin)") == 403, "\(origin)")
    }
    #expect(try await secure("Origin: https://localhost", "Origin: https://evil.test") == 403)
    #expect(try await secure("Origin: https://localhost", "origin: https://localhost") == 403)
    #expect(try await secure("Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site") == 403)
    #expect(try await secure("Sec-Fetch-Site: none", "Sec-Fetch-Site: none") == 403)
  }

  @Test func `changes under load lose no request`() async throws {
    let api = try await APIScene(Scene.ofTest())
    let ids = [try await api.id(0), try await api.id(1)]
    let load = Task {
      try await api.scene.curl(["--fail-with-body", "-o", "/dev/null", "http://127.0.0.1:\(api.port)/[1-1500]"])
    }
    for round in 0..<20 {
      for (index, isDown) in [(0, round % 2 == 0), (1, round % 2 == 1)] {
        // One of them always serves.
        let body = #"{"down":\#(isDown),"weight":\#(1 + round % 5)}"#
        let other = #"{"down":false}"#
        _ = try await api.api("/api/9/http/upstreams/app/servers/\(ids[1 - index])", "-X", "PATCH", "-d", other)
        #expect(
          try await api.api("/api/9/http/upstreams/app/servers/\(ids[index])", "-X", "PATCH", "-d", body).status == 200)
      }
    }
    let result = try await load.value
    #expect(result.status == 200)
    #expect(!api.daemon.errorLog.contains("no live upstreams"))
  }

  @Test func `a client is seen, cut and denied, at every server and with a resumed session`() async throws {
    let api = try await APIScene(Scene.ofTest(), server: "location = /metrics { metrics; }")
    let certificate = try #require(Certificate.loadAll(MaterialReference(path: api.cast.alice.certificate)).first)
    let fingerprint = certificate.sha256.map { String(format: "%02x", $0) }.joined()
    func enter(_ words: [String] = []) async throws -> CurlResult {
      try await api.scene.curl(api.cast.to(api.secure) + api.cast.alice.curl + words + ["https://localhost/"])
    }
    #expect(try await enter().text == "in\n")
    // A connection that stays open.
    let pipe = Pipe()
    let idle = try ChildProcess(
      "openssl",
      ["s_client", "-connect", "127.0.0.1:\(api.secure)", "-servername", "localhost", "-quiet", "-no_ign_eof"]
        + api.cast.alice.openssl,
      in: api.scene.folder, input: .descriptor(pipe.fileHandleForReading.fileDescriptor),
      output: api.scene.path("idle.out"), errors: api.scene.path("idle.err"))
    api.scene.atEnd { idle.stop() }
    try await until("the client to be listed") {
      try await api.ctl("clients").text.contains("fingerprint=\(fingerprint)")
    }
    let listed = try await api.ctl("clients").text
    // `CN=alice,O=Example \\+ Sons,C=SE`
    let subject = certificate.subject.rfc2253
    #expect(listed.contains("\"\(subject)\""), "\(listed)")
    #expect(try await api.ctl("cut", "--subject", subject).text == "1 connections were cut\n")
    _ = try await idle.ended()
    #expect(try await api.ctl("cut", "--serial", certificate.serial).text == "0 connections were cut\n")
    #expect(try await enter().text == "in\n", "cut, not denied")

    let session = api.scene.path("session")
    func openssl(_ words: String...) async throws -> String {
      try await api.scene.run(
        "openssl",
        ["s_client", "-connect", "127.0.0.1:\(api.secure)", "-servername", "localhost", "-ign_eof"]
          + api.cast.alice.openssl + words,
        input: Array("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
      ).text
    }
    #expect(try await openssl("-sess_out", session).contains("200 OK"))
    #expect(try await api.ctl("deny", fingerprint, "1h").text.hasPrefix("denied for 1 hour; "))
    #expect(try await enter().status == 400)
    #expect(try await openssl("-sess_in", session).contains("400 Bad Request"))
    api.daemon.signal(SIGHUP)
    try await api.daemon.logged("reconfigured: generation 2")
    #expect(try await enter().status == 400, "a reload keeps it")
    #expect(try await api.ctl("denials").text.contains(fingerprint))
    try await api.daemon.logged("the client's certificate is denied by the API")
    #expect(try await api.ctl("allow", fingerprint).status == 0)
    #expect(try await enter().text == "in\n")
    #expect(try await api.ctl("allow", fingerprint).everything.contains("this fingerprint is not denied"))
    // SHA-1, as $ssl_client_fingerprint has it.
    #expect(try await api.ctl("deny", certificate.sha1Fingerprint, "1h").status == 0)
    #expect(try await enter().status == 400)
    let page = try await api.api("/metrics").text
    #expect(page.contains("sallyport_client_refusals_total{reason=\"denial\"} 4\n"))
    #expect(page.contains("sallyport_client_refusals_total{reason=\"certificate\"} 0\n"))
  }

  @Test func `a denial outlives the replacement of the process, also without a state directory`() async throws {
    let scene = try Scene.ofTest(), api = try await APIScene(scene)
    let fingerprint = api.cast.alice.certified.certificate.sha256.map { String(format: "%02x", $0) }.joined()
    #expect(try await api.ctl("deny", fingerprint, "2h").status == 0)
    #expect(try await api.ctl("set", "app", "127.0.0.1:\(api.servers[0].port)", "down").status == 0)
    let former = api.daemon.process.identifier
    api.daemon.signal(SIGUSR2)
    let fresh = try await waiting(for: "the pid file of the new process") {
      pid_t(scene.text("sallyport.pid").trimmingCharacters(in: .whitespacesAndNewlines)).flatMap {
        $0 == former ? nil : $0
      }
    }
    scene.atEnd { kill(fresh, SIGKILL) }
    _ = try await api.daemon.process.ended()
    #expect(try await api.enter() == 400)
    #expect(try await api.ctl("denials").text.contains(fingerprint))
    // What is not handed over is named.
    try await api.daemon.logged(
      "[warn]", "forgotten with this process, no state keeps it: the change of server 127.0.0.1:\(api.servers[0].port)",
      "set down")
  }

  @Test func `a denial outlives a restart in the state directory, and a broken one stops a start`() async throws {
    let scene = try Scene.ofTest(), folder = try scene.makeFolder("state")
    let environment = ["STATE_DIRECTORY": folder]
    let api = try await APIScene(scene, environment: environment)
    let fingerprint = api.cast.alice.certified.certificate.sha256.map { String(format: "%02x", $0) }.joined()
    #expect(try await api.ctl("deny", fingerprint, "2h").status == 0)
    #expect(scene.text("state/denials").hasPrefix("\(fingerprint) "))
    func end(_ daemon: Sallyport) async throws {
      daemon.signal(SIGTERM)
      _ = try await daemon.process.ended()
    }
    try await end(api.daemon)
    let next = try await Sallyport.start(scene, api.text, environment: environment)
    #expect(try await api.enter() == 400)
    #expect(try await api.ctl("allow", fingerprint).status == 0)
    #expect(scene.text("state/denials").isEmpty)
    #expect(try await api.enter() == 200)
    try await end(next)
    try scene.write("state/denials", text: "half")
    let broken = try Sallyport(scene, api.text, environment: environment)
    #expect(try await broken.process.ended() == .exited(78))
    #expect(broken.errors.contains("which keeps the denials of the API, can't be read"), "\(broken.errors)")
  }

  @Test func `pairs of a keyval zone are looked up by the next request of any worker`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port(), socket = scene.path("api.sock")
    let daemon = try await Sallyport.serve(
      scene,
      """
      keyval_zone zone=tenants:32k; keyval_zone zone=short:32k timeout=1h; keyval $arg_k $tenant zone=tenants;
      keyval $arg_k $other zone=short;
      server { listen 127.0.0.1:\(port); return 200 "$tenant/$other\\n"; }
      server { listen unix:\(socket); location /api/ { api write=on; } }
      """)
    func get(_ key: String) async throws -> String { try await scene.curl(["http://127.0.0.1:\(port)/?k=\(key)"]).text }
    func api(_ words: String..., path: String = "tenants") async throws -> CurlResult {
      try await scene.curl(["--unix-socket", socket, "http://localhost/api/9/http/keyvals/\(path)"] + words)
    }
    #expect(try await get("a") == "/\n")
    // nginx's own examples.
    #expect(try await api("-d", #"{"a":"one"}"#).status == 201)
    #expect(try await api("-d", #"{"a":"two"}"#).text.contains("KeyvalKeyExists"))
    for _ in 0..<8 { #expect(try await get("a") == "one/\n") }
    #expect(try await api("-X", "PATCH", "-d", #"{"a":"zw\"ei"}"#).status == 204)
    #expect(try await get("a") == "zw\"ei/\n")
    #expect(try await api("-X", "PATCH", "-d", #"{"b":"x"}"#).text.contains("KeyvalKeyNotFound"))
    #expect(try await api("-d", #"{"a":{"value":"s","expire":3600000}}"#, path: "short").status == 201)
    #expect(try await get("a") == "zw\"ei/s\n")
    #expect(try await api().text == "{\"a\":\"zw\\\"ei\"}\n")
    #expect(try await api(path: "tenants?key=a").text == "{\"a\":\"zw\\\"ei\"}\n")
    #expect(try await api(path: "tenants?key=c").status == 404)
    #expect(try await api(path: "x").text.contains("KeyvalNotFound"))
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    #expect(try await get("a") == "zw\"ei/s\n", "a reload keeps them")
    #expect(try await api("-X", "PATCH", "-d", #"{"a":null}"#).status == 204)
    #expect(try await get("a") == "/s\n")
    for body in ["{}", #"{"a":"1","b":"2"}"#, #"{"a":1}"#, #"{"":"x"}"#, #"{"a":{"expire":1}}"#] {
      #expect(try await api("-d", body).status == 400, "\(body)")
    }
    // A full zone takes no further pair, and keeps those that it has.
    var count = 0
    while try await api("-d", "{\"k\(count)\":\"\(String(repeating: "v", count: 4000))\"}").status == 201 { count += 1 }
    #expect((6...8).contains(count))
    #expect(try await get("k0").hasPrefix("vvv"))
    #expect(try await api("-X", "DELETE").status == 204)
    #expect(try await api().text == "{}\n")
  }

  @Test func `servers are added and removed while requests go on, and a reload keeps that`() async throws {
    let api = try await APIScene(Scene.ofTest(), group: "zone app 64k; least_conn;")
    let third = try StreamlessUpstream.named(api.scene, "three"), path = "/api/9/http/upstreams/app/servers"
    // nginx's own example.
    let added = try await api.api(path, "-d", "{\"server\":\"127.0.0.1:\(third.port)\",\"weight\":4,\"max_conns\":9}")
    #expect(
      added.status == 201 && added.text.contains("\"weight\":4") && added.text.contains("\"id\":2"), "\(added.text)")
    #expect(Set(try await api.names(12)) == ["one", "two", "three"])
    for (body, status) in [
      ("{\"server\":\"127.0.0.1:\(third.port)\"}", 409), (#"{"server":"app.example.com:80"}"#, 400), ("{}", 400),
      (#"{"server":"127.0.0.1:99999"}"#, 400), (#"{"server":"127.0.0.1:80","port":1}"#, 400),
      (#"{"server":"127.0.0.1:80","backup":1}"#, 400), (#"{"server":"127.0.0.1:80","weight":0}"#, 400),
      (#"{"server":"127.0.0.1:80","route":"a b"}"#, 400), (#"[]"#, 415),
    ] {
      let answer = try await api.api(path, "-d", body)
      #expect(answer.status == status, "\(body): \(answer.text)")
    }
    #expect(try await api.api("/read/9/http/upstreams/app/servers", "-d", "{}").status == 405)
    #expect(try await api.api("/api/9/http/upstreams/plain/servers", "-d", "{}").status == 404)
    let removed = try await api.api("\(path)/0", "-X", "DELETE")
    #expect(removed.status == 200 && !removed.text.contains("\"id\":0") && removed.text.contains("\"id\":2"))
    #expect(Set(try await api.names(12)) == ["two", "three"])
    #expect(try await api.api("\(path)/0", "-X", "DELETE").status == 404)
    api.daemon.signal(SIGHUP)
    try await api.daemon.logged("reconfigured: generation 2")
    #expect(Set(try await api.names(12)) == ["two", "three"])

    let running = try await api.scene.run(Sallyport.binary(), ["check", "--running", "--socket", api.socket])
    #expect(running.status == 1)
    #expect(running.text.contains("a server is added by the API: app 127.0.0.1:\(third.port) up weight=4"))
    #expect(running.text.contains("a server is removed by the API: app 127.0.0.1:\(api.servers[0].port)"))
    #expect(try await api.ctl("remove", "app", "127.0.0.1:\(third.port)").text.contains("\(api.servers[1].port) up"))
    let own = "127.0.0.1:\(api.servers[0].port)"
    #expect(try await api.ctl("add", "app", own, "backup", "fail_timeout=3s").text.contains("\(own) up weight=1"))
    #expect(try await api.ctl("add", "app", own).everything.contains("has a server with this address"))
    #expect(try await api.ctl("add", "nowhere", own).everything.contains("no group \"nowhere\" with a zone"))
    #expect(Set(try await api.names(8)) == ["two"])
  }

  @Test func `a state keeps the servers over restarts, and is empty at first`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port(), socket = scene.path("api.sock")
    let servers = [try StreamlessUpstream.named(scene, "one"), try StreamlessUpstream.named(scene, "two")]
    try scene.makeFolder("kept")
    let text = configuration(
      """
      upstream app { zone app 64k; state kept/servers; }
      keyval_zone zone=names:32k state=kept/pairs type=prefix; keyval $uri $name zone=names;
      server { listen 127.0.0.1:\(port); location / { proxy_pass http://app; } location /n { return 200 "$name\n"; } }
      server { listen unix:\(socket); location /api/ { api write=on; } }
      """)
    var daemon = try await Sallyport.start(scene, text)
    func api(_ path: String, _ words: String...) async throws -> CurlResult {
      try await scene.curl(["--unix-socket", socket, "http://localhost/api/9/http/\(path)"] + words)
    }
    func get(_ path: String = "/") async throws -> CurlResult {
      try await scene.curl(["http://127.0.0.1:\(port)\(path)"])
    }
    #expect(try await get().status == 502)
    for (index, server) in servers.enumerated() {
      let body = "{\"server\":\"127.0.0.1:\(server.port)\"\(index == 1 ? ",\"backup\":true" : "")}"
      #expect(try await api("upstreams/app/servers", "-d", body).status == 201)
    }
    #expect(try await api("keyvals/names", "-d", #"{"/n/a":"A"}"#).status == 201)
    #expect(try await get().text == "one")
    #expect(try await api("upstreams/app/servers/0", "-X", "PATCH", "-d", #"{"down":true}"#).status == 200)
    #expect(
      scene.text("kept/servers")
        == "server 127.0.0.1:\(servers[0].port) down;\nserver 127.0.0.1:\(servers[1].port) backup;\n")
    #expect(scene.text("kept/pairs") == "{\"/n/a\":\"A\"}\n")
    // What the file has by now is no difference to it.
    #expect(try await api("upstreams/app").text.matches(of: /"(changed|added)":true/).isEmpty)
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    #expect(try await get().text == "two")
    daemon.signal(SIGTERM)
    _ = try await daemon.process.ended()
    daemon = try await Sallyport.start(scene, text)
    #expect(try await get().text == "two")
    #expect(try await get("/n/a/b").text == "A\n")
    #expect(try await api("upstreams/app/servers/0", "-X", "DELETE").status == 200)
    #expect(scene.text("kept/servers") == "server 127.0.0.1:\(servers[1].port) backup;\n")

    // A file that can't be written: the change counts, and whoever asked for it knows that a restart forgets it.
    try FileManager.default.removeItem(atPath: scene.path("kept"))
    let lost = try await api("upstreams/app/servers", "-d", "{\"server\":\"127.0.0.1:\(servers[0].port)\"}")
    #expect(lost.status == 500 && lost.text.contains("StateNotWritten"))
    #expect(try await get().text == "one")
    #expect(try await api("keyvals/names", "-X", "DELETE").status == 500)
    try await daemon.logged("could not be written, so a restart forgets the change")
    let health = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    #expect(health.status == 3, "\(health.everything)")
    #expect(health.text.contains("WARN    state file: \"") && health.text.contains("kept/pairs\" could not be written"))
    // Once it can be, it is, and nobody has to send the change again.
    try scene.makeFolder("kept")
    try await daemon.logged("kept/servers\" is written again")
    try await daemon.logged("kept/pairs\" is written again")
    #expect(scene.text("kept/servers").contains("127.0.0.1:\(servers[0].port)") && scene.text("kept/pairs") == "{}\n")
    #expect(try await scene.sallyport("health", "--config", scene.path("sallyport.conf")).status == 0)
    daemon.signal(SIGTERM)
    _ = try await daemon.process.ended()
  }

  @Test func `a damaged state costs its group or zone what it knew, is kept and told, and stops nothing else`()
    async throws
  {
    let scene = try Scene.ofTest(), port = try scene.port(), tcp = try scene.port(), socket = scene.path("api.sock")
    let server = try StreamlessUpstream.named(scene, "one"), other = try StreamlessUpstream.named(scene, "two")
    try scene.makeFolder("kept")
    let own = "server 127.0.0.1:\(server.port);\n"
    let files = [
      ("servers", own + "server 127.0.0"), ("tcp", "\0\0\0\0"), ("good", own), ("pairs", ""),
      ("names", "{\"/n\":\"N\"}"),
    ]
    for (name, text) in files { try scene.write("kept/\(name)", text: text) }
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        upstream app { zone app 64k; state kept/servers; } upstream good { zone good 64k; state kept/good; }
        keyval_zone zone=pairs:32k state=kept/pairs; keyval $uri $pair zone=pairs;
        keyval_zone zone=names:32k state=kept/names; keyval $uri $name zone=names;
        server { listen 127.0.0.1:\(port); location / { proxy_pass http://app; } location /g { proxy_pass http://good; }
          location /n { return 200 "$name$pair\n"; } }
        server { listen unix:\(socket); location /api/ { api write=on; } }
        """)
        + "stream { upstream tcp { zone tcp 64k; state kept/tcp; } server { listen 127.0.0.1:\(tcp); proxy_pass tcp; } }",
    )
    func get(_ path: String) async throws -> CurlResult { try await scene.curl(["http://127.0.0.1:\(port)\(path)"]) }
    func api(_ path: String, _ body: String) async throws -> Int {
      try await scene.curl(["--unix-socket", socket, "http://localhost/api/9/\(path)", "-d", body]).status
    }
    #expect(try await get("/").status == 502)
    #expect(try await get("/g").text == "one")
    #expect(try await get("/n").text == "N\n")
    for (name, text) in files where !["good", "names"].contains(name) {
      #expect(scene.text("kept/\(name).damaged") == text, "\(name)")
      try await daemon.logged("[warn]", "kept/\(name)\" is damaged, and is kept as")
    }
    try await daemon.logged("the state of upstream \"app\", is damaged", "kept/servers:2:15: unexpected end of file")
    try await daemon.logged("the state of keyval_zone \"pairs\", is damaged: it is empty")
    #expect(try await api("http/upstreams/app/servers", "{\"server\":\"127.0.0.1:\(other.port)\"}") == 201)
    #expect(try await api("stream/upstreams/tcp/servers", "{\"server\":\"127.0.0.1:\(other.port)\"}") == 201)
    #expect(try await api("http/keyvals/pairs", "{\"/n\":\"P\"}") == 201)
    #expect(try await get("/").text == "two")
    #expect(try await scene.curl(["http://127.0.0.1:\(tcp)/"]).text == "two")
    // A reload finds a damaged file, and the process knows the servers.
    try scene.write("kept/servers", text: "server nowhere\n")
    let check = try await scene.run(Sallyport.binary(), ["check", scene.path("sallyport.conf")])
    #expect(check.status == 0 && check.everything.contains("is damaged"), "\(check.everything)")
    #expect(scene.text("kept/servers") == "server nowhere\n", "check changes nothing")
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    #expect(try await get("/").text == "two")
    #expect(scene.text("kept/servers") == "server 127.0.0.1:\(other.port);\n")
    #expect(scene.text("kept/servers.damaged.2") == "server nowhere\n")
    // A file that can't be read at all is no damaged one.
    try FileManager.default.removeItem(atPath: scene.path("kept/names"))
    try scene.makeFolder("kept/names")
    let folder = try await scene.run(Sallyport.binary(), ["check", scene.path("sallyport.conf")])
    #expect(folder.status == 1 && folder.everything.contains("can't be read as the state"), "\(folder.everything)")
  }

  @Test func `no address of the API is read as configuration, and the servers outlive a reload and a restart`()
    async throws
  {
    let scene = try Scene.ofTest(), port = try scene.port(), tcp = try scene.port(), socket = scene.path("api.sock")
    let server = try StreamlessUpstream.named(scene, "one")
    try scene.makeFolder("kept")
    // Somebody's own path has a blank.
    try scene.write("kept/app", text: "server \"unix:/no where;}\" backup;\n")
    let text =
      configuration(
        """
        upstream app { zone app 64k; state kept/app; }
        server { listen 127.0.0.1:\(port); location / { proxy_pass http://app; } }
        server { listen unix:\(socket); location /api/ { api write=on; } }
        """)
      + "stream { upstream tcp { zone tcp 64k; state kept/tcp; } server { listen 127.0.0.1:\(tcp); proxy_pass tcp; } }"
    var daemon = try await Sallyport.start(scene, text)
    func api(_ path: String, _ words: String...) async throws -> CurlResult {
      try await scene.curl(["--unix-socket", socket, "http://localhost/api/9/\(path)"] + words)
    }
    func ctl(_ words: String...) async throws -> ToolResult {
      try await scene.run(Sallyport.binary(), ["ctl"] + words + ["--socket", socket])
    }
    let own = "127.0.0.1:\(server.port)"
    for (kind, group) in [("http", "app"), ("stream", "tcp")] {
      let path = "\(kind)/upstreams/\(group)/servers"
      #expect(try await api(path, "-d", "{\"server\":\"\(own)\"}").status == 201)
      for address in [
        #"unix:/x;}"#, #"unix:/x;\nserver localhost:1"#, #"unix:/x;\ninclude /etc/hostname"#, "unix:/x down",
      ] {
        let answer = try await api(path, "-d", "{\"server\":\"\(address)\"}")
        #expect(answer.status == 400 && answer.text.contains("can't stand in an address"), "\(answer.text)")
      }
      let added = try await ctl("add", group, "unix:/x;}")
      #expect(added.status == 1 && added.everything.contains("can't stand in an address"), "\(added.everything)")
    }
    #expect(try await api("stream/upstreams/tcp/servers/0", "-X", "PATCH", "-d", #"{"drain":true}"#).status == 400)
    #expect(scene.text("kept/app") == "server \"unix:/no where;}\" backup;\nserver \(own);\n")
    #expect(scene.text("kept/tcp") == "server \(own);\n")
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    daemon.signal(SIGTERM)
    _ = try await daemon.process.ended()
    daemon = try await Sallyport.start(scene, text)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "one")
    #expect(try await scene.curl(["http://127.0.0.1:\(tcp)/"]).text == "one")
    // A terminal obeys no name.
    daemon.signal(SIGTERM)
    _ = try await daemon.process.ended()
    try scene.write("kept/app", text: "server \"unix:/\u{1B}[31m\";\n")
    _ = try await Sallyport.start(scene, text)
    let listed = try await ctl("servers", "app")
    #expect(listed.text.contains(#"unix:/\x1B[31m"#) && !listed.text.contains("\u{1B}"), "\(listed.text)")
  }

  @Test func `metrics have the servers that a group has by now, and the counts of one that comes back go on`()
    async throws
  {
    let scene = try Scene.ofTest(), port = try scene.port(), socket = scene.path("api.sock")
    let one = try StreamlessUpstream.named(scene, "one"), two = try StreamlessUpstream.named(scene, "two")
    let daemon = try await Sallyport.serve(
      scene,
      """
      upstream app { zone app 64k; server 127.0.0.1:\(one.port); }
      server { listen 127.0.0.1:\(port); location / { proxy_pass http://app; } location = /m { metrics; } }
      server { listen unix:\(socket); location /api/ { api write=on; } }
      """)
    func api(_ path: String, _ words: String...) async throws -> CurlResult {
      try await scene.curl(
        ["--unix-socket", socket, "http://localhost/api/9/http/upstreams/app/servers\(path)"] + words)
    }
    /// The responses of the added server, by the page; nil: the page doesn't have it.
    func counted() async throws -> Int? {
      let start = "sallyport_upstream_attempts_total{upstream=\"app\",server=\"127.0.0.1:\(two.port)\",result=\"2xx\"} "
      let page = try await scene.curl(["http://127.0.0.1:\(port)/m"]).text
      guard page.contains("server=\"127.0.0.1:\(two.port)\"") else { return nil }
      return page.split(separator: "\n").first { $0.hasPrefix(start) }.flatMap { Int($0.dropFirst(start.count)) }
    }
    func ask(until count: Int) async throws {
      try await until("\(count) responses of the added server") {
        _ = try await scene.curl(["http://127.0.0.1:\(port)/"])
        return try await counted() ?? 0 >= count
      }
    }
    #expect(try await api("", "-d", "{\"server\":\"127.0.0.1:\(two.port)\"}").status == 201)
    try await ask(until: 3)
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    try await ask(until: 5)
    let before = try #require(try await counted())
    #expect(try await api("/1", "-X", "DELETE").status == 200)
    try await until("the page to drop it") { try await counted() == nil }
    #expect(try await api("", "-d", "{\"server\":\"127.0.0.1:\(two.port)\"}").status == 201)
    try await ask(until: before + 1)
  }

  @Test func `what zones of limits have decided can be asked, and begins anew`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port(), socket = scene.path("api.sock")
    let server = try StreamlessUpstream.named(scene, "one")
    _ = try await Sallyport.serve(
      scene,
      """
      limit_req_zone $arg_k zone=slow:32k rate=1r/m; limit_req_zone $arg_k zone=fast:32k rate=1000r/s;
      limit_req_zone $arg_d zone=dry:32k rate=1r/m; limit_conn_zone $arg_k zone=few:32k;
      server {
        listen 127.0.0.1:\(port); limit_conn few 5;
        location / { limit_req zone=fast burst=9; limit_req zone=slow burst=1 nodelay; proxy_pass http://127.0.0.1:\(server.port); }
        location /dry { limit_req_dry_run on; limit_req zone=dry; limit_conn_dry_run on; limit_conn few 1;
          proxy_pass http://127.0.0.1:\(server.port); }
      }
      server { listen unix:\(socket); location /api/ { api write=on; } }
      """)
    func api(_ path: String, _ words: String...) async throws -> CurlResult {
      try await scene.curl(["--unix-socket", socket, "http://localhost/api/9/http/\(path)"] + words)
    }
    for _ in 0..<5 { _ = try await scene.curl(["http://127.0.0.1:\(port)/?k=a"]) }
    for _ in 0..<3 { _ = try await scene.curl(["http://127.0.0.1:\(port)/dry?d=a"]) }
    _ = try await scene.curl(["http://127.0.0.1:\(port)/"])
    #expect(
      try await api("limit_reqs").text
        == #"{"dry":{"passed":1,"delayed":0,"rejected":0,"delayed_dry_run":0,"rejected_dry_run":2},"#
        + #""fast":{"passed":2,"delayed":0,"rejected":0,"delayed_dry_run":0,"rejected_dry_run":0},"#
        + #""slow":{"passed":2,"delayed":0,"rejected":3,"delayed_dry_run":0,"rejected_dry_run":0}}"# + "\n")
    #expect(try await api("limit_conns/few").text == "{\"passed\":2,\"rejected\":0,\"rejected_dry_run\":0}\n")
    #expect(try await api("limit_reqs/slow", "-X", "DELETE").status == 204)
    #expect(try await api("limit_reqs/slow").text.contains("\"rejected\":0,"))
    #expect(try await api("limit_reqs/few").status == 404)
    #expect(try await api("limit_rates").status == 404)
  }

  @Test func `ctl shows and changes servers, and says what is wrong`() async throws {
    let api = try await APIScene(Scene.ofTest())
    let address = "127.0.0.1:\(api.servers[1].port)"
    #expect(try await api.ctl("servers", "app").text.contains("app \(address) up weight=1 max_conns=0"))
    #expect(try await api.ctl("set", "app", address, "drain", "weight=3").text.contains("\(address) draining weight=3"))
    #expect(Set(try await api.names()) == ["one"])
    #expect(try await api.ctl("set", "app", address, "undrain").text.contains("\(address) up weight=3"))
    #expect(try await api.ctl("servers", "x").everything.contains("no group \"x\" with a zone"))
    #expect(
      try await api.ctl("set", "app", "127.0.0.1:1", "down").everything.contains(
        "no server \"127.0.0.1:1\" in \"app\", which has"))
    #expect(try await api.ctl("set", "app", address, "heavy").everything.contains("expected down, up, drain"))
    #expect(try await api.ctl("get", "http/requests").text.contains("\"total\""))
    let gone = try await api.scene.run(Sallyport.binary(), ["ctl", "servers", "--socket", api.scene.path("gone.sock")])
    #expect(gone.status == 1 && gone.everything.contains("expected a server that listens on unix:"))
  }
}
