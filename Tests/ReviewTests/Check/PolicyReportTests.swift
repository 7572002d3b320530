import ConfigurationSupport
import Observability
@testable import Review
import TestSupport
import Testing

/// What `check` prints of a policy for a person.
@Suite struct `The summary of a policy` {
  private func line(_ level: Int, _ label: String, _ text: String, isOfTrust: Bool = false) -> PolicyLine {
    var line = PolicyLine(level: level, label: label, text: text, place: nil)
    line.isOfTrust = isOfTrust
    return line
  }

  private func location(_ path: String, upstream: String, name: String, pin: String = "none") -> [PolicyLine] {
    [
      line(1, "location", path), line(2, "upstream", upstream), line(2, "chain", "must verify", isOfTrust: true),
      line(2, "anchor", "CN=CA", isOfTrust: true), line(2, "name", name), line(2, "pin", pin, isOfTrust: true),
    ]
  }

  private func summary(_ locations: [[PolicyLine]], after: [PolicyLine] = []) -> [String] {
    let lines = [line(0, "server", "a"), line(1, "listen", "*:443 ssl")] + locations.flatMap { $0 } + after
    return PolicyReport(lines, doors: []).summary.map { $0.split(separator: " ").joined(separator: " ") }
  }

  @Test func `locations that say the same stand once`() {
    let found = summary([
      location("/a", upstream: "https://up", name: "up"), location("/b", upstream: "https://up", name: "up"),
      [line(1, "location", "/plain"), line(2, "upstream", "http://p")],
      location("/c", upstream: "https://up", name: "up"),
      // What has no line of its own may differ in what isn't told.
      [line(1, "location", "/x")], [line(1, "location", "/y")],
    ])
    #expect(
      found == [
        "server a", "listen *:443 ssl", "location /a", "the same for /b, /c", "upstream https://up",
        "chain must verify",
        "anchor CN=CA", "name up", "pin none", "location /plain", "upstream http://p", "location /x", "location /y", "",
      ])
  }

  @Test func `the same trust in other upstreams stands once, but each name and each warning`() {
    let warned = [line(2, "WARNING", "the upstream is not authenticated")]
    let found = summary(
      [
        location("/a", upstream: "https://one", name: "one"), location("/b", upstream: "https://two", name: "two"),
        location("/c", upstream: "https://two", name: "two", pin: "sha256//x"),
        location("/d", upstream: "https://four", name: "four", pin: "sha256//x") + warned,
      ], after: [line(1, "path readings", "of /a")])
    #expect(
      found == [
        "server a", "listen *:443 ssl", "location /a", "upstream https://one", "chain must verify", "anchor CN=CA",
        "name one", "pin none", "location /b", "upstream https://two", "trust as in location /a", "name two",
        "location /c", "upstream https://two", "chain must verify", "anchor CN=CA", "name two", "pin sha256//x",
        "location /d", "upstream https://four", "trust as in location /c", "name four",
        "WARNING the upstream is not authenticated", "path readings of /a", "",
      ])
  }

  @Test func `a server of ten locations has at most 60 lines, and all of them where everything is asked for`() throws {
    try withScene { scene in
      try scene.serverFiles()
      let locations = (0..<10).map { number in
        """
        location /\(number)/ { proxy_pass https://127.0.0.1:\(9000 + number); proxy_ssl_name up\(number).test; }
        """
      }
      let path = try scene.write(
        "test.conf",
        text: """
          events {}
          http { server { listen 127.0.0.1:8443 ssl; ssl_certificate server.pem; ssl_certificate_key server.key;
          ssl_client_certificate ca.pem; ssl_verify_client on; proxy_ssl_trusted_certificate ca.pem;
          \(locations.joined(separator: "\n")) } }
          """)
      let check = Check(path)
      #expect(check.count(.error) == 0, "\(check.diagnostics)")
      let told = check.report(isStrict: false).lines(isColoured: false)
      #expect(told.count <= 60, "\(told)")
      #expect(told.count { $0.contains("as in location /0/") } == 9, "\(told)")
      let all = check.report(isStrict: false, detail: .everything).lines(isColoured: false)
      #expect(all.count { $0.contains("chain ") && $0.contains("must verify") } == 10, "\(all)")
    }
  }

  @Test func `a scheme that constants say is the policy's`() throws {
    try withScene { scene in
      try scene.serverFiles()
      func policy(_ scheme: String, _ trust: String = "proxy_ssl_trusted_certificate ca.pem;") throws -> [String] {
        let path = try scene.write(
          "test.conf",
          text: """
            events {}
            http { server { listen 127.0.0.1:8080; \(trust) location / { \(scheme) proxy_pass $m://127.0.0.1:1; } } }
            """)
        let check = Check(path)
        #expect(check.count(.error) == 0, "\(check.diagnostics)")
        return check.policy.map { $0.split(separator: " ").joined(separator: " ") }
      }
      let plain = try policy("set $m http;")
      #expect(plain.contains("upstream $m://127.0.0.1:1"), "\(plain)")
      #expect(!plain.contains { $0.hasPrefix("chain ") }, "\(plain)")
      #expect(try !policy("set $m http;", "").contains { $0.contains("502 for an https value") })
      #expect(try policy("set $m https;").contains { $0.hasPrefix("chain must verify") })
      #expect(try policy("set $m $arg_m;").contains { $0.hasPrefix("chain must verify") })
      #expect(try policy("set $m $arg_m;", "").contains { $0.contains("502 for an https value") })
    }
  }
}
