import TestSupport
import Testing

/// RFC 7301, and what ALPACA makes of servers that take no notice of it.
@Suite(.staged) struct `ALPN` {
  private static func handshake(_ offered: String?, isRefused: Bool = false) async throws -> String {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      log_format alpn 'alpn=<$ssl_alpn_protocol>'; access_log alpn.log alpn;
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; ssl_certificate server.pem;
        ssl_certificate_key server.key; return 204; }
      """)
    let result = try await scene.run(
      "openssl",
      ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", "localhost", "-ign_eof"]
        + (offered.map { ["-alpn", $0] } ?? []),
      input: Array("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8))
    if !isRefused { try await until("the access log's line") { !scene.text("alpn.log").isEmpty } }
    return result.everything + scene.text("alpn.log")
  }

  @Test(arguments: ["http/1.1", "h2,http/1.1", "http/1.1,h2"])
  func `confirms HTTP 1_1 where the client offers it`(offered: String) async throws {
    let seen = try await Self.handshake(offered)
    #expect(seen.contains("ALPN protocol: http/1.1") && seen.contains("HTTP/1.1 204"))
    #expect(seen.contains("alpn=<http/1.1>"))
  }

  @Test(arguments: ["h2", "ftp", "http/1.1x", "imap,pop3"])
  func `refuses a client that offers other protocols alone (ALPACA)`(offered: String) async throws {
    let seen = try await Self.handshake(offered, isRefused: true)
    #expect(seen.contains("alert number 120") && !seen.contains("HTTP/1.1 204"))
  }

  @Test func `serves a client that offers nothing`() async throws {
    let seen = try await Self.handshake(nil)
    #expect(seen.contains("No ALPN negotiated") && seen.contains("HTTP/1.1 204"))
  }
}
