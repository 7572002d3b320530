import TestSupport
import Testing

@Suite(.staged) struct `The greeting of an upstream behind starttls` {
  private func proxy(_ scene: Scene, _ kind: String, _ upstream: UInt16, _ more: String) async throws -> UInt16 {
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      "server { listen 127.0.0.1:\(try scene.port()); }",
      main: """
        stream { server { listen 127.0.0.1:\(port) ssl; \(Cast.tls) starttls \(kind); proxy_pass localhost:\(upstream);
        proxy_connect_timeout 5s; \(more) } }
        """)
    return port
  }

  private static let answers = ["smtp": "221 bye\r\n", "imap": "* BYE\r\na2 OK bye\r\n", "pop3": "+OK bye\r\n"]

  /// The client has had sallyport's greeting, so that of the server must not reach it, wherever the server greets.
  @Test(arguments: ["smtp", "imap", "pop3"], ["clear", "starttls", "tls"])
  func `reaches nobody`(kind: String, way: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try await StartTLSServer.start(
      scene, kind, "server", way == "tls" ? "tls" : way == "clear" ? "plain" : "agree")
    let more =
      switch way {
      case "clear": ""
      case "starttls": "proxy_ssl on; proxy_ssl_trusted_certificate ca.pem; proxy_starttls \(kind);"
      default: "proxy_ssl on; proxy_ssl_trusted_certificate ca.pem;"
      }
    let port = try await proxy(scene, kind, server.port, more)
    let heard = try await scene.talk(tls: port, identity: cast.alice, ["-starttls", kind]) { wire in
      try wire.write("NOOP\r\n")
      return String(decoding: try wire.readSome(), as: UTF8.self)
    }
    // s_client prints the last line of SMTP's answer to its own EHLO.
    #expect(heard.hasSuffix(Self.answers[kind] ?? "?") && !heard.contains("ready"), "\(heard)")
    #expect(!heard.contains("ESMTP") && server.lines("inside") == [#"b'NOOP\r\n'"#], "\(heard)")
  }
}
