import Crypto
import Foundation

/// An ACME server in Python that breaks one rule, and tells what it was asked.
package final class HostileACME: Sendable {
  package let port: UInt16
  private let scene: Scene

  /// `how`: `redirect`, `huge`, `endless`, `silent`, `elsewhere`, `names` (an order for another name) or `token` (one with
  /// slashes).
  package init(_ scene: Scene, how: String) async throws {
    self.scene = scene
    let authority = try TestAuthority("ACME")
    try scene.write("acme-ca.pem", text: authority.root.certificate.pem)
    _ = try scene.identity("acme", authority.server())
    let script = try scene.write("acme.py", text: Self.source)
    let process = try ChildProcess(
      "python3", [script, how], in: scene.folder, output: scene.path("acme.out"), errors: scene.path("acme.err"))
    scene.atEnd { process.stop() }
    scene.onFailure(show: "the ACME server") { scene.text("acme.out") + scene.text("acme.err") }
    port = try await waiting(for: "the ACME server to listen") {
      scene.text("acme.out").split(separator: "\n").first.flatMap { UInt16($0) }
    }
  }

  /// The paths that it was asked for, each after its method.
  package var asked: [String] { scene.text("acme.out").split(separator: "\n").dropFirst().map(String.init) }

  package var issuer: String {
    """
    acme_issuer hostile { uri https://localhost:\(port)/dir; ssl_trusted_certificate acme-ca.pem; state_path state;
      accept_terms_of_service; }
    """
  }

  private static let source = #"""
    import http.server, json, ssl, sys, time

    how = sys.argv[1]

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words): pass

        def answer(self, value, status=200, **fields):
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Replay-Nonce", "bm9uY2U")
            for name, text in fields.items(): self.send_header(name, text)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD": self.wfile.write(body)

        def all(self):
            print(self.command, self.path, flush=True)
            if self.command == "POST": self.rfile.read(int(self.headers["Content-Length"]))
            base = f"https://localhost:{port}"
            if self.path == "/dir":
                if how == "redirect":
                    return self.answer({}, 302, Location=base + "/elsewhere")
                if how == "huge":
                    self.send_response(200)
                    self.send_header("Content-Length", str(100 << 20))
                    self.end_headers()
                    try:
                        for _ in range(100): self.wfile.write(b"a" * (1 << 20))
                    except OSError: print("cut", flush=True)
                    return
                if how == "endless":
                    self.send_response(200)
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    try:
                        while True: self.wfile.write(b"10000\r\n" + b"a" * 65536 + b"\r\n")
                    except OSError: print("cut", flush=True)
                    return
                if how == "silent":
                    time.sleep(3600)
                new = "https://127.0.0.1:1/a" if how == "elsewhere" else base + "/account"
                return self.answer({"newNonce": base + "/nonce", "newAccount": new, "newOrder": base + "/order"})
            if self.path == "/account": return self.answer({"status": "valid"}, 201, Location=base + "/account/1")
            if self.path == "/order":
                name = "bank.test" if how == "names" else "a.test"
                return self.answer(
                    {"status": "pending", "identifiers": [{"type": "dns", "value": name}],
                     "authorizations": [base + "/authz"], "finalize": base + "/finalize"}, 201, Location=base + "/order/1")
            if self.path == "/authz":
                return self.answer(
                    {"status": "pending", "identifier": {"type": "dns", "value": "a.test"},
                     "challenges": [{"type": method, "url": base + "/challenge", "status": "pending",
                                     "token": "../../index.html" if how == "token" else "t0ken-1"}
                                    for method in ("http-01", "dns-01")]})
            return self.answer({})

        do_GET = do_HEAD = do_POST = all

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("acme.pem", "acme.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    port = server.server_address[1]
    print(port, flush=True)
    server.serve_forever()
    """#
}
