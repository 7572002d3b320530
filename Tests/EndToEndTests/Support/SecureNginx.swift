import TestSupport

extension NginxUpstream {
  /// nginx with TLS and these lines of its server, which shows upstream.pem unless `certificate` names another file.
  static func secure(
    _ scene: Scene, _ port: UInt16, certificate: String = "upstream", _ lines: String
  ) async throws -> NginxUpstream {
    try await start(
      scene, ports: [port],
      """
      server { listen 127.0.0.1:\(port) ssl; ssl_certificate \(scene.path("\(certificate).pem"));
        ssl_certificate_key \(scene.path("\(certificate).key")); \(lines) }
      """)
  }
}
