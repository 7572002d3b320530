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
