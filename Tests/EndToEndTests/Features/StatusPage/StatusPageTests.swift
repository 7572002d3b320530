import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `The page of status` {
  private func json(_ scene: Scene, _ port: UInt16) async throws -> [String: Any] {
    let result = try await scene.curl(["http://127.0.0.1:\(port)/status?format=json"])
    #expect(result.response["Content-Type"] == "application/json")
    let object = try JSONSerialization.jsonObject(with: Data(result.body))
    return try #require(object as? [String: Any])
  }

  private func problems(_ scene: Scene, _ port: UInt16) async throws -> [String] {
    let list = try await json(scene, port)["problems"] as? [[String: Any]] ?? []
    return list.compactMap { $0["text"] as? String }
  }

  @Test func `a refused reload, a dead upstream and an ending certificate stand on top`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    var ended = CertificateBuilder(commonName: "soon.test", .leaf([.serverAuth]), names: [.dns("soon.test")])
    ended.notAfter = Int64(time(nil)) - 86_400
    _ = try scene.identity("soon", ended.signed(by: cast.authority.root, key: .generate()))
    let port = try scene.port(), secure = try scene.port(), dead = try scene.port(), other = try scene.port()
    let text = configuration(
      """
      upstream app { server 127.0.0.1:\(dead) max_fails=1 fail_timeout=60s; server 127.0.0.1:\(other) max_fails=1 fail_timeout=60s; }
      server { listen 127.0.0.1:\(port); server_name in; location = /status { status; }
        location / { proxy_pass http://app; } }
      server { listen 127.0.0.1:\(secure) ssl; server_name soon.test; ssl_certificate soon.pem;
        ssl_certificate_key soon.key; ssl_client_certificate ca.pem; ssl_verify_client on; return 204; }
      """)
    let daemon = try await Sallyport.start(scene, text)
    #expect(try await problems(scene, port).contains { $0.contains("server soon.test ended") })
    // The workers leave the servers out after one failure each.
    try await until("a group without a server") {
      _ = try await scene.curl(["http://127.0.0.1:\(port)/"])
      return try await problems(scene, port).contains("Upstream app: every server is down or fails")
    }
    try daemon.rewrite(text.replacing("proxy_pass http://app", with: "proxy_pas http://app"))
    daemon.signal(SIGHUP)
    try await until("the refusal") {
      try await problems(scene, port).contains { $0.contains("last reload was refused") && $0.contains("proxy_pas") }
    }
    let page = try await scene.curl(["http://127.0.0.1:\(port)/status"])
    #expect(page.response["Content-Type"] == "text/html; charset=utf-8")
    #expect(page.response["Cache-Control"] == "no-store")
    #expect(page.text.contains("<li class=\"error\"><b>Error</b> The last reload was refused"))
    #expect(try await scene.curl(["-X", "POST", "http://127.0.0.1:\(port)/status"]).status == 405)
  }

  @Test func `a healthy daemon says that nothing is wrong, and counts what it serves`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      "server { listen 127.0.0.1:\(port); server_name in; location = /status { status; } location / { return 204; } }"
    )
    for _ in 0..<3 { #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).status == 204) }
    #expect(try await problems(scene, port).isEmpty)
    try await until("three requests") {
      let servers = try await json(scene, port)["servers"] as? [[String: Any]] ?? []
      return (servers.first?["requests"] as? [String: Any])?["2xx"] as? Int ?? 0 >= 3
    }
    let page = try await scene.curl(["http://127.0.0.1:\(port)/status"]).text
    #expect(page.contains("No problems found."))
    #expect(!page.contains("<script") && !page.contains("src=") && !page.contains("http://"))
  }

  @Test func `names in certificates and in the configuration can't become markup`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("<script>alert(1)</script>\"'&<img src=x>")
    try scene.anchors("ca", authority)
    _ = try scene.identity("server", authority.server(names: ["localhost"]))
    let port = try scene.port(), secure = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); server_name in; location = /status { status; }
        location = /metrics { metrics; } }
      server { listen 127.0.0.1:\(secure) ssl; server_name "~^(?<x><b>bold</b>)$"; \(Cast.tls) return 204; }
      """)
    let result = try await scene.curl(["http://127.0.0.1:\(port)/status"])
    #expect(result.text.contains("&lt;script") && result.text.contains("alert(1)"))
    #expect(!result.text.contains("<script") && !result.text.contains("<img") && !result.text.contains("<b>bold"))
    #expect(result.response["Content-Security-Policy"]?.hasPrefix("default-src 'none'; style-src 'sha256-") == true)
    _ = try PrometheusPage(try await scene.curl(["http://127.0.0.1:\(port)/metrics"]).text)
    #expect(!(try await json(scene, port)).isEmpty)
  }
}
