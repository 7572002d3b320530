import Features
@testable import Loading
import Traffic
import Forward
import ConfigurationSupport
import Observability
import Testing

@Suite struct `Where the SPIFFE agent is` {
  private func settings(_ main: String, certificate: String = "spiffe:") throws -> Settings {
    let keys = certificate == "spiffe:" ? "" : "ssl_certificate_key k.pem;"
    let loaded = LoadedText(
      "\(main) http { server { listen 443 ssl; ssl_certificate \(certificate); \(keys) return 204; } }")
    return try #require(loaded.settings, "\(loaded.problems)")
  }

  @Test func `is what the configuration says, else what the environment says`() throws {
    let said = try settings("spiffe_endpoint unix:/a.sock;"), unsaid = try settings("")
    #expect(WorkloadEndpoint.path(of: said, environment: "unix:///b.sock") == "/a.sock")
    #expect(WorkloadEndpoint.path(of: unsaid, environment: "unix:///b.sock") == "/b.sock")
    #expect(WorkloadEndpoint.faults(unsaid, environment: "unix:///b.sock").isEmpty)
  }

  @Test func `must be known where a configuration needs it`() throws {
    let unsaid = try settings("")
    for environment in [nil, "tcp://127.0.0.1:8081", ""] as [String?] {
      let faults = WorkloadEndpoint.faults(unsaid, environment: environment)
      #expect(faults.map(\.severity) == [.error])
      #expect(faults.first?.message.hasPrefix("nothing says where the SPIFFE agent is") == true)
    }
    #expect(WorkloadEndpoint.faults(unsaid, environment: nil, severity: .warning).map(\.severity) == [.warning])
  }

  @Test func `is nowhere without spiffe:, whatever the environment says`() throws {
    let files = try settings("spiffe_endpoint unix:/a.sock;", certificate: "c.pem")
    #expect(WorkloadEndpoint.path(of: files, environment: "unix:///b.sock") == nil)
    #expect(WorkloadEndpoint.faults(files, environment: nil).isEmpty)
  }

  @Test func `is asked for an upstream's sake, too`() throws {
    let loaded = LoadedText(
      """
      spiffe_endpoint unix:/a.sock;
      http { server { listen 80; location / { proxy_pass https://up.example; proxy_ssl_trusted_certificate spiffe:;
        proxy_ssl_spiffe_id spiffe://a/b; } } }
      """)
    #expect(WorkloadEndpoint.path(of: try #require(loaded.settings), environment: nil) == "/a.sock")
  }
}
