import ConfigurationSupport
import Features
import Forward
import Testing
import Traffic
import Upstream

private func location(_ lines: String, http: String = "") -> LoadedText {
  LoadedText("http { \(http) server { listen 80; location /a.B/ {\n\(lines)\n} } }")
}

private func pass(_ lines: String, http: String = "") -> UpstreamPass? {
  location(lines, http: http).settings?.http.servers.first?.root.locations.first?[UpstreamPass.self]
}

@Suite struct `The HTTP version for upstreams` {
  @Test(arguments: [("1.0", UpstreamVersion.http10), ("1.1", .http11), ("2", .http2)])
  func `is as written`(word: String, version: UpstreamVersion) {
    #expect(pass("proxy_pass http://h:1; proxy_http_version \(word);")?.version == version)
    #expect(pass("proxy_pass http://h:1;", http: "proxy_http_version \(word);")?.version == version)
  }

  @Test(arguments: ["2.0", "3", "h2", "1.2", "0.9"]) func `is no other`(word: String) {
    #expect(!location("proxy_pass http://h:1; proxy_http_version \(word);").errors.isEmpty)
  }

  @Test func `a kept group of HTTP 2 needs no Connection field`() {
    let http = "upstream app { server 10.0.0.1:1; keepalive 4; }"
    #expect(location("proxy_pass http://app; proxy_http_version 2;", http: http).problems.isEmpty)
    #expect(!location("proxy_pass http://app; proxy_http_version 1.0;", http: http).problems.isEmpty)
    #expect(location("grpc_pass grpc://app;", http: http).problems.isEmpty)
  }

  @Test func `NTLM, which authenticates a connection, is not for HTTP 2`() {
    let lines = "proxy_pass http://h:1; proxy_auth ntlm; proxy_auth_user_file u; proxy_http_version"
    #expect(location("\(lines) 2;").errors.contains { $0.contains("proxy_http_version 1.1") })
    #expect(!location("\(lines) 1.1;").errors.contains { $0.contains("proxy_http_version 1.1") })
  }
}
