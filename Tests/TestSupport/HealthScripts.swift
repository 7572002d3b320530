/// Upstreams in Python for health checks. Each reads at every check what to answer, from the file NAME.answer.
package enum HealthScripts {
  /// FOLDER NAME [IDENTITY [mutual]]: HTTP/1.1, over TLS with IDENTITY.pem and .key where one is given. NAME.answer is a
  /// status and a body, or `hang`, `endless`, `drip`. Other requests than checks get the name. Prints a line for each.
  package static let http = #"""
    import http.server, socketserver, ssl, sys, time
    folder, name = sys.argv[1:3]
    context = None
    if len(sys.argv) > 3:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{folder}/{sys.argv[3]}.pem", f"{folder}/{sys.argv[3]}.key")
        if sys.argv[4:] == ["mutual"]:
            context.load_verify_locations(f"{folder}/ca.pem")
            context.verify_mode = ssl.CERT_REQUIRED

    def answer():
        while True:
            text = open(f"{folder}/{name}.answer").read()
            if text: return text.partition(" ")
            time.sleep(0.01)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60
        def do_GET(self):
            isCheck = self.headers.get("User-Agent") == "sallyport-health-check"
            peer = dict(x[0] for x in self.connection.getpeercert()["subject"]) if sys.argv[4:] else ""
            print("check" if isCheck else "request", self.requestline, self.headers.items(), peer, flush=True)
            word, _, body = answer() if isCheck else ("200", "", name)
            if word == "hang":
                print("hanging", flush=True)
                try: self.connection.recv(1)
                except OSError: pass
                return print("left", flush=True)
            if word in ("endless", "drip"):
                self.send_response(200)
                self.end_headers()
                try:
                    while True:
                        self.wfile.write(b"x" if word == "drip" else b"x" * 10000)
                        if word == "drip": time.sleep(0.05)
                except OSError: print("cut", flush=True)
                self.close_connection = True
                return
            self.send_response(int(word))
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())
        def log_message(self, *words): pass

    class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
        daemon_threads = True
        def finish_request(self, request, address):
            if context: request = context.wrap_socket(request, server_side=True)
            super().finish_request(request, address)
            request.close()
        def handle_error(self, request, address): print("error", repr(sys.exc_info()[1]), flush=True)

    server = Server(("127.0.0.1", 0), Handler)
    print("up", server.server_port, flush=True)
    server.serve_forever()
    """#

  /// FOLDER NAME KIND: the health service over gRPC (`health`, or over TLS with server.pem `tls`), or a server without it
  /// (`none`). NAME.answer: the message in hexadecimal digits, or a status code to fail with.
  package static let grpc = #"""
    import grpc, sys, time
    from concurrent import futures
    folder, name, kind = sys.argv[1:4]
    same = lambda value: value
    codes = {code.value[0]: code for code in grpc.StatusCode}

    def check(request, context):
        print("check", request.hex(), flush=True)
        while not (text := open(f"{folder}/{name}.answer").read()): time.sleep(0.01)
        if text.startswith("fail "): context.abort(codes[int(text[5:])], "no")
        return bytes.fromhex(text)

    server = grpc.server(futures.ThreadPoolExecutor(8))
    if kind != "none":
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            "grpc.health.v1.Health", {"Check": grpc.unary_unary_rpc_method_handler(check, same, same)}),))
    echo = grpc.unary_unary_rpc_method_handler(lambda request, context: request, same, same)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Test", {"Echo": echo}),))
    read = lambda file: open(folder + "/" + file, "rb").read()
    port = (server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(read("server.key"), read("server.pem"))]))
        if kind == "tls" else server.add_insecure_port("127.0.0.1:0"))
    server.start()
    print("up", port, flush=True)
    server.wait_for_termination()
    """#
}

/// One upstream that answers checks as it is told.
package final class HealthUpstream: Sendable {
  package let port: UInt16
  private let scene: Scene
  private let name: String

  package var address: String { "127.0.0.1:\(port)" }

  /// `arguments`: those of the script after the name.
  package static func start(
    _ scene: Scene, _ name: String, _ answer: String, _ arguments: String..., grpc: Bool = false
  ) async throws -> HealthUpstream {
    try scene.write("\(name).answer", text: answer)
    let script = try scene.write("\(name).py", text: grpc ? HealthScripts.grpc : HealthScripts.http)
    let process = try ChildProcess(
      GRPCScripts.python, [script, scene.folder, name] + arguments, in: scene.folder,
      output: scene.path("\(name).out"), errors: scene.path("\(name).err"))
    scene.atEnd { process.stop() }
    scene.onFailure(show: "upstream \(name)") { scene.text("\(name).out") + scene.text("\(name).err") }
    let port = try await waiting(for: "the upstream \(name)") {
      if let ending = process.ending { throw ToolFailed(description: "upstream \(name): \(ending)") }
      return scene.text("\(name).out").firstMatch(of: /up (\d+)\n/).flatMap { UInt16($0.output.1) }
    }
    return HealthUpstream(scene, name, port)
  }

  private init(_ scene: Scene, _ name: String, _ port: UInt16) {
    self.scene = scene
    self.name = name
    self.port = port
  }

  /// Answers so from the next check on.
  package func answer(_ text: String) throws { try scene.write("\(name).answer", text: text) }

  /// The lines that it printed with this first word.
  package func lines(_ word: String) -> [String] {
    scene.text("\(name).out").split(separator: "\n").filter { $0.hasPrefix("\(word) ") || $0 == word[...] }.map(
      String.init)
  }
}
