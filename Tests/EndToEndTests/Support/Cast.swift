import TestSupport

/// The files that most tests name: ca.pem, server.pem and .key for localhost, alice.pem and .key.
struct Cast: Sendable {
  let scene: Scene
  let authority: TestAuthority
  let server: IdentityFiles
  let alice: IdentityFiles

  init(_ scene: Scene, serverNames: [String] = ["localhost", "127.0.0.1", "a.test", "b.test", "c.test"]) throws {
    self.scene = scene
    authority = try TestAuthority()
    try scene.anchors("ca", authority)
    server = try scene.identity("server", authority.server(names: serverNames))
    alice = try scene.identity("alice", authority.client())
  }

  /// Directives of a server block that asks for client certificates.
  static let tls = tls(verify: "on")

  static func tls(verify: String) -> String {
    """
    ssl_certificate server.pem; ssl_certificate_key server.key;
    ssl_client_certificate ca.pem; ssl_verify_client \(verify);
    """
  }

  /// curl's words to reach `name` at this port and trust our server.
  func to(_ port: UInt16) -> [String] {
    ["--cacert", scene.path("ca.pem"), "--connect-to", "::127.0.0.1:\(port)"]
  }
}

/// A configuration around the contents of its http block. Logs: error.log from info on, access.log. Its connections have
/// room under a hard limit of 1024 open files, too.
func configuration(_ http: String, main: String = "", level: String = "info") -> String {
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

/// A daemon with a plain listener in front of one upstream: for what has nothing to do with TLS.
struct PlainProxy: Sendable {
  let daemon: Sallyport
  let port: UInt16
  let scene: Scene

  /// Kept connections to the upstream, HTTP/1.1.
  static let kept = "proxy_http_version 1.1; proxy_set_header Connection \"\";"

  init(
    _ scene: Scene, to upstream: UInt16, location: String = "", server: String = "", http: String = "",
    kept: Bool = false
  ) async throws {
    self.scene = scene
    port = try scene.port()
    let group = kept ? "upstream kept { server 127.0.0.1:\(upstream); keepalive 8; }" : ""
    let target = kept ? "kept" : "127.0.0.1:\(upstream)"
    daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        \(http)
        \(group)
        server {
          listen 127.0.0.1:\(port);
          server_name localhost;
          \(server)
          location / {
            proxy_pass http://\(target);
            \(kept ? Self.kept : "")
            \(location)
          }
        }
        """))
  }

  func curl(_ path: String, _ arguments: [String] = [], input: [UInt8]? = nil) async throws -> CurlResult {
    try await scene.curl(arguments + ["http://127.0.0.1:\(port)\(path)"], input: input)
  }

  func talk<R: Sendable>(_ body: @escaping @Sendable (Wire) throws -> R) async throws -> R {
    try await scene.talk(port, body)
  }
}

/// A daemon that asks clients for a certificate, in front of an upstream that says what it was sent.
struct MutualProxy: Sendable {
  let daemon: Sallyport
  let upstream: ScriptedUpstream
  let port: UInt16

  /// `locations` stand in the place of the one at /, to which `location` is added; their UPSTREAM is the upstream's URL.
  init(
    _ scene: Scene, verify: String = "on", server: String = "", location: String = "",
    locations: String = "location / { proxy_pass UPSTREAM; LINES }"
  ) async throws {
    upstream = try ScriptedUpstream.echo(scene)
    port = try scene.port()
    daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        server {
          listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls(verify: verify))
        \(server)
          \(locations.replacing("UPSTREAM", with: "http://127.0.0.1:\(upstream.port)").replacing("LINES", with: location))
        }
        """))
  }
}
