import Foundation
import TestSupport
import Testing

/// When a session ticket and the end of TLS leave (RFC 8446 §4.6.1, §6.1). Each send of its own costs the kernel a packet
/// and the client a wake-up.
@Suite(.staged) struct `What leaves with a response` {
  /// A TLS 1.3 client that sends its request together with the last bytes of its handshake, or with a second argument
  /// `silent` sends none. Prints for each piece that arrives what the client has after it.
  private static let client = """
    import socket, ssl, sys
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain("alice.pem", "alice.key")
    session = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    client.settimeout(60)
    while True:
        try: session.do_handshake(); break
        except ssl.SSLWantReadError:
            client.sendall(outgoing.read())
            incoming.write(client.recv(65536))
    if sys.argv[2] != "silent":
        session.write(b"GET / HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: " + sys.argv[2].encode() + b"\\r\\n\\r\\n")
    client.sendall(outgoing.read())
    response, state = b"", "open"
    while state == "open":
        piece = client.recv(65536)
        assert piece, "the connection ended before the end of TLS"
        incoming.write(piece)
        try:
            while data := session.read(65536): response += data
            state = "ended"
        except ssl.SSLZeroReturnError: state = "ended"
        except ssl.SSLWantReadError: pass
        print("ticket" if session.session.has_ticket else "none", response[-4:].decode() or "nothing", state)
        if sys.argv[2] in ("silent", "keep-alive"): break
    """

  private func stage(_ scene: Scene) async throws -> UInt16 {
    _ = try Cast(scene)
    let port = try scene.port(), upstream = try ScriptedUpstream.echo(scene)
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; \(Cast.tls)
        location / { proxy_pass http://127.0.0.1:\(upstream.port); }
      }
      """)
    return port
  }

  private func told(_ scene: Scene, _ port: UInt16, _ request: String) async throws -> [Substring] {
    try await scene.run("python3", ["-c", Self.client, "\(port)", request]).text.split(separator: "\n")
  }

  @Test func `the ticket leaves with the response, and so does the end of TLS`() async throws {
    let scene = try Scene.ofTest(), port = try await stage(scene)
    let lines = try await told(scene, port, "close")
    #expect(lines.count == 1, "\(lines)")
    #expect(lines.first?.hasPrefix("ticket") == true && lines.first?.hasSuffix("ended") == true)
    #expect(lines.first?.contains("nothing") == false)
  }

  @Test func `the ticket leaves with the response of a connection that stays`() async throws {
    let scene = try Scene.ofTest(), port = try await stage(scene)
    let line = try await told(scene, port, "keep-alive").first
    #expect(line?.hasPrefix("ticket") == true && line?.hasSuffix("open") == true)
    #expect(line?.contains("nothing") == false)
  }

  @Test func `a client that asks for nothing has its ticket at once`() async throws {
    let scene = try Scene.ofTest(), port = try await stage(scene)
    #expect(try await told(scene, port, "silent") == ["ticket nothing open"])
  }
}
