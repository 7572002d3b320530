import ConfigurationSupport
import DNS
import Features
import Forward
import Observability
import Testing
import Traffic
import Upstream

@Suite struct `resolver and resolver_timeout` {
  private func load(_ http: String, location: String = "") -> LoadedText {
    LoadedText("http { \(http) server { listen 80; location / { proxy_pass http://$host; \(location) } } }")
  }

  private func resolution(_ loaded: LoadedText) -> NameResolutionSettings? {
    guard let pass = loaded.settings?.http.servers.first?.root.locations.first?[UpstreamPass.self] else {
      return nil
    }
    return pass.target.nameResolution
  }

  @Test func `name the servers, and how their answers count`() throws {
    let all = load("resolver 127.0.0.1 [::1]:5353 dns.test:54 valid=90s ipv6=off; resolver_timeout 1500ms;")
    let settings = try #require(resolution(all))
    #expect(settings.resolver.servers.map(\.address.description) == ["127.0.0.1:53", "[::1]:5353", "dns.test:54"])
    #expect(settings.resolver.policy.valid == 90)
    #expect(settings.resolver.policy.families == .ipv4)
    #expect(settings.timeout == 1500)
    #expect(all.settings?.http.resolvers == [settings.resolver])
    let plain = try #require(resolution(load("resolver 127.0.0.1;")))
    #expect(plain.timeout == 30_000)
    #expect(plain.resolver.policy == DNSPolicy())
    #expect(resolution(load("resolver 127.0.0.1 ipv4=off;"))?.resolver.policy.families == .ipv6)
    #expect(resolution(load("")) == nil)
  }

  @Test func `the counts of servers that no line names any more end with the reload that took it away`() throws {
    let (one, two) = (load("resolver 127.0.0.1;"), load("resolver 127.0.0.2;"))
    let settings = try [one, two].map { try #require(resolution($0)).resolver }
    let counts = ResolverCounts(SharedState(features: Features.all))
    for line in settings { _ = counts.counts(of: line) }
    #expect(counts.totals.map(\.resolver) == ["127.0.0.1:53", "127.0.0.2:53"])
    let http = try #require(two.settings).http
    counts.serve(
      Generation(
        number: 2, http: http, serverContexts: [], upstreamContexts: [:], groups: [],
        errorLog: ErrorLog([]), errorLogs: [:], accessLogs: [:], nameServers: [settings[1]: []]))
    #expect(counts.totals.map(\.resolver) == ["127.0.0.2:53"])
  }

  @Test func `are inherited each on its own`() throws {
    let inner = try #require(
      resolution(load("resolver 127.0.0.1; resolver_timeout 9s;", location: "resolver 127.0.0.2;")))
    #expect(inner.resolver.servers.map(\.address.description) == ["127.0.0.2:53"])
    #expect(inner.timeout == 9000)
  }

  @Test(arguments: [
    ("resolver valid=5s;", "no name servers defined"),
    ("resolver 127.0.0.1 ipv4=off ipv6=off;", "\"ipv4\" and \"ipv6\" cannot both be \"off\""),
    ("resolver 127.0.0.1 ipv6=no;", "invalid parameter: \"ipv6=no\""),
    ("resolver 127.0.0.1 valid=soon;", "invalid parameter: \"valid=soon\""),
    ("resolver 127.0.0.1 status_zone=z;", "`status_zone` belongs to nginx's commercial edition"),
    ("resolver unix:/run/dns;", "invalid name server \"unix:/run/dns\""),
    ("resolver 127.0.0.1:0;", "invalid port in resolver \"127.0.0.1:0\""),
    ("resolver ::1;", "in resolver \"::1\""),
  ])
  func `that can't be meant are errors`(line: String, message: String) {
    #expect(load(line).errors.contains { $0.contains(message) }, "\(load(line).errors)")
    // Also where nothing needs the line.
    let unused = LoadedText("http { \(line) server { listen 80; location / { return 204; } } }")
    #expect(unused.errors.contains { $0.contains(message) })
  }
}
