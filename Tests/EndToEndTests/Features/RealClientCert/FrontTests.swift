import TestSupport
import Testing

/// nginx ends TLS, and asks clients for certificates without judging them.
@Suite(.staged) struct `nginx as a front` {
  @Test(arguments: ["--http1.1", "--http2"], [false, true])
  func `the client of nginx is judged here`(version: String, isPlain: Bool) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let balancer = try scene.identity("lb", cast.authority.client(commonName: "lb"))
    let front = try await FrontedProxy(
      scene, verify: "optional", fronts: isPlain ? ["127.0.0.1"] : ["cn=lb"], field: .pem, isPlain: isPlain)
    let port = try scene.port()
    let upstream = isPlain ? "http://127.0.0.1:\(front.plain)" : "https://127.0.0.1:\(front.port)"
    _ = try await NginxUpstream.start(
      scene, ports: [port],
      """
      server {
        listen 127.0.0.1:\(port) ssl http2; ssl_certificate \(cast.server.certificate);
        ssl_certificate_key \(cast.server.key); ssl_verify_client optional_no_ca;
        location / { proxy_pass \(upstream); proxy_http_version 1.1; proxy_set_header Connection "";
          proxy_set_header Host localhost; proxy_set_header X-Client-Cert $ssl_client_escaped_cert;
          proxy_ssl_certificate \(balancer.certificate); proxy_ssl_certificate_key \(balancer.key); }
      }
      """)
    func ask(_ identity: IdentityFiles?, _ words: [String] = []) async throws -> CurlResult {
      try await scene.curl(
        [version] + cast.to(port) + (identity?.curl ?? []) + words + ["https://localhost/head"])
    }
    let alice = try await ask(cast.alice)
    #expect(alice.status == 200 && alice["x-verify"] == "SUCCESS" && alice["x-cn"] == "alice")
    #expect(isPlain || alice.text.contains("X-Front: "))
    let expired = try scene.identity("expired", cast.authority.client(.expired))
    #expect(try await ask(expired).status == 400)
    let foreign = try scene.identity("foreign", TestAuthority("Other").client())
    #expect(try await ask(foreign).status == 400)
    // nginx replaces what its client writes, and sends no empty field.
    let words =
      FrontField.pem.curl(cast.alice.certified) + ["-H", "x_client_cert: forged", "-H", "x.client.cert: forged"]
    let none = try await ask(nil, words)
    #expect(none.status == 200 && none["x-verify"] == "NONE" && !none.text.contains("forged"))
    #expect(try await ask(expired, words).status == 400)
  }
}

/// HAProxy ends TLS, and shows sallyport a certificate of its own. Its connections to sallyport carry requests of many
/// clients, over HTTP/2 side by side.
@Suite(.staged) struct `HAProxy as a front` {
  @Test(arguments: ["http/1.1", "h2"]) func `each request is its own client's`(upstream: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let balancer = try scene.identity("lb", cast.authority.client(commonName: "lb"))
    let front = try await FrontedProxy(scene, verify: "optional", fronts: ["cn=lb"], field: .der)
    let port = try scene.port()
    func pair(_ name: String, _ files: IdentityFiles) throws -> String {
      try scene.write("\(name).both", text: scene.text("\(name).pem") + scene.text("\(name).key"))
    }
    let (shown, own) = try (pair("server", cast.server), pair("lb", balancer))
    try await HAProxy.start(
      scene, port: port, to: front.port,
      bind: """
        ssl crt \(shown) ca-file \(scene.path("ca.pem")) verify optional crt-ignore-err all ca-ignore-err all
          http-request set-header \(FrontField.der.name) %[ssl_c_der,base64]
        """,
      server: "ssl verify none crt \(own) alpn \(upstream) sni str(localhost)")
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let expired = try scene.identity("expired", cast.authority.client(.expired))
    let forged = FrontField.der.curl(cast.alice.certified)
    func ask(_ identity: IdentityFiles?) async throws -> CurlResult {
      try await scene.curl(
        ["--http1.1"] + cast.to(port) + (identity?.curl ?? []) + forged + ["https://localhost/head"])
    }
    for _ in 0..<3 {
      async let one = ask(cast.alice), two = ask(bob), three = ask(nil), four = ask(expired)
      let answers = try await (one, two, three, four)
      #expect(answers.0["x-cn"] == "alice" && answers.0.text.contains("X-Front: "))
      #expect(answers.1["x-cn"] == "bob")
      #expect(answers.2.status == 200 && answers.2["x-verify"] == "NONE" && answers.2["x-cn"] == nil)
      #expect(answers.3.status == 400)
    }
  }
}
