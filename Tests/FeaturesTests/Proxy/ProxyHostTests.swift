@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `The host of a target with variables` {
  @Test(arguments: [
    ("up.test", "up.test", "443"), ("up.test:443", "up.test", "443"), ("up.test:8443", "up.test:8443", "8443"),
    ("[::1]:443", "[::1]", "443"), ("[::443]", "[::443]", "443"), ("::443", "::443", "443"),
    ("127.0.0.1:80", "127.0.0.1:80", "80"), ("group", "group", "443"),
  ])
  func `leaves the default port out`(authority: String, host: String, port: String) {
    let variables = DynamicGroups.variables(of: authority, defaultPort: 443)
    #expect(String(decoding: variables.host, as: UTF8.self) == host)
    #expect(String(decoding: variables.port, as: UTF8.self) == port)
  }

  @Test(arguments: [
    ("up.test", "up.test"), ("up.test:443", "up.test"), ("[::1]:443", "::1"), ("[::1]", "::1"), ("::1", "::1"),
    ("127.0.0.1:8443", "127.0.0.1"), ("", ""),
  ])
  func `a name for TLS has no port`(text: String, name: String) {
    #expect(UpstreamPass.nameForTLS(Array(text.utf8)) == name)
  }
}
