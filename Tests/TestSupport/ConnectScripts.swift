import Foundation

/// A proxy of HTTP in Python that makes tunnels.
package enum ConnectScripts {
  /// MODE [NAME:PORT=PORT…]: a tunnel to a name leads to a port of the loopback; a name that it doesn't know gets 502.
  /// MODE: `open`, `auth` (wants al:secret), `refuse` (403), `garbage`, `cut` (it closes in its head), `mute` (it never
  /// answers), `endless` (a head without an end), `interim` (100 first, and HTTP/1.0), `early` (bytes behind the head that
  /// are none of the server's). Prints a line for each request, and one for each PROXY header that comes before it.
  package static let proxy = #"""
    import base64, socket, sys, threading, time
    mode, *routes = sys.argv[1:]
    routes = dict(route.split("=") for route in routes)

    def say(*words):
        sys.stdout.write(" ".join(str(word) for word in words) + "\n")
        sys.stdout.flush()

    def pump(one, other):
        try:
            while True:
                piece = one.recv(65536)
                if not piece: break
                other.sendall(piece)
        except OSError: pass
        # Also after a reset: else the other side would wait for ever.
        try: other.shutdown(socket.SHUT_WR)
        except OSError: pass

    def serve(client):
        try:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = client.recv(4096)
                if not piece: return
                head += piece
            head, rest = head.split(b"\r\n\r\n", 1)
            lines = head.decode().split("\r\n")
            fields = dict(line.split(": ", 1) for line in lines[1:])
            user = fields.get("Proxy-Authorization", "")
            if user.startswith("Basic "): user = base64.b64decode(user[6:]).decode()
            say("asked", lines[0], fields.get("Host"), user or "-", rest, len(fields))
            if mode == "mute":
                client.recv(1)
                return
            if mode == "garbage": return client.sendall(b"\x15\x03\x01\x00\x02\x02\x28\r\n")
            if mode == "cut": return client.sendall(b"HTTP/1.1 200 Connection est")
            if mode == "refuse": return client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
            if mode == "endless":
                client.sendall(b"HTTP/1.1 200 OK\r\n")
                while True: client.sendall(b"X: " + b"y" * 1000 + b"\r\n")
            if mode == "auth" and user != "al:secret":
                return client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n"
                    b"Proxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n")
            name = lines[0].split(" ")[1]
            if name not in routes: return client.sendall(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            server = socket.create_connection(("127.0.0.1", int(routes[name])))
            if mode == "interim": client.sendall(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 Connection established\r\n\r\n")
            elif mode == "early": client.sendall(b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfalse")
            else: client.sendall(b"HTTP/1.1 200 Connection established\r\nVia: 1.1 proxy.test\r\n\r\n")
            if rest: server.sendall(rest)
            back = threading.Thread(target=pump, args=(server, client), daemon=True)
            back.start()
            pump(client, server)
            back.join()
        except Exception as error: say("error", repr(error))
        finally: client.close()

    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    say("up", listener.getsockname()[1])
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
    """#
}

/// One such proxy.
package final class ConnectProxyServer: Sendable {
  package let port: UInt16
  private let scene: Scene
  private let name: String

  package static func start(
    _ scene: Scene, _ mode: String = "open", _ routes: [String: UInt16] = [:]
  ) async throws -> ConnectProxyServer {
    let name = "connect-\(mode)-\(UUID().uuidString.prefix(8))"
    let script = try scene.write("\(name).py", text: ConnectScripts.proxy)
    let process = try ChildProcess(
      "python3", [script, mode] + routes.map { "\($0.key)=\($0.value)" }, in: scene.folder,
      output: scene.path("\(name).out"), errors: scene.path("\(name).err"))
    scene.atEnd { process.stop() }
    scene.onFailure(show: name) { scene.text("\(name).out") + scene.text("\(name).err") }
    let port = try await waiting(for: "the proxy \(name)") {
      if let ending = process.ending { throw ToolFailed(description: "\(name): \(ending)") }
      return scene.text("\(name).out").firstMatch(of: /up (\d+)\n/).flatMap { UInt16($0.output.1) }
    }
    return ConnectProxyServer(scene, name, port)
  }

  private init(_ scene: Scene, _ name: String, _ port: UInt16) {
    self.scene = scene
    self.name = name
    self.port = port
  }

  /// The requests for tunnels: the request line, Host, the user, what came behind the head, and the number of fields.
  package var requests: [String] {
    // Behind the last line feed, a line isn't whole yet.
    let text = scene.text("\(name).out")
    return text[..<(text.lastIndex(of: "\n") ?? text.startIndex)].split(separator: "\n").filter {
      $0.hasPrefix("asked ")
    }.map { String($0.dropFirst(6)) }
  }
}
