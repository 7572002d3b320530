import TestSupport
import Testing

@Suite(.staged, .enabled(if: ProgramServer.uwsgi != nil, "uwsgi or its plugin for Python is not installed"))
struct `Programs behind uwsgi` {
  private static let program = #"""
    import hashlib

    def application(environ, start_response):
        if environ["PATH_INFO"] == "/raises": raise ValueError("no")
        body = environ["wsgi.input"].read()
        text = f"{environ['REQUEST_METHOD']} {environ['QUERY_STRING']} {len(body)}".encode()
        fields = [("X-Field", environ.get("HTTP_X_FIELD", "")), ("Content-Length", str(len(text)))]
        start_response("203 Fine", fields)
        return [text]
    """#

  private static func stage(
    _ scene: Scene, scheme: String = "", tls: String = "", certificate: (String, key: String)? = nil
  ) async throws -> (port: UInt16, daemon: Sallyport) {
    let port = try scene.port(), upstream = try scene.port()
    try await ProgramServer.uwsgi(scene, port: upstream, program, certificate: certificate)
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); client_max_body_size 0; large_client_header_buffers 4 64k;
        location / { uwsgi_pass \(scheme)127.0.0.1:\(upstream); include /etc/nginx/uwsgi_params; \(tls) }
      }
      """)
    return (port, daemon)
  }

  @Test func `get their parameters, fields and bodies`() async throws {
    let scene = try Scene.ofTest(), (port, daemon) = try await Self.stage(scene)
    let url = "http://127.0.0.1:\(port)"
    let result = try await scene.curl(
      ["-H", "X-Field: one", "\(url)/a?b"], input: [UInt8](repeating: 1, count: 2_000_000))
    #expect(result.status == 203 && result.text == "POST b 2000000" && result["X-Field"] == "one")
    #expect(try await scene.curl(["-I", "\(url)/a"]).status == 203)
    #expect(!daemon.errorLog.contains("[error]"))
  }

  @Test func `get no request whose parameters don't fit a packet`() async throws {
    let scene = try Scene.ofTest(), (port, daemon) = try await Self.stage(scene)
    let field = "X-Long: \(String(repeating: "f", count: 40_000))",
      other = "X-Other: \(String(repeating: "f", count: 40_000))"
    #expect(try await scene.curl(["-H", field, "http://127.0.0.1:\(port)/"]).status == 203)
    #expect(try await scene.curl(["-H", field, "-H", other, "http://127.0.0.1:\(port)/"]).status == 400)
    try await daemon.logged("65535")
  }

  @Test(arguments: [true, false])
  func `are trusted over TLS as every upstream is`(isTrusted: Bool) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let (port, daemon) = try await Self.stage(
      scene, scheme: "suwsgi://",
      tls: "uwsgi_ssl_trusted_certificate ca.pem; uwsgi_ssl_name \(isTrusted ? "localhost" : "other.test");",
      certificate: (scene.path("server.pem"), key: scene.path("server.key")))
    _ = cast
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).status == (isTrusted ? 203 : 502))
    if !isTrusted { try await daemon.logged("while SSL handshaking to upstream") }
    // A probe says nothing to it: the protocol has no question that a refusal answers.
    let probed = try await scene.sallyport("probe", "--config", scene.path("sallyport.conf"))
    #expect(probed.status == (isTrusted ? 0 : 1) && probed.everything.contains("tls://"), "\(probed.everything)")
  }
}
