import Configuration
import Proxy
import Testing

@testable import Daemon

/// The upstreams of `stream` that `sallyport probe --config` looks at.
@Suite struct ProbePlanTests {
  @Test func `an upstream whose TLS begins at once is looked at, and one that is asked for it is named`() throws {
    let (settings, diagnostics) = Configuration.load(
      text: """
        stream {
          proxy_ssl on; proxy_ssl_trusted_certificate none.pem; proxy_ssl_name up.test;
          server { listen 81; server_name a.test; proxy_pass 127.0.0.1:1; }
          server { listen 82; proxy_starttls imap; proxy_pass 127.0.0.1:2; }
        }
        """, fileName: "/etc/test.conf")
    let plan = ProbePlan(try #require(settings, "\(diagnostics)").http)
    #expect(plan.entries.map(\.server.spelling) == ["127.0.0.1:1"])
    #expect(plan.entries.flatMap(\.places) == ["a.test /etc/test.conf:3:43"])
    #expect(plan.unprobed.map(\.reason) == ["its TLS begins when it is asked for in the words of imap"])
    #expect(plan.unprobed.map(\.place) == ["/etc/test.conf:4:44"])
  }
}
