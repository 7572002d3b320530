import TestSupport

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
    daemon = try await Sallyport.serve(
      scene,
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
      """)
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
    daemon = try await Sallyport.serve(
      scene,
      """
      server {
        listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls(verify: verify))
      \(server)
        \(locations.replacing("UPSTREAM", with: "http://127.0.0.1:\(upstream.port)").replacing("LINES", with: location))
      }
      """)
  }
}
