import Configuration
import ConfigurationSupport
import Language
import Testing

@testable import Conversion

/// What becomes of lines of nginx's that our own reader refuses.
@Suite struct `From nginx` {
  private func lines(_ http: String, pinsEach: Bool = false) -> [String] {
    let converted = NginxConversion.convert("events {} http { \(http) }", file: "old", pinsEach: pinsEach)
    #expect(LoadedText(converted.text).errors == [], "\(converted.text)")
    return converted.text.split(separator: "\n").map { OldText.trimmed($0) }.filter { !$0.hasPrefix("#") }
  }

  // MARK: Trust

  private static let three = """
    server { listen 80;
      location /a { proxy_pass https://a.example.com:8443; }
      location /b { grpc_pass grpcs://b.example.com:443; }
    }
    server { listen 81; location / { set $app c.example.com; proxy_pass https://$app; } }
    """

  @Test func `several servers that nothing verifies have one place for their CA`() throws {
    let text = lines(Self.three)
    #expect(text.count { $0.contains("TO-BE-FILLED-IN") } == 2)
    let http = try #require(text.firstIndex(of: "http {"))
    #expect(
      Array(text[(http + 1)...].prefix(3)) == [
        "grpc_ssl_trusted_certificate TO-BE-FILLED-IN/ca.crt;",
        "proxy_ssl_trusted_certificate TO-BE-FILLED-IN/ca.crt;", "server {",
      ])
    let converted = NginxConversion.convert("http { \(Self.three) }", file: "old")
    #expect(converted.gaps.isEmpty && !converted.isWhole)
    #expect(converted.text.contains("what `sallyport pin b.example.com:443` prints"))
  }

  @Test func `their place is the innermost block around all of them`() throws {
    let text = lines(
      "server { listen 80; location /a { proxy_pass https://a; } location /b { proxy_pass https://b; } }")
    let server = try #require(text.firstIndex(of: "server {"))
    #expect(text[server + 1] == "proxy_ssl_trusted_certificate TO-BE-FILLED-IN/ca.crt;")
  }

  @Test func `each has a pin of its own if somebody asks for pins`() {
    let text = lines(Self.three, pinsEach: true)
    #expect(text.contains("proxy_ssl_pin TO-BE-FILLED-IN/a.example.com-8443;"))
    #expect(text.contains("grpc_ssl_pin TO-BE-FILLED-IN/b.example.com-443;"))
    // Nobody can ask servers that a variable names.
    #expect(text.contains("proxy_ssl_trusted_certificate TO-BE-FILLED-IN/ca.crt;"))
    let converted = NginxConversion.convert("http { \(Self.three) }", file: "old", pinsEach: true)
    #expect(Set(converted.gaps.map(\.host)) == ["a.example.com", "b.example.com"])
  }

  // MARK: Fields

  @Test func `fields of headers-more are those of add_header, at each level that has lines of its own`() {
    let text = lines(
      """
      more_set_headers "X-A: 1 2" X-B:$host; add_header X-Own 0;
      server { listen 80; proxy_hide_header X-Old;
        location / { proxy_pass http://127.0.0.1:9; }
        location /own { proxy_pass http://127.0.0.1:9; add_header X-Own 1; }
        location /clear { proxy_pass http://127.0.0.1:9; more_clear_headers X-B; }
      }
      """)
    func block(_ name: String) -> [String] {
      Array(text.drop { !$0.hasPrefix(name) }.dropFirst().prefix { !$0.hasSuffix("{") && $0 != "}" })
    }
    let fields = ["add_header X-A \"1 2\" always;", "add_header X-B $host always;"]
    let hidden = ["proxy_hide_header X-A;", "proxy_hide_header X-B;"]
    #expect(block("http") == fields + hidden + ["add_header X-Own 0;"])
    #expect(block("server") == hidden + ["listen 80;", "proxy_hide_header X-Old;"])
    #expect(block("location / ") == ["proxy_pass http://127.0.0.1:9;"])
    #expect(block("location /own") == fields + ["proxy_pass http://127.0.0.1:9;", "add_header X-Own 1;"])
    #expect(
      block("location /clear") == ["add_header X-Own 0;", "add_header X-A \"1 2\" always;", "proxy_hide_header X-Old;"]
        + hidden + ["proxy_pass http://127.0.0.1:9;"])
  }

  @Test(arguments: [
    "more_set_headers -s 404 'X-A: 1';", "more_clear_headers 'X-*';", "add_header X-A 1 sometimes;", "pagespeed on;",
  ])
  func `what changes fields alone is left out, and its location stays`(line: String) {
    let text = lines("server { listen 80; location / { \(line) proxy_pass http://127.0.0.1:9; } }")
    #expect(text.contains("proxy_pass http://127.0.0.1:9;") && !text.contains("return 404;"))
    #expect(!text.contains { $0.contains("X-A") || $0.contains("pagespeed") })
  }

  @Test func `SSLv3 is left out beside versions of TLS, and alone it closes its server`() {
    let server = "listen 443 ssl; ssl_certificate a; ssl_certificate_key b; return 204;"
    let text = lines("ssl_protocols SSLv3 TLSv1.2 TLSv1.3; server { \(server) }")
    #expect(text.contains("ssl_protocols TLSv1.2 TLSv1.3;") && text.contains("return 204;"))
    #expect(lines("server { ssl_protocols SSLv3; \(server) }").contains("ssl_reject_handshake on;"))
  }

  @Test func `what changes fields of requests closes its location, because it may keep clients out`() {
    let text = lines(
      "server { listen 80; location / { more_clear_input_headers X-User; proxy_pass http://127.0.0.1:9; } }")
    #expect(text.contains("return 404;") && !text.contains { $0.contains("proxy_pass") })
  }
}
