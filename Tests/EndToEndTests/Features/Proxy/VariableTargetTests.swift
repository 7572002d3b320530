import TestSupport
import Testing

@Suite(.staged) struct `A proxy_pass with variables` {
  /// One upstream in clear, and one with TLS that anchors.pem verifies.
  private func upstreams(_ scene: Scene) async throws -> (plain: ScriptedUpstream, secure: OpenSSLServer) {
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let identity = try scene.identity("upstream", authority.server(names: ["localhost"]))
    return (try ScriptedUpstream.echo(scene), try await OpenSSLServer.start(scene, identity, "-www"))
  }

  @Test func `names its upstream in Host, and judges it under that name`() async throws {
    let scene = try Scene.ofTest(), (plain, secure) = try await upstreams(scene), port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
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
      """)
    let head = try await scene.curl(["http://127.0.0.1:\(port)/head"])
    #expect(head.text.split(whereSeparator: \.isNewline).contains("Host: 127.0.0.1:\(plain.port)"))
    #expect(head["X-Port"] == "\(plain.port)")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/secure"]).status == 200)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/wrong"]).status == 502)
    try await daemon.logged("name: upstream SSL certificate does not match \"127.0.0.1\"")
  }

  @Test func `takes the scheme from a value, and each scheme has the trust settings of the location`() async throws {
    let scene = try Scene.ofTest(), (plain, secure) = try await upstreams(scene), port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      map $arg_to $target {
        plain http://127.0.0.1:\(plain.port);
        secure https://localhost:\(secure.port)/;
        loud HTTPS://localhost:\(secure.port)/;
        bare localhost:\(secure.port);
        other ftp://localhost:\(secure.port);
        scheme http://;
      }
      map $arg_to $proto { plain http; default https; }
      server {
        listen 127.0.0.1:\(port);
        location /head { proxy_pass $target; proxy_ssl_trusted_certificate anchors.pem; }
        location /parts {
          set $app localhost; set $port \(secure.port);
          proxy_pass $proto://$app:$port/; proxy_ssl_trusted_certificate anchors.pem;
        }
        location /anybody { proxy_pass $target; proxy_ssl_verify off; }
        location /silent { proxy_pass $arg_scheme://127.0.0.1:\(plain.port); }
      }
      """)
    func status(_ path: String) async throws -> Int? {
      try await scene.curl(["http://127.0.0.1:\(port)/\(path)"]).status
    }
    let head = try await scene.curl(["http://127.0.0.1:\(port)/head?to=plain"])
    #expect(head.text.split(whereSeparator: \.isNewline).contains("GET /head?to=plain HTTP/1.1"))
    #expect(head.text.split(whereSeparator: \.isNewline).contains("Host: 127.0.0.1:\(plain.port)"))
    for path in ["head?to=secure", "head?to=loud", "parts", "anybody?to=secure", "silent?scheme=http"] {
      #expect(try await status(path) == 200, "\(path)")
    }
    // As in nginx: no scheme, another one, none at all, or nothing behind it.
    for path in ["head?to=bare", "head?to=other", "head", "head?to=scheme"] {
      #expect(try await status(path) == 500, "\(path)")
    }
    try await daemon.logged("invalid URL prefix in \"ftp://localhost:\(secure.port)\"")
  }

  @Test func `sends nothing to an https upstream of which nothing is said`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      upstream group { server 127.0.0.1:\(upstream.port); }
      server {
        listen 127.0.0.1:\(port);
        location / { proxy_pass $arg_scheme://127.0.0.1:\(upstream.port); }
        location /group { proxy_pass $arg_scheme://group; }
        location /grpc { grpc_pass $arg_scheme://127.0.0.1:\(upstream.port); }
      }
      """)
    for path in ["?scheme=https", "?scheme=HttpS", "group?scheme=https", "grpc?scheme=grpcs"] {
      let answer = try await scene.curl(["http://127.0.0.1:\(port)/\(path)"])
      #expect(answer.status == 502 || answer["grpc-status"] != nil, "\(path)")
    }
    #expect(upstream.connections == 0)
    try await daemon.logged("no trust settings for the https upstream", "that the variables of")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/group?scheme=http"]).status == 200)
  }
}
