import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `A proxy_pass with variables` {
  @Test func `names its upstream in Host, and judges it under that name`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let plain = try ScriptedUpstream.echo(scene)
    let secure = try await OpenSSLServer.start(
      scene, scene.identity("upstream", authority.server(names: ["localhost"])), "-www")
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        server {
          listen 127.0.0.1:\(port);
          set $plain 127.0.0.1:\(plain.port);
          location /head { proxy_pass http://$plain; add_header X-Port $proxy_port; }
          location /secure {
            set $name localhost:\(secure.port);
            proxy_pass https://$name/; proxy_ssl_trusted_certificate anchors.pem;
          }
          location /wrong {
            set $name 127.0.0.1:\(secure.port);
            proxy_pass https://$name/; proxy_ssl_trusted_certificate anchors.pem;
          }
        }
        """))
    let head = try await scene.curl(["http://127.0.0.1:\(port)/head"])
    #expect(head.text.split(whereSeparator: \.isNewline).contains("Host: 127.0.0.1:\(plain.port)"))
    #expect(head["X-Port"] == "\(plain.port)")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/secure"]).status == 200)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/wrong"]).status == 502)
    try await daemon.logged("name: upstream SSL certificate does not match \"127.0.0.1\"")
  }
}
