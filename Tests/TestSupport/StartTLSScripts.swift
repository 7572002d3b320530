import Foundation

/// A server in Python that begins in clear, in the words of PostgreSQL, SMTP, IMAP, POP3 or LDAP.
package enum StartTLSScripts {
  /// FOLDER KIND IDENTITY [WORD…]: TLS with IDENTITY.pem and .key once it is asked for. WORD: `refuse`: it agrees to no
  /// TLS. `inject`: bytes in clear stand behind its agreement. `mutual`: it wants a client certificate of ca.pem.
  /// `tls`: TLS begins at once, and its greeting is inside. `plain`: no TLS at all. `header`: it wants a header of the PROXY
  /// protocol first. Inside TLS it greets if the protocol does, and answers the last question of a client. Prints a line
  /// for each thing it heard.
  package static let server = #"""
    import socket, ssl, sys, threading
    folder, kind, identity, *words = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{folder}/{identity}.pem", f"{folder}/{identity}.key")
    if "mutual" in words:
        context.load_verify_locations(f"{folder}/ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED

    greetings = {"smtp": b"220 mail.test ESMTP\r\n", "imap": b"* OK ready\r\n", "pop3": b"+OK ready\r\n"}
    done = bytes.fromhex("300c02010178070a010004000400")
    agreed = {"postgres": b"S", "smtp": b"220 go\r\n", "imap": b"a1 OK go\r\n", "pop3": b"+OK go\r\n", "ldap": done}
    refusals = {"postgres": b"N", "smtp": b"454 no TLS today\r\n", "imap": b"a1 NO not today\r\n",
        "pop3": b"-ERR not today\r\n", "ldap": bytes.fromhex("301502010178100a0134040004096e6f7420746f646179")}
    answers = {"postgres": b"E\0\0\0\x31SFATAL\0C28000\0Mno PostgreSQL user name specified\0\0", "smtp": b"221 bye\r\n",
        "imap": b"* BYE\r\na2 OK bye\r\n", "pop3": b"+OK bye\r\n", "ldap": done[:4] + b"\2" + done[5:]}

    def line(stream):
        text = b""
        while not text.endswith(b"\n"):
            more = stream.recv(1)
            if not more: raise EOFError
            text += more
        return text

    # print writes a line in parts, between which other threads may write theirs.
    def say(*words):
        sys.stdout.write(" ".join(str(word) for word in words) + "\n")
        sys.stdout.flush()

    def negotiate(stream):
        if kind in greetings: stream.sendall(greetings[kind])
        if kind == "smtp":
            say("heard", line(stream))
            stream.sendall(b"250-mail.test\r\n250 STARTTLS\r\n")
        say("heard", line(stream) if kind in greetings else stream.recv(4096))
        if "refuse" in words:
            stream.sendall(refusals[kind])
            return False
        stream.sendall(agreed[kind] + (b"injected\r\n" if "inject" in words else b""))
        return True

    def serve(stream):
        try:
            if "header" in words: say("header", line(stream))
            if "plain" not in words:
                if "tls" not in words and not negotiate(stream): return
                stream = context.wrap_socket(stream, server_side=True)
                peer = stream.getpeercert()
                say("peer", dict(x[0] for x in peer["subject"])["commonName"] if peer else "none")
            if ("tls" in words or "plain" in words) and kind in greetings: stream.sendall(greetings[kind])
            while True:
                bytes = stream.recv(4096)
                if not bytes: break
                say("inside", bytes)
                stream.sendall(answers[kind])
            say("left")
        except Exception as error: say("error", repr(error))
        finally: stream.close()

    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    say("up", listener.getsockname()[1])
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
    """#
}

/// One such server.
package final class StartTLSServer: Sendable {
  package let port: UInt16
  private let scene: Scene
  private let name: String

  package static func start(
    _ scene: Scene, _ kind: String, _ identity: String = "server", _ words: String...
  ) async throws -> StartTLSServer {
    let name = (["starttls", kind] + words).joined(separator: "-") + "-\(UUID().uuidString.prefix(8))"
    let script = try scene.write("\(name).py", text: StartTLSScripts.server)
    let process = try ChildProcess(
      "python3", [script, scene.folder, kind, identity] + words, in: scene.folder, output: scene.path("\(name).out"),
      errors: scene.path("\(name).err"))
    scene.atEnd { process.stop() }
    scene.onFailure(show: name) { scene.text("\(name).out") + scene.text("\(name).err") }
    let port = try await waiting(for: "the server \(name)") {
      if let ending = process.ending { throw ToolFailed(description: "\(name): \(ending)") }
      return scene.text("\(name).out").firstMatch(of: /up (\d+)\n/).flatMap { UInt16($0.output.1) }
    }
    return StartTLSServer(scene, name, port)
  }

  private init(_ scene: Scene, _ name: String, _ port: UInt16) {
    self.scene = scene
    self.name = name
    self.port = port
  }

  /// What it printed after this first word, line by line.
  package func lines(_ word: String) -> [String] {
    // Behind the last line feed, a line isn't whole yet.
    let text = scene.text("\(name).out")
    return text[..<(text.lastIndex(of: "\n") ?? text.startIndex)].split(separator: "\n").filter {
      $0.hasPrefix("\(word) ") || $0 == word[...]
    }.map {
      String($0.dropFirst(word.count + 1))
    }
  }
}
