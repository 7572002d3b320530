import Foundation
import TestSupport
import Testing

/// One upstream behind several server blocks, of which some ask nobody for a certificate.
@Suite(.stagedOverBoth) struct `Doors to an upstream` {
  static let forged = [
    "X-Client-DN: CN=root", "X_Client_DN: CN=root", "x.client.dn: CN=root", "X-Client-Verify: CN=root",
    "Client-Cert: :AA==:", "Client-Cert-Chain: :AA==:",
  ]

  /// CVE-2026-46579 and its like: a plain listener takes what only the listener with TLS may say.
  @Test func `CVE-2026-46579: who a client is comes from no client of another server block, a plain one either`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let (mutual, open, plain) = (try scene.port(), try scene.port(), try scene.port())
    let tls = "ssl_certificate server.pem; ssl_certificate_key server.key;"
    _ = try await Sallyport.serve(
      scene,
      """
      underscores_in_headers on; ignore_invalid_headers off;
      upstream erp { server 127.0.0.1:\(upstream.port); }
      server { listen 127.0.0.1:\(mutual) ssl; \(tls) ssl_client_certificate ca.pem; ssl_verify_client on;
        proxy_set_header X-Client-DN $ssl_client_s_dn; proxy_set_header X-Client-Verify $ssl_client_verify;
        client_identity rfc9440; location / { proxy_pass http://erp; } }
      server { listen 127.0.0.1:\(open) ssl; \(tls) location / { proxy_pass http://127.0.0.1:\(upstream.port); } }
      server { listen 127.0.0.1:\(plain);
        location / { proxy_pass http://erp; mirror /copy; }
        location = /copy { internal; proxy_pass http://localhost:\(upstream.port)/copy/head; }
        location /asked/ { auth_request /ask; proxy_pass http://127.0.0.1:\(upstream.port); }
        location = /ask { internal; proxy_pass http://erp/ask/head; }
        location /named/ { proxy_pass http://$arg_to; }
        location /says/ { proxy_pass http://erp; proxy_set_header X-Client-DN $http_x_client_dn; } }
      """)
    let fields = Self.forged.flatMap { ["-H", $0] } + ["-H", "X-Stays: yes"]
    let told = try await scene.curl(cast.to(mutual) + cast.alice.curl + fields + ["https://localhost/head"])
    #expect(told.status == 200 && told.text.contains("CN=alice") && !told.text.contains("CN=root"))
    let other = try await scene.curl(cast.to(open) + fields + ["https://localhost/head"])
    #expect(other.status == 200)
    for path in ["/head", "/asked/head", "/named/head?to=127.0.0.1:\(upstream.port)"] {
      let answer = try await scene.curl(fields + ["http://127.0.0.1:\(plain)\(path)"])
      #expect(answer.status == 200, "\(path)")
    }
    #expect(upstream.receivedText.contains("/ask/head"))
    #expect(!upstream.receivedText.contains("CN=root"))
    #expect(!upstream.receivedText.contains(":AA==:"))
    #expect(upstream.receivedText.components(separatedBy: scene.sent("X-Stays: yes")).count >= 6)
    // A line of the block itself says whose word it takes.
    let says = try await scene.curl(fields + ["http://127.0.0.1:\(plain)/says/head"])
    #expect(says.status == 200)
    #expect(upstream.receivedText.contains("CN=root") && !upstream.receivedText.contains(":AA==:"))
  }
}
