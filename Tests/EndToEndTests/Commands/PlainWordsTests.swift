import Foundation
import TestSupport
import Testing

/// OpenSSL speaks of its functions and structures. Whoever reads sallyport's output need not know them.
@Suite(.staged) struct `OpenSSL's reasons, in plain words` {
  @Test(arguments: [["ca", "inspect"], ["pin"]]) func `a damaged key is told as that`(command: [String]) async throws {
    let scene = try Scene.ofTest()
    let key = try scene.write("cut.key", text: "-----BEGIN PRIVATE KEY-----\nMAAA\n-----END PRIVATE KEY-----\n")
    let told = try await scene.run(Sallyport.binary(), command + [key])
    #expect(told.status == 1 && told.everything.contains("its bytes are damaged"), "\(told.everything)")
    for word in ["nested asn1", "No supported data", "SSL routines", "passed invalid argument", "Input type"] {
      #expect(!told.everything.contains(word), "\(told.everything)")
    }
  }

  @Test func `probe says what a server means that ends the session for want of a certificate`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) ssl_verify_reject handshake; return 204; }
      """)
    let told = try await scene.sallyport("probe", "https://localhost:\(port)/", "--cafile", scene.path("ca.pem"))
    #expect(told.status == 2)
    #expect(
      told.text.contains("no: the peer requires a certificate, and we presented none (alert certificate required)"),
      "\(told.everything)")
    #expect(told.text.contains("key exchange    X25519"), "\(told.text)")
  }

  @Test func `the log says what a certificate's fault means, behind nginx's words`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(scene)
    let stranger = try scene.identity("stranger", TestAuthority("Other").client())
    #expect(try await scene.curl(stranger.curl + cast.to(front.port) + ["https://localhost/"]).status == 400)
    try await front.daemon.logged(
      "client SSL certificate verify error: (21:unable to verify the first certificate: no trusted CA issued it, or an"
    )
  }

  /// nginx: "the list of curves supported by the client"; $ssl_curve is the one of the session.
  @Test func `the variable ssl_curves lists what the client offers, ssl_curve what the handshake chose`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; \(Cast.tls(verify: "off")) ssl_ecdh_curve P-384;
        return 200 "<$ssl_curve|$ssl_curves>"; }
      """)
    let result = try await scene.curl(["-k", "--curves", "P-384:X25519:P-256", "https://127.0.0.1:\(port)/"])
    #expect(result.text == "<secp384r1|secp384r1:X25519:prime256v1>", "\(result.text) \(result.errors)")
  }

  @Test func `the group of a handshake is told and counted on both sides`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let (port, inner, pages) = (try scene.port(), try scene.port(), try scene.port())
    let text = configuration(
      """
      log_format groups '$ssl_curve $ssl_post_quantum';
      server { listen 127.0.0.1:\(inner) ssl; \(Cast.tls(verify: "off")) return 200 "$ssl_curve"; }
      server {
        listen 127.0.0.1:\(port) ssl; \(Cast.tls(verify: "off")) ssl_ecdh_curve X448:X25519;
        access_log groups.log groups;
        location / { proxy_pass https://127.0.0.1:\(inner); proxy_ssl_verify off; proxy_ssl_ecdh_curve P-384; }
      }
      server { listen 127.0.0.1:\(pages); location = /metrics { metrics; } location = /status { status; } }
      """)
    let daemon = try await Sallyport.start(scene, text)
    #expect(try await scene.curl(["-k", "--curves", "X448", "https://127.0.0.1:\(port)/"]).text == "secp384r1")
    let page = try await scene.page(pages, "/metrics").text
    for line in [
      "sallyport_client_key_exchanges_total{group=\"X448\",post_quantum=\"no\"} 1",
      "sallyport_client_key_exchanges_total{group=\"secp384r1\",post_quantum=\"no\"} 1",
      "sallyport_upstream_key_exchanges_total{group=\"secp384r1\",post_quantum=\"no\"} 1",
    ] { #expect(page.contains(line), "\(line)") }
    let status = try await scene.curl(["-H", "Accept: text/html", "http://127.0.0.1:\(pages)/status"]).text
    #expect(status.contains("X448 (post-quantum: no)"))
    daemon.signal(SIGUSR1)
    try await until("the line of the log") { !scene.text("groups.log").isEmpty }
    #expect(scene.text("groups.log") == "X448 no\n")
  }

  /// OpenSSL 3.5 has the hybrid group; its clients name it first.
  @Test func `where the library has a hybrid group, both sides use it without a word`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let (port, inner) = (try scene.port(), try scene.port())
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(inner) ssl; \(Cast.tls(verify: "off")) return 200 "$ssl_curve $ssl_post_quantum"; }
      server {
        listen 127.0.0.1:\(port) ssl; \(Cast.tls(verify: "off")) add_header X-Group "$ssl_curve $ssl_post_quantum";
        location / { proxy_pass https://127.0.0.1:\(inner); proxy_ssl_verify off; }
      }
      """)
    let isNew = try await scene.run("openssl", ["list", "-kem-algorithms"]).text.contains("X25519MLKEM768")
    let expected = isNew ? "X25519MLKEM768 yes" : "X25519 no"
    let result = try await scene.curl(["-k", "https://127.0.0.1:\(port)/"])
    #expect(result.text == expected && result.heads.lowercased().contains("x-group: \(expected.lowercased())"))
    let check = try await scene.sallyport("check", "--config", scene.path("sallyport.conf"))
    #expect(check.text.contains("(post-quantum: \(isNew ? "yes" : "no")"))
  }
}
