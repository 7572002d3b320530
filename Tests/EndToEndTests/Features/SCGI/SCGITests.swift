import TestSupport
import Testing

@Suite(.staged) struct `Programs behind SCGI` {
  private static let program = #"""
    import hashlib, time

    def serve(connection, parameters, body):
        path = parameters["DOCUMENT_URI"]
        if path == "/echo":
            data = body()
            text = f"{parameters['REQUEST_METHOD']} {len(data)} {hashlib.sha256(data).hexdigest()[:8]} {parameters['SCGI']}"
            connection.sendall(b"Status: 201 Made\r\nContent-Type: text/plain\r\n\r\n" + text.encode())
        elif path == "/http":
            connection.sendall(b"HTTP/1.1 202 Taken\r\nX-A: b\r\n\r\nok")
        elif path == "/short":
            connection.sendall(b"Content-Length: 10\r\n\r\nabc")
        elif path == "/long":
            connection.sendall(b"Content-Length: 3\r\n\r\nabcdef")
        elif path == "/open":
            connection.sendall(b"Content-Length: 3\r\n\r\nabc"); time.sleep(60)
        elif path == "/slow":
            for byte in b"Status: 200 OK\n\nslow": connection.sendall(bytes([byte])); time.sleep(0.02)
        elif path == "/interim":
            connection.sendall(b"Status: 103 Hints\r\n\r\n")
        elif path == "/none":
            pass
    """#

  private static func stage(_ scene: Scene) async throws -> (port: UInt16, daemon: Sallyport) {
    let port = try scene.port(), upstream = try scene.port()
    try await ProgramServer.scgi(scene, port: upstream, program)
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); client_max_body_size 0;
        location / { scgi_pass 127.0.0.1:\(upstream); scgi_param REQUEST_METHOD $request_method;
          scgi_param DOCUMENT_URI $document_uri; }
      }
      """)
    return (port, daemon)
  }

  @Test func `get their parameters and bodies, and say the status in either way`() async throws {
    let scene = try Scene.ofTest(), (port, daemon) = try await Self.stage(scene)
    let url = "http://127.0.0.1:\(port)"
    let body = [UInt8](repeating: 7, count: 3_000_000)
    for words in [[], ["-H", "Transfer-Encoding: chunked"]] {
      let echo = try await scene.curl(words + ["\(url)/echo"], input: body)
      #expect(echo.status == 201 && echo.text.hasPrefix("POST 3000000 ") && echo.text.hasSuffix(" 1"))
    }
    let http = try await scene.curl(["\(url)/http"])
    #expect(http.status == 202 && http["X-A"] == "b" && http.text == "ok")
    #expect(try await scene.curl(["\(url)/slow"]).text == "slow")
    #expect(!daemon.errorLog.contains("[error]"))
  }

  @Test func `are held to the length that they announce`() async throws {
    let scene = try Scene.ofTest(), (port, daemon) = try await Self.stage(scene)
    let url = "http://127.0.0.1:\(port)"
    let short = try await scene.curl(["\(url)/short"])
    #expect(short.exit == 18 || short.exit == 92)
    #expect(try await scene.curl(["\(url)/long"]).text == "abc")
    try await daemon.logged("upstream sent more data than specified in \"Content-Length\" header")
    // The response is over, although the connection stays open.
    #expect(try await scene.curl(["\(url)/open"]).text == "abc")
    for path in ["none", "interim"] { #expect(try await scene.curl(["\(url)/\(path)"]).status == 502) }
  }
}
