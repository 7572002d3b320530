import Review
import TestSupport
import Testing

/// `sallyport check --explain 'TCP …'` beside the daemon: the same configuration, the same client, the same result.
@Suite(.staged) struct `The explanation of a connection` {
  private struct Case {
    var name = "localhost"
    var port: UInt16
    var isTLS = true
    /// Whose certificate the client shows; nil: none.
    var shows: String?
    var result: String
    /// A line of the explanation.
    var line: String
  }

  @Test func `says the result and the server block of the daemon, for a table of connections`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let people = [
      "alice": cast.alice, "bob": try scene.identity("bob", cast.authority.client(commonName: "bob")),
      "mallory": try scene.identity("mallory", TestAuthority("Other").client()),
    ]
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      while case let bytes = try wire.readSome(), !bytes.isEmpty { try wire.write(bytes) }
    }
    let secure = try scene.port(), plain = try scene.port(), router = try scene.port(), inside = try scene.port()
    let closed = try scene.port(), passing = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      "server { listen 127.0.0.1:\(inside); server_name in; location = /metrics { metrics; } }",
      main: """
        stream {
          upstream app { server 127.0.0.1:\(upstream.port); server 127.0.0.1:1 backup; }
          map $ssl_preread_server_name $backend { a.test app; default 127.0.0.1:\(upstream.port); }
          map $remote_addr $odd { default nothing; }
          server { listen 127.0.0.1:\(secure) ssl; server_name localhost; \(Cast.tls) ssl_client_allow cn=alice;
            proxy_pass app; }
          server { listen 127.0.0.1:\(secure) ssl; server_name b.test; \(Cast.tls(verify: "optional")) deny all;
            proxy_pass app; }
          server { listen 127.0.0.1:\(secure) ssl; server_name c.test; \(Cast.tls(verify: "off")) return c.test; }
          server { listen 127.0.0.1:\(plain); allow 127.0.0.1; deny all; proxy_pass $odd; }
          server { listen 127.0.0.1:\(router); ssl_preread on; proxy_pass $backend; }
          server { listen 127.0.0.1:\(router); server_name closed.test; deny all; proxy_pass app; }
          server { listen 127.0.0.1:\(closed); deny 127.0.0.1; proxy_pass app; }
          server { listen 127.0.0.1:\(passing); pass 127.0.0.1:\(closed); }
        }
        """)
    let cases = [
      Case(port: secure, shows: "alice", result: "ok", line: "rule ssl_client_allow cn=alice"),
      Case(port: secure, shows: "bob", result: "refused-rule", line: "handshake fails: access forbidden by rule"),
      Case(port: secure, shows: "mallory", result: "refused-certificate", line: "handshake fails: "),
      Case(
        port: secure, result: "refused-certificate", line: "handshake fails: the client sent no required certificate"),
      Case(name: "b.test", port: secure, result: "refused-address", line: "rule deny all"),
      Case(name: "c.test", port: secure, result: "ok", line: "content returns \"c.test\""),
      Case(port: plain, isTLS: false, result: "error", line: "note no port in upstream \"nothing\""),
      Case(port: router, isTLS: false, result: "ok", line: "upstream $backend is 127.0.0.1:\(upstream.port)"),
      Case(port: closed, isTLS: false, result: "refused-address", line: "rule deny 127.0.0.1"),
      Case(port: passing, isTLS: false, result: "passed", line: "content passes to the listener 127.0.0.1:\(closed)"),
    ]
    func counts(_ port: UInt16) async throws -> [String: Double] {
      let page = try PrometheusPage(try await scene.page(inside, "/metrics").text)
      let samples = page.samples.filter {
        $0.name == "sallyport_stream_connections_total" && $0.labels["listen"] == "127.0.0.1:\(port)"
      }
      return samples.reduce(into: [:]) { $0[$1.labels["result"] ?? "", default: 0] += $1.value }
    }
    for one in cases {
      let before = try await counts(one.port)
      let files = one.shows.flatMap { people[$0] }
      if one.isTLS {
        _ = try await scene.talk(tls: one.port, name: one.name, identity: files) { wire in
          try? wire.write("hello")
          _ = try? wire.readSome()
        }
      } else {
        _ = try await scene.talk(one.port) { wire in
          try wire.write("hello")
          _ = try? wire.readSome()
        }
      }
      try await until("the daemon's result of \(one)") {
        try await counts(one.port)[one.result] == (before[one.result] ?? 0) + 1
      }
      let told = try Explanation(
        of: "TCP \(one.name):\(one.port)", certificate: one.shows.map { scene.path("\($0).pem") }, from: nil,
        fields: [],
        configuration: scene.path("sallyport.conf")
      ).lines
      let text = told.map { "\n" + $0.split(separator: " ").joined(separator: " ") }.joined()
      #expect(text.contains("\nresult \(one.result): "), "\(one): \(text)")
      #expect(text.contains("\n\(one.line)"), "\(one): \(text)")
    }
  }
}
