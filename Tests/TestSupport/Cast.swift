/// The files that most tests name: ca.pem, server.pem and .key for localhost, alice.pem and .key.
package struct Cast: Sendable {
  package let scene: Scene
  package let authority: TestAuthority
  package let server: IdentityFiles
  package let alice: IdentityFiles

  package init(_ scene: Scene, serverNames: [String] = ["localhost", "127.0.0.1", "a.test", "b.test", "c.test"]) throws
  {
    self.scene = scene
    authority = try TestAuthority()
    try scene.anchors("ca", authority)
    server = try scene.identity("server", authority.server(names: serverNames))
    alice = try scene.identity("alice", authority.client())
  }

  /// Directives of a server block that asks for client certificates.
  package static let tls = tls(verify: "on")

  package static func tls(verify: String) -> String {
    """
    ssl_certificate server.pem; ssl_certificate_key server.key;
    ssl_client_certificate ca.pem; ssl_verify_client \(verify);
    """
  }

  /// curl's words to reach `name` at this port and trust our server.
  package func to(_ port: UInt16) -> [String] {
    ["--cacert", scene.path("ca.pem"), "--connect-to", "::127.0.0.1:\(port)"]
  }
}

/// A configuration around the contents of its http block. Logs: error.log from info on, access.log. Its connections have
/// room under a hard limit of 1024 open files, too.
package func configuration(_ http: String, main: String = "", level: String = "info") -> String {
  """
  worker_processes 2;
  error_log error.log \(level);
  pid sallyport.pid;
  \(main)
  events { worker_connections 256; }
  http {
    access_log access.log;
    \(http)
  }
  """
}
