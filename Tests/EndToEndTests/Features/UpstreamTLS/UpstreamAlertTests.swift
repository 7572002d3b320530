import TestSupport
import Testing

@Suite(.staged) struct `What an upstream says of our certificate` {
  /// In TLS 1.3 the alert comes after the handshake is over for us, in place of an answer.
  @Test(arguments: ["-tls1_2", "-tls1_3"])
  func `an upstream that demands a certificate and gets none is logged with its alert`(version: String) async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let upstream = try await OpenSSLServer.start(
      scene, scene.identity("upstream", authority.server()), "-Verify", "1", "-verify_return_error", version)
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      server {
        listen 127.0.0.1:\(port);
        location / { proxy_pass https://localhost:\(upstream.port); proxy_ssl_trusted_certificate anchors.pem; }
      }
      """)
    let answer = try await scene.curl(["http://127.0.0.1:\(port)/"])
    #expect(answer.status == 502)
    let line = try await daemon.logged("[error]", "upstream", "alert")
    if version == "-tls1_3" {
      #expect(line.contains("SSL_read() failed"))
      #expect(line.contains("certificate required"))
      #expect(line.contains("while reading response header from upstream"))
    } else {
      #expect(line.contains("while SSL handshaking to upstream"))
    }
  }
}
