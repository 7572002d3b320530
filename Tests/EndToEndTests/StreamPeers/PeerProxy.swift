import Foundation
import Glibc
import TestSupport

/// A daemon that asks clients for a certificate and passes what they say on to a server of any protocol.
struct PeerProxy: Sendable {
  let scene: Scene
  let cast: Cast
  let daemon: Sallyport
  let port: UInt16
  /// A client of an authority that the daemon doesn't know.
  let stranger: IdentityFiles

  /// `target`: what proxy_pass names. `lines`: more of the server block. `connections`: of a worker.
  init(_ cast: Cast, to target: String, _ lines: String = "", connections: Int = 256) async throws {
    scene = cast.scene
    self.cast = cast
    port = try scene.port()
    stranger = try scene.identity("stranger", TestAuthority("Other").client(commonName: "alice"))
    // libpq takes no key that others may read.
    for identity in [cast.alice, stranger] { chmod(identity.key, 0o600) }
    daemon = try await Sallyport.start(
      scene,
      """
      worker_processes 2;
      error_log error.log info;
      pid sallyport.pid;
      events { worker_connections \(connections); }
      stream {
        server {
          listen 127.0.0.1:\(port) ssl; \(Cast.tls)
          proxy_pass \(target);
          \(lines)
        }
      }
      """)
  }

  init(_ cast: Cast, to upstream: UInt16, _ lines: String = "", connections: Int = 256) async throws {
    try await self.init(cast, to: "127.0.0.1:\(upstream)", lines, connections: connections)
  }

  /// Directives for TLS towards the upstream, which has the certificate of the cast.
  static let tlsUpstream =
    "proxy_ssl on; proxy_ssl_verify on; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name localhost;"

  /// Gigabytes in place of megabytes where SALLYPORT_BODIES is `full`.
  static var isFull: Bool { ProcessInfo.processInfo.environment["SALLYPORT_BODIES"] == "full" }

  /// A number of repetitions, by the factor SALLYPORT_LOAD.
  static func scaled(_ count: Int) -> Int { max(1, Int(Double(count) * Load.scale)) }
}
