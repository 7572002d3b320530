import Traffic
import Forward
import Features
import TestSupport
import ConfigurationSupport
import Crypto
import Observability
import TLS
import Testing

@testable import Configuration

@Suite struct ExampleTests {
  @Test(arguments: [
    "full", "sidecar", "legacy-backend", "websocket", "blue-green", "rate-limited-api", "multi-tenant",
    "behind-load-balancer", "grpc", "legacy-rewrite", "oauth2-proxy", "maintenance", "static-site", "load-balancing",
    "postgresql", "redis", "ldap", "sni-router", "php", "proof",
  ])
  func `an example has no fault`(name: String) {
    let loaded = Configuration.load(path: "\(checkout)/config/\(name).conf")
    #expect(loaded.diagnostics.map(short) == [])
    #expect(loaded.settings != nil)
  }

  @Test func `the nginx block loads verbatim, with a word about what is obsolete`() throws {
    let loaded = Configuration.load(path: "\(checkout)/config/nginx-block.conf")
    #expect(
      loaded.diagnostics.map(short) == [
        "16:5 warning: the \"ssl\" directive is obsolete | write \"listen … ssl\" instead"
      ])
    let http = try #require(loaded.settings?.http)
    #expect(http.listeners.map(\.isTLS) == [false, true])
    #expect(http.servers[1].tls?.verification == .on)
    #expect(http.servers[1].tls?.certificates.first?.key?.description == "server.key.pem")
  }
}
