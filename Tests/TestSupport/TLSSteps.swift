/// A side of a TLS connection that does what it is told, step by step: for what s_client and s_server can't do, such as an
/// end without close_notify, or bytes before the handshake.
package struct TLSSteps: Sendable {
  private let steps: [String]

  /// The steps of the script `tls`.
  package init(_ steps: String...) { self.steps = steps }

  fileprivate func arguments(_ role: String, _ port: UInt16, _ folder: String) -> [String] {
    [role, "\(port)", folder] + steps
  }
}

extension PythonScript {
  /// tls ROLE PORT FOLDER STEP…: a connection that does these steps, and prints what came. As a server, each connection
  /// does, and prints a line. With ca.pem, alice.pem and server.pem of FOLDER.
  ///
  ///     name=NAME alpn=NAME as=IDENTITY   for the handshake; IDENTITY may be none
  ///     clear=TEXT hear=N                 sends bytes before TLS; prints N that came before it
  ///     tls                               the handshake
  ///     send=TEXT read=N                  inside TLS
  ///     many=N                            sends N bytes
  ///     empty=N                           sends N records of TLS 1.3 without data; what is sent after them is sealed likewise
  ///     notify fin reset                  close_notify; FIN; RST
  ///     rest                              prints what comes until the end, and how that came: <end> after a close_notify,
  ///                                       <cut> without one, <reset>
  ///     count                             the same with the number of bytes
  ///     wait                              waits for the peer's end
  static let tlsSource = #"""
    import socket, ssl, struct, sys, threading

    role, port, folder, steps = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]

    class Side:
        def __init__(self, plain):
            self.plain, self.text = plain, ""
            self.inward, self.outward = ssl.MemoryBIO(), ssl.MemoryBIO()
            self.name, self.alpn, self.identity, self.inside = "localhost", None, None, None
            # How many records of data were sent, and whether OpenSSL's own count of them is behind.
            self.sent, self.seals, self.keys = 0, False, f"{folder}/{id(self)}.keys"
            self.isNotified = False

        # Alerts of the peer (RFC 8446 §6.1).
        def hear(self, inside, direction, version, kind, message, data):
            if direction == "read" and int(kind) == 21 and bytes(data)[1:2] == b"\0": self.isNotified = True

        def begin(self):
            server = role == "server"
            made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
            made.load_verify_locations(folder + "/ca.pem")
            identity = self.identity or ("server" if server else "alice")
            if identity != "none": made.load_cert_chain(f"{folder}/{identity}.pem", f"{folder}/{identity}.key")
            if any(step.startswith("empty=") for step in steps): made.keylog_filename = self.keys
            if self.alpn: made.set_alpn_protocols([self.alpn])
            made._msg_callback = self.hear
            self.inside = made.wrap_bio(self.inward, self.outward, server, None if server else self.name)
            self.repeat(self.inside.do_handshake)

        def repeat(self, action):
            while True:
                try: return action()
                except ssl.SSLWantReadError:
                    self.flush()
                    data = self.plain.recv(65536)
                    if data: self.inward.write(data)
                    else: self.inward.write_eof()
                finally: self.flush()

        def flush(self):
            data = self.outward.read()
            if data: self.plain.sendall(data)

        def write(self, data):
            if self.seals: return self.seal(data)
            self.inside.write(data)
            self.sent += 1
            self.flush()

        # One record of TLS 1.3 (RFC 8446 §5.2), which OpenSSL would not write when it is empty.
        def seal(self, data):
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
            from cryptography.hazmat.primitives.hashes import SHA256, SHA384
            from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

            with open(self.keys) as lines:
                secret = next(bytes.fromhex(line.split()[2]) for line in lines if line.startswith("CLIENT_TRAFFIC_SECRET_0 "))
            is256 = self.inside.cipher()[0] == "TLS_AES_256_GCM_SHA384"
            def derived(label, size):
                info = struct.pack(">HB", size, 6 + len(label)) + b"tls13 " + label + b"\0"
                return HKDFExpand(SHA384() if is256 else SHA256(), size, info).derive(secret)
            inner = data + b"\x17"
            header = b"\x17\x03\x03" + struct.pack(">H", len(inner) + 16)
            nonce = bytes(a ^ b for a, b in zip(derived(b"iv", 12), self.sent.to_bytes(12, "big")))
            self.plain.sendall(header + AESGCM(derived(b"key", 32 if is256 else 16)).encrypt(nonce, inner, header))
            self.sent += 1

        def read(self):
            if self.inside is None: return self.plain.recv(65536)
            return self.repeat(lambda: self.inside.read(65536))

        def rest(self):
            data = b""
            try:
                while piece := self.read(): data += piece
                # Debian 12's Python ends a read for a cut as it does for the peer's close_notify.
                end = "<end>" if self.inside is None or self.isNotified else "<cut>"
            except ssl.SSLZeroReturnError: end = "<end>"
            except ssl.SSLEOFError: end = "<cut>"
            except ssl.SSLError as error: end = "<" + str(error.reason) + ">"
            except ConnectionResetError: end = "<reset>"
            return data, end

        def step(self, step):
            word, _, value = step.partition("=")
            data = value.encode("latin-1").decode("unicode_escape").encode("latin-1")
            if word == "name": self.name = value
            elif word == "alpn": self.alpn = value
            elif word == "as": self.identity = value
            elif word == "clear": self.plain.sendall(data)
            elif word == "hear":
                for _ in range(int(value)): self.text += self.plain.recv(1).decode("latin-1")
            elif word == "tls": self.begin()
            elif word == "send": self.write(data)
            elif word == "many":
                for _ in range(int(value) // 1000): self.write(b"x" * 1000)
            elif word == "empty":
                self.seals = True
                try:
                    for _ in range(int(value)): self.seal(b"")
                except OSError: pass
            elif word == "read":
                data = b""
                while len(data) < int(value):
                    piece = self.repeat(lambda: self.inside.read(int(value) - len(data)))
                    if not piece: raise EOFError("ended")
                    data += piece
                self.text += data.decode("latin-1")
            elif word == "notify":
                try: self.inside.unwrap()
                except ssl.SSLWantReadError: pass
                self.flush()
            elif word == "fin": self.plain.shutdown(socket.SHUT_WR)
            elif word == "reset":
                self.plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.plain.close()
            elif word == "rest":
                data, end = self.rest()
                self.text += data.decode("latin-1") + end
            elif word == "count":
                data, end = self.rest()
                self.text += str(len(data)) + end
            elif word == "wait":
                try:
                    while self.plain.recv(65536): pass
                except OSError: pass
            else: raise ValueError(step)

        def run(self):
            try:
                for step in steps: self.step(step)
            except Exception as error: self.text += f"<{type(error).__name__}: {error}>"
            print(self.text, flush=True)
            self.plain.close()

    if role == "server":
        listener = socket.create_server(("127.0.0.1", port))
        print("listens", file=sys.stderr, flush=True)
        while True:
            plain, _ = listener.accept()
            plain.settimeout(20)
            threading.Thread(target=Side(plain).run).start()
    Side(socket.create_connection(("127.0.0.1", port), 20)).run()
    """#
}

extension Scene {
  /// What a client that does these steps prints.
  package func tlsClient(_ port: UInt16, _ steps: TLSSteps) async throws -> String {
    let path = try write("tls.py", text: PythonScript.tls.source)
    let result = try await run("python3", [path] + steps.arguments("client", port, folder))
    return result.everything.hasSuffix("\n") ? String(result.everything.dropLast()) : result.everything
  }

  /// A server whose connections do these steps.
  package func tlsServer(_ steps: TLSSteps) async throws -> TLSServer {
    let port = try port()
    let path = try write("tls.py", text: PythonScript.tls.source)
    let name = "tls-\(port)"
    let process = try ChildProcess(
      "python3", [path] + steps.arguments("server", port, folder), in: folder, output: self.path("\(name).out"),
      errors: self.path("\(name).err"))
    atEnd { process.stop() }
    onFailure(show: name) { self.text("\(name).out") + self.text("\(name).err") }
    try await until("the server of steps to listen") {
      if let ending = process.ending { throw ToolFailed(description: "\(name): \(ending)") }
      return self.text("\(name).err").contains("listens")
    }
    return TLSServer(scene: self, port: port, name: name)
  }
}

/// A server of `TLSSteps`.
package struct TLSServer: Sendable {
  fileprivate let scene: Scene
  package let port: UInt16
  fileprivate let name: String

  /// What the connections that are over have printed, in the order of their ends.
  package var lines: [String] { scene.text("\(name).out").split(separator: "\n").map(String.init) }

  /// Waits for the line of a connection.
  package func line(_ number: Int = 0) async throws -> String {
    try await waiting(for: "a line of the server of steps") { lines.dropFirst(number).first }
  }
}
