import Crypto
import Foundation

/// A script of Python with a class `Handler`, which answers an ACME client.
private enum ACMEProcess {
  /// Writes acme-ca.pem, and starts the script. Returns the port on which it listens.
  static func start(_ scene: Scene, _ source: String, _ arguments: [String] = []) async throws -> UInt16 {
    let authority = try TestAuthority("ACME")
    try scene.write("acme-ca.pem", text: authority.root.certificate.pem)
    _ = try scene.identity("acme", authority.server())
    let script = try scene.write("acme.py", text: source + "\n" + serving)
    let process = try ChildProcess(
      "python3", [script] + arguments, in: scene.folder, output: scene.path("acme.out"),
      errors: scene.path("acme.err"))
    scene.atEnd { process.stop() }
    scene.onFailure(show: "the ACME server") { scene.text("acme.out") + scene.text("acme.err") }
    return try await waiting(for: "the ACME server to listen") {
      scene.text("acme.out").split(separator: "\n").first.flatMap { UInt16($0) }
    }
  }

  /// The end of each script.
  private static let serving = """
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("acme.pem", "acme.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    port = server.server_address[1]
    print(port, flush=True)
    server.serve_forever()
    """
}

/// An ACME server in Python that breaks one rule, and tells what it was asked.
package final class HostileACME: Sendable {
  package let port: UInt16
  private let scene: Scene

  /// `how`: `redirect`, `huge`, `endless`, `silent`, `elsewhere`, `names` (an order for another name) or `token` (one with
  /// slashes).
  package init(_ scene: Scene, how: String) async throws {
    self.scene = scene
    port = try await ACMEProcess.start(scene, Self.source, [how])
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
    """#
}

/// An ACME server in Python that issues, with profiles and answers about renewals (RFC 9773), which pebble of Debian lacks.
/// It believes every name, and reads requests without looking at their signatures.
package final class RenewingACME: Sendable {
  package let port: UInt16
  private let scene: Scene

  package init(_ scene: Scene) async throws {
    self.scene = scene
    port = try await ACMEProcess.start(scene, Self.source)
  }

  /// What it was asked: the kind of the request and its payload.
  package func asked(_ kind: String) -> [String] {
    scene.text("acme.out").split(separator: "\n").filter { $0.hasPrefix(kind + " ") }.map {
      String($0.dropFirst(kind.count + 1))
    }
  }

  /// What it answers about renewals from now on: an answer of Python, in which `now` is a datetime and `delta` a timedelta.
  package func suggest(_ start: String, _ end: String) throws {
    try scene.write("window.new", text: "\(start)|\(end)")
    rename(scene.path("window.new"), scene.path("window"))
  }

  package func issuer(_ lines: String = "") -> String {
    """
    acme_issuer own { uri https://localhost:\(port)/dir; ssl_trusted_certificate acme-ca.pem; state_path state; \(lines) }
    """
  }

  private static let source = #"""
    import base64, datetime, http.server, json, os, ssl
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    delta = datetime.timedelta
    def now(): return datetime.datetime.now(datetime.timezone.utc)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "issuing")])
    root = (x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
            .serial_number(1).not_valid_before(now() - delta(days=1)).not_valid_after(now() + delta(days=9))
            .add_extension(x509.BasicConstraints(True, None), True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False).sign(key, hashes.SHA256()))
    orders, chains, replaced = {}, {}, set()

    def decode(text): return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    def pem(certificate): return certificate.public_bytes(serialization.Encoding.PEM)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words): pass

        def answer(self, value, status=200, **fields):
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Replay-Nonce", "bm9uY2U")
            for name, text in fields.items(): self.send_header(name.replace("_", "-"), text)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD": self.wfile.write(body)

        def all(self):
            payload = {}
            if self.command == "POST":
                text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["payload"]
                payload = json.loads(decode(text)) if text else {}
            base = f"https://localhost:{port}"
            parts = self.path.split("/")[1:]
            if parts[0] == "dir":
                return self.answer({
                    "newNonce": base + "/nonce", "newAccount": base + "/account", "newOrder": base + "/new",
                    "renewalInfo": base + "/renewal", "meta": {"profiles": {"short": "six days", "long": "ninety days"}}})
            if parts[0] == "account": return self.answer({"status": "valid"}, 201, Location=base + "/account/1")
            if parts[0] == "renewal":
                print("renewal", parts[1], flush=True)
                if not os.path.exists("window"): return self.answer({}, 404)
                words = open("window").read().split("|")
                start, end = (eval(word).strftime("%Y-%m-%dT%H:%M:%SZ") for word in words)
                return self.answer({"suggestedWindow": {"start": start, "end": end}}, Retry_After="21600")
            if parts[0] == "new":
                print("order", json.dumps(payload), flush=True)
                if payload.get("replaces") in replaced:
                    return self.answer({"type": "urn:ietf:params:acme:error:alreadyReplaced", "detail": "it has a successor"}, 409)
                number = str(len(orders) + 1)
                orders[number] = payload
                return self.answer(self.order(number, "ready"), 201, Location=base + "/order/" + number)
            if parts[0] == "finalize":
                request = x509.load_der_x509_csr(decode(payload["csr"]))
                order = orders[parts[1]]
                if order.get("replaces"): replaced.add(order["replaces"])
                days = 6 if order.get("profile") == "short" else 90
                names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
                leaf = (x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(subject)
                        .public_key(request.public_key()).serial_number(x509.random_serial_number())
                        .not_valid_before(now() - delta(hours=1)).not_valid_after(now() + delta(days=days))
                        .add_extension(names, True)
                        .add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH]), False)
                        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), False)
                        .sign(key, hashes.SHA256()))
                chains[parts[1]] = pem(leaf) + pem(root)
                return self.answer(self.order(parts[1], "valid"))
            if parts[0] == "certificate": return self.answer(chains[parts[1]])
            return self.answer({})

        def order(self, number, status):
            base = f"https://localhost:{port}"
            return {"status": status, "identifiers": orders[number]["identifiers"], "authorizations": [base + "/authz"],
                    "finalize": base + "/finalize/" + number, "certificate": base + "/certificate/" + number}

        do_GET = do_HEAD = do_POST = all
    """#
}
