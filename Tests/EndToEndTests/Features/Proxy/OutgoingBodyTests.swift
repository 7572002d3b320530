import Glibc
import TestSupport
import Testing

/// `proxy_set_body`, the variables of a request's body, and bodies in files.
@Suite(.stagedOverBoth) struct `The body that an upstream gets` {
  /// Answers with what reached it: the method, the framing and the body.
  private static func witness(_ scene: Scene) throws -> ScriptedUpstream {
    try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        let framing = "\(request.all("Content-Length")) \(request.all("Transfer-Encoding"))"
        try wire.answer(
          "\(request.method) \(framing) <\(request.text)>", fields: ["X-Seen: \(request["X-Body"] ?? "-")"])
      }
    }
  }

  private static func locations(_ port: UInt16) -> String {
    let pass = "proxy_pass http://127.0.0.1:\(port);"
    return """
      location /set { proxy_set_body "x=$arg_x;$request_method"; \(pass) }
      location /empty { proxy_set_body ""; \(pass) }
      location /copy { proxy_set_body "[$request_body]"; \(pass) }
      location /both { proxy_pass_request_body off; proxy_set_body "own $request_body"; \(pass) }
      location /ones { proxy_http_version 1.1; proxy_set_body "own"; proxy_request_buffering off; \(pass) }
      location /framed { proxy_set_body "own"; proxy_set_header Content-Length 99; \(pass) }
      location /field { proxy_set_header X-Body $request_body; add_header X-Also "$request_body" always; \(pass) }
      location /large { client_body_buffer_size 8; proxy_set_header X-Body "a$request_body"; \(pass) }
      """
  }

  @Test(.ofHTTP1) func `is nginx's, with and without a body of the client's`() async throws {
    let scene = try Scene.ofTest(), upstream = try Self.witness(scene)
    let twin = try await NginxTwin(scene, "server { listen LISTEN; \(Self.locations(upstream.port)) }")
    let chunked = "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    for path in ["/set?x=1", "/empty", "/copy", "/both", "/ones", "/field"] {
      try await twin.compare(NginxTwin.get(path))
      for rest in [
        "Content-Length: 5\r\nConnection: close\r\n\r\nhello", "Content-Length: 0\r\nConnection: close\r\n\r\n",
        chunked,
        "Content-Length: 20\r\nConnection: close\r\n\r\nhello hello hello he",
      ] {
        try await twin.compare("POST \(path) HTTP/1.1\r\nHost: h\r\n\(rest)")
      }
      // No length is announced for a client that says nothing of a body.
      for method in ["POST", "PUT", "PATCH", "DELETE"] {
        try await twin.compare("\(method) \(path) HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
      }
    }
    #expect(try await twin.ask(NginxTwin.get("/set?x=1")).contains(#"GET ["7"] [] <x=1;GET>"#))
    // A length that the configuration sets by hand can't contradict the body.
    #expect(try await twin.ask(NginxTwin.get("/framed")).contains(#"GET ["3"] [] <own>"#))
  }

  @Test func `takes the place of the client's, which is read and checked all the same`() async throws {
    let scene = try Scene.ofTest(), upstream = try Self.witness(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: "proxy_set_body \"n=$request_length\"; client_max_body_size 100k;")
    for size in [0, 1, 99_000] {
      let result = try await proxy.curl("/", input: Pattern.bytes(size))
      #expect(result.status == 200 && result.text.contains("POST") && result.text.contains("<n="), "\(size)")
    }
    #expect(try await proxy.curl("/", input: Pattern.bytes(110_000)).status == 413)
    // A client that leaves before its body is whole.
    try await scene.ask(proxy.port) { client in
      try client.begin("POST", "/", body: .open)
      try client.send("half")
    }
    #expect(upstream.requests("POST") == 3)
  }

  @Test func `CVE-2026-42926: a body of proxy_set_body is nothing but DATA over HTTP 2`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try UpstreamFrameServer.serving(scene) { try $0.answer($1, "\($1.body.count)") }
    let proxy = try await FramedProxy(
      scene, to: upstream, location: "proxy_set_body \"$request_body\";",
      locations: """
        location /literal { proxy_pass http://framed; proxy_set_body "x\\r\\n\\r\\nGET /evil HTTP/1.1\\r\\n\\r\\n$arg_a"; }
        location /none { proxy_pass http://framed; proxy_set_body ""; }
        """)
    // Frames for a stream that doesn't exist: HEADERS with END_STREAM, GOAWAY, RST_STREAM, and the preface.
    let headers: [UInt8] = [0, 0, 3, 1, 5, 0, 0, 0, 3, 0x82, 0x86, 0x84]
    let goAway: [UInt8] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    let evil = headers + goAway + Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    for size in [1, 1 << 14, 40_000] {
      var body: [UInt8] = []
      while body.count < size { body += evil }
      let result = try await proxy.curl("/", input: body)
      #expect(result.status == 200 && result.text == "\(body.count)", "\(size): \(result.text)")
      #expect(upstream.requests.last?.body == body && upstream.requests.last?["content-length"] == "\(body.count)")
    }
    #expect(try await proxy.curl("/literal?a=%0d%0a").status == 200)
    #expect(try await proxy.curl("/none").status == 200)
    #expect(upstream.requests.last?["content-length"] == "0" && upstream.requests.last?.body == [])
    #expect(upstream.paths == ["/", "/", "/", "/literal?a=%0d%0a", "/none"])
    #expect(upstream.resets.isEmpty)
  }

  @Test func `a body in a variable can't add fields or lines of the log`() async throws {
    let scene = try Scene.ofTest(), upstream = try Self.witness(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      log_format bodies '<$request_body|$request_body_file>';
      server { listen 127.0.0.1:\(port); access_log bodies.log bodies; \(Self.locations(upstream.port)) }
      """)
    let evil = Array("a\r\nEvil: 1\r\n\r\nGET /x HTTP/1.1\r\n\"\\\u{0}é".utf8)
    let result = try await scene.curl(["http://127.0.0.1:\(port)/field"], input: evil)
    #expect(result.status == 200 && result["Evil"] == nil)
    #expect(result["X-Also"]?.contains("\n") != true)
    #expect(result["X-Seen"]?.contains("Evil: 1") == true && result.text.contains("<a\r\nEvil: 1"))
    let large = try await scene.curl(["http://127.0.0.1:\(port)/large"], input: Array("nine byte".utf8))
    #expect(large["X-Seen"] == "a")
    try await until("both lines of the log") { scene.text("bodies.log").split(separator: "\n").count == 2 }
    // Two workers write it.
    #expect(
      scene.text("bodies.log").split(separator: "\n").sorted() == [
        "<-|->", #"<a\x0D\x0AEvil: 1\x0D\x0A\x0D\x0AGET /x HTTP/1.1\x0D\x0A\x22\x5C\x00\xC3\xA9|->"#,
      ])
  }

  /// Answers with the contents and the mode of the file that the request names.
  private static func reader(_ scene: Scene) throws -> ScriptedUpstream {
    try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        let path = request["X-File"] ?? ""
        var status = stat()
        let mode = stat(path, &status) == 0 ? String(status.st_mode & 0o777, radix: 8) : "none"
        let text = scene.text("bodies/" + (path.split(separator: "/").last.map(String.init) ?? ""))
        try wire.answer(
          "\(mode) \(text.count) <\(request.text)>", fields: ["X-File: \(path)", "X-Body: \(request["X-Body"] ?? "-")"])
      }
    }
  }

  @Test func `client_body_in_file_only writes each body to a file of its own`() async throws {
    let scene = try Scene.ofTest(), upstream = try Self.reader(scene)
    let port = try scene.port()
    let pass =
      "proxy_set_header X-File $request_body_file; proxy_set_header X-Body \"a$request_body\"; proxy_pass http://127.0.0.1:\(upstream.port);"
    _ = try await Sallyport.serve(
      scene,
      """
      log_format files '$request_body_file';
      server { listen 127.0.0.1:\(port); client_body_temp_path bodies 1 2;
        location /clean { client_body_in_file_only clean; \(pass) }
        location /on { client_body_in_file_only on; proxy_pass_request_body off; access_log files.log files; \(pass) }
        location /off { client_body_buffer_size 4; \(pass) }
        location /through { client_body_in_file_only on; proxy_request_buffering off; proxy_http_version 1.1; \(pass) }
      }
      """)
    func post(_ path: String, _ text: String) async throws -> CurlResult {
      try await scene.curl(["http://127.0.0.1:\(port)\(path)"], input: Array(text.utf8))
    }
    let clean = try await post("/clean", "hello")
    let path = try #require(clean["X-File"])
    #expect(clean.text == "600 5 <hello>" && clean["X-Body"] == "a")
    #expect(path.hasPrefix(scene.path("bodies/")))
    try await until("the file to be removed") { access(path, F_OK) != 0 }
    let on = try await post("/on", "hello world")
    let kept = try #require(on["X-File"])
    #expect(on.text == "600 11 <>")
    #expect(scene.bytes("bodies/\(kept.split(separator: "/").last ?? "")") == Array("hello world".utf8))
    let other = try await post("/on", "hello world")
    #expect(other["X-File"] != kept && access(kept, F_OK) == 0)
    try await until("the log") { scene.text("files.log").split(separator: "\n").count == 2 }
    #expect(scene.text("files.log").split(separator: "\n").map(String.init).contains(kept))
    // A file without a name has none to tell.
    let off = try await post("/off", "hello")
    #expect(off.text == "none 0 <hello>" && off["X-File"]?.isEmpty ?? true && off["X-Body"] == "a")
    #expect(try await post("/through", "hello").text == "none 0 <hello>")
    // Without a body, there is no file, and with an empty one, an empty file.
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/clean"]).text == "none 0 <>")
    #expect(try await post("/clean", "").text == "600 0 <>")
  }

  @Test func `a folder without room is a 500, and leaves no part of a body`() async throws {
    let scene = try Scene.ofTest(), upstream = try Self.reader(scene)
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); client_body_temp_path bodies; proxy_pass_request_headers on;
        location /only { client_body_in_file_only on; proxy_pass http://127.0.0.1:\(upstream.port); }
        location /large { client_body_buffer_size 4; proxy_pass http://127.0.0.1:\(upstream.port); }
      }
      """)
    // The start has made the folder. Now it is none.
    try #require(rmdir(scene.path("bodies")) == 0)
    try scene.write("bodies", text: "")
    for path in ["/only", "/large"] {
      let result = try await scene.curl(["http://127.0.0.1:\(port)\(path)"], input: Array("hello".utf8))
      #expect(result.status == 500, "\(path)")
    }
    try await daemon.logged("[crit]", "a temporary file for a request body can't be made in \(scene.path("bodies"))")
    #expect(upstream.connections == 0)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/large"], input: Array("hi".utf8)).status == 200)
  }
}
