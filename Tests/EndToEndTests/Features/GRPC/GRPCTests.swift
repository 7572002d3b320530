import TestSupport
import Testing

/// Mutual TLS on both sides, with the library that most services use.
@Suite(
  .staged, .enabled("grpcio is not installed") { await Scene.succeeds(GRPCScripts.python, ["-c", "import grpc"]) })
struct `gRPC` {
  /// `variable`: a value says the scheme and address.
  private static func stage(_ scene: Scene, by variable: Bool = false) async throws -> (port: UInt16, daemon: Sallyport)
  {
    _ = try Cast(scene)
    let port = try scene.port(), upstream = try await scene.grpcServer()
    let trust = """
      grpc_ssl_trusted_certificate ca.pem; grpc_ssl_name localhost; grpc_ssl_certificate alice.pem;
      grpc_ssl_certificate_key alice.key;
      """
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; http2 on; server_name localhost; \(Cast.tls) client_max_body_size 0;
        set $service grpcs://127.0.0.1:\(upstream);
        location / { grpc_pass \(variable ? "$service" : "grpcs://127.0.0.1:\(upstream)"); \(trust) }
        location /test.Dead/ { grpc_pass grpc://127.0.0.1:1; }
        location /test.Denied/ { deny all; grpc_pass grpc://127.0.0.1:1; }
        location /test.Large/ { client_max_body_size 1k; grpc_pass grpcs://127.0.0.1:\(upstream); \(trust) }
        location /test.Untrusted/ { grpc_pass grpcs://127.0.0.1:\(upstream); grpc_ssl_name other.example;
          grpc_ssl_trusted_certificate ca.pem; }
      }
      """)
    return (port, daemon)
  }

  @Test func `calls of all four kinds, with metadata both ways`() async throws {
    let scene = try Scene.ofTest(), (port, daemon) = try await Self.stage(scene)
    let lines = try await scene.grpcClient(port, "calls")
    #expect(
      lines == [
        "hello True", "True []", "500000 0", "[]", "[('x-a', '1'), ('x-b-bin', b'\\xff\\x00')]",
        "['f', b'\\xff\\x00'] ['l', b'\\x00\\x01']", "True",
      ])
    #expect(!daemon.errorLog.contains("[error]"))
  }

  @Test func `a variable leads to a service, and its value says the scheme`() async throws {
    let scene = try Scene.ofTest(), (port, daemon) = try await Self.stage(scene, by: true)
    #expect(try await scene.grpcClient(port, "calls").first == "hello True")
    #expect(!daemon.errorLog.contains("[error]"))
  }

  @Test func `messages of 4 MiB, and 1,000 calls`() async throws {
    let scene = try Scene.ofTest(), (port, daemon) = try await Self.stage(scene)
    #expect(try await scene.grpcClient(port, "large") == ["True True"])
    #expect(try await scene.grpcClient(port, "many") == ["True"])
    #expect(!daemon.errorLog.contains("[error]"))
  }

  @Test func `errors of the service and of the proxy have their status`() async throws {
    let scene = try Scene.ofTest(), (port, _) = try await Self.stage(scene)
    let lines = try await scene.grpcClient(port, "errors")
    #expect(
      lines == [
        "NOT_FOUND no such thing: ä", "UNIMPLEMENTED Method not found!", "UNAVAILABLE 502 Bad Gateway",
        "PERMISSION_DENIED 403 Forbidden", "RESOURCE_EXHAUSTED 413 Request Entity Too Large",
        "UNAVAILABLE 502 Bad Gateway",
      ])
  }

  @Test func `a deadline and a cancellation reach the service`() async throws {
    let scene = try Scene.ofTest(), (port, _) = try await Self.stage(scene)
    let lines = try await scene.grpcClient(port, "ends")
    #expect(lines.map { $0.split(separator: " ").first } == ["DEADLINE_EXCEEDED", "CANCELLED", "alive"])
    try await until("the service to hear of it") { scene.text("grpc-server.out").contains("cancelled") }
  }
}

/// What the proxy says itself, read field by field.
@Suite(.staged) struct `Calls of gRPC that the proxy ends` {
  private static func ask(
    _ scene: Scene, _ path: String, _ fields: [String], _ upstream: UpstreamFrameServer
  ) async throws -> CurlResult {
    try await GRPCProxy(scene, [upstream]).call(path, fields)
  }

  /// A daemon with TLS and HTTP/2 in front of upstreams in plain HTTP/2.
  private struct GRPCProxy {
    let scene: Scene
    let cast: Cast
    let port: UInt16
    let daemon: Sallyport

    init(_ scene: Scene, _ upstreams: [UpstreamFrameServer]) async throws {
      self.scene = scene
      cast = try Cast(scene)
      port = try scene.port()
      daemon = try await Sallyport.start(
        scene,
        configuration(
          """
          upstream calls { \(upstreams.map { "server 127.0.0.1:\($0.port);" }.joined()) }
          server { listen 127.0.0.1:\(port) ssl; http2 on; server_name localhost; \(Cast.tls)
            location / { grpc_pass grpc://calls; } }
          """
        ).replacing("worker_processes 2", with: "worker_processes 1"))
    }

    func call(_ path: String, _ fields: [String] = [], type: String = "application/grpc") async throws -> CurlResult {
      try await scene.curl(
        cast.to(port) + cast.alice.curl + ["--http2", "-H", "Content-Type: \(type)"]
          + fields.flatMap { ["-H", $0] } + ["https://localhost\(path)"], input: [0, 0, 0, 0, 0])
    }
  }

  private static func service(_ scene: Scene) throws -> UpstreamFrameServer {
    try .serving(scene) { connection, request in
      switch request.path {
      case "/silent": break
      case "/begun":
        try connection.headers(request.stream, [(":status", "200"), ("content-type", "application/grpc")])
        try connection.data(request.stream, [0, 0, 0, 0, 0])
      default:
        try connection.answer(
          request, "\0\0\0\0\0", fields: [("content-type", "application/grpc")], trailers: [("grpc-status", "0")])
      }
    }
  }

  @Test func `the request is one of gRPC`() async throws {
    let scene = try Scene.ofTest(), upstream = try Self.service(scene)
    let result = try await Self.ask(scene, "/a.B/C", ["TE: trailers", "grpc-timeout: 99999999H"], upstream)
    #expect(result.status == 200 && result.heads.lowercased().contains("grpc-status: 0"))
    let request = try #require(upstream.requests.first)
    #expect(request["te"] == "trailers" && request["content-type"] == "application/grpc")
    #expect(request[":authority"] == "calls" && request.path == "/a.B/C" && request.method == "POST")
    #expect(request["grpc-timeout"] == "99999999H" && request.body == [0, 0, 0, 0, 0])
  }

  /// nginx does so, too.
  @Test func `the request says that trailers are taken if the client says so`() async throws {
    let scene = try Scene.ofTest(), upstream = try Self.service(scene)
    #expect(try await Self.ask(scene, "/a.B/C", [], upstream).status == 200)
    #expect(try #require(upstream.requests.first)["te"] == nil)
  }

  @Test(arguments: ["100m", "0S", "1n", "99999u"])
  func `grpc-timeout bounds a call that has no response`(timeout: String) async throws {
    let scene = try Scene.ofTest(), upstream = try Self.service(scene)
    let result = try await Self.ask(scene, "/silent", ["grpc-timeout: \(timeout)"], upstream)
    #expect(result.status == 200 && result["grpc-status"] == "4" && result.body.isEmpty)
    #expect(result["grpc-message"] == "504 Gateway Time-out" && result["Content-Type"] == "application/grpc")
  }

  @Test func `grpc-timeout bounds a call that has begun, by trailers, and the service hears of it`() async throws {
    let scene = try Scene.ofTest(), upstream = try Self.service(scene)
    let result = try await Self.ask(scene, "/begun", ["grpc-timeout: 100m"], upstream)
    #expect(result.exit == 0 && result.status == 200 && result.body == [0, 0, 0, 0, 0])
    #expect(result.heads.lowercased().contains("grpc-status: 4"))
    try await until("RST_STREAM") { upstream.resets.count == 1 }
    #expect(upstream.resets.first?.code == 8)
  }

  @Test(arguments: ["", "5", "S", "-1S", "+1S", "1 S", "123456789S", "1s", "1.5S", "S1"])
  func `a grpc-timeout that can't be read bounds nothing`(timeout: String) async throws {
    let scene = try Scene.ofTest(), upstream = try Self.service(scene)
    // curl sends an empty field where a semicolon follows the name.
    let field = timeout.isEmpty ? "grpc-timeout;" : "grpc-timeout: \(timeout)"
    #expect(try await Self.ask(scene, "/", [field], upstream).status == 200)
    #expect(upstream.paths == ["/"])
  }

  /// A client chooses the time, so that its end says nothing about the servers: they serve the other clients.
  @Test func `deadlines of clients don't count against the servers`() async throws {
    let scene = try Scene.ofTest(), first = try Self.service(scene), second = try Self.service(scene)
    let proxy = try await GRPCProxy(scene, [first, second])
    for _ in 0..<4 { #expect(try await proxy.call("/silent", ["grpc-timeout: 50m"])["grpc-status"] == "4") }
    for _ in 0..<4 { #expect(try await proxy.call("/").status == 200) }
    #expect(first.paths.count == 4 && second.paths.count == 4)
  }

  @Test func `an error is for a gRPC client a status, and for another a page`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try UpstreamFrameServer.serving(scene) { try $0.reset($1.stream, 2) }
    let proxy = try await GRPCProxy(scene, [upstream])
    for type in ["application/grpc", "application/grpc+proto", "Application/GRPC;x=y"] {
      let result = try await proxy.call("/", type: type)
      #expect(result.status == 200 && result["grpc-status"] == "14" && result.body.isEmpty, "\(type)")
    }
    for type in ["application/grpc-web", "application/grpcx", "text/plain"] {
      let result = try await proxy.call("/", type: type)
      #expect(result.status == 502 && result["grpc-status"] == nil, "\(type)")
    }
  }
}
