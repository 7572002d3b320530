import ConfigurationSupport
import Language
import Testing

@testable import Conversion

@Suite struct `HAProxy's file` {
  private static let backend = "backend b\nmode http\nserver s 127.0.0.1:80\n"

  private func lines(_ converted: Converted) -> [String] {
    converted.text.split(separator: "\n").map { String($0.drop { $0 == " " }) }
  }

  @Test func `each line of a crt-list is a server with its own verification`() {
    let list = """
      # certificates
      /certs/a.pem [ca-file /certs/ca.crt verify required] a.example.com *.a.example.com

      /certs/b.pem b.example.com
      """
    let converted = HAProxyConversion.convert(
      Self.backend + "frontend f\nmode http\nbind :443 ssl crt-list /list strict-sni\ndefault_backend b", file: "old",
      files: memory(["/list": list]))
    #expect(LoadedText(converted.text).errors == [])
    let lines = lines(converted)
    #expect(lines.contains("listen 443 ssl default_server;"))
    #expect(lines.contains("ssl_reject_handshake on;"))
    #expect(lines.contains(#"server_name a.example.com "~^[^.]+\\.a\\.example\\.com\\z";"#))
    #expect(lines.filter { $0.hasPrefix("ssl_verify_client") } == ["ssl_verify_client on;", "ssl_verify_client off;"])
  }

  @Test func `without strict-sni, the first certificate serves the other names too, and keeps its own`() {
    let converted = HAProxyConversion.convert(
      Self.backend + "frontend f\nmode http\nbind :443 ssl crt-list /list\ndefault_backend b", file: "old",
      files: memory(["/list": "a.pem [verify required ca-file c] a.example.com\nb.pem *.example.com"]))
    #expect(LoadedText(converted.text).errors == [])
    let servers = converted.text.split(separator: "server {").dropFirst()
    #expect(servers.first?.contains("listen 443 ssl default_server;") == true)
    #expect(servers.first?.contains("server_name a.example.com;") == true)
    #expect(servers.first?.contains("ssl_verify_client on;") == true)
  }

  @Test(arguments: ["a.pem [verify required", "a.pem [wibble] a", "a.pem a\nb.pem", "a.pem !a.example", ""])
  func `a list that isn't understood closes the frontend`(list: String) {
    let converted = HAProxyConversion.convert(
      Self.backend + "frontend f\nmode http\nbind :443 ssl crt-list /list\ndefault_backend b", file: "old",
      files: memory(["/list": list]))
    #expect(!converted.isWhole)
    #expect(!lines(converted).contains { $0.hasPrefix("proxy_pass") })
  }

  @Test func `rules about hosts and paths are found as HAProxy finds them: the first counts`() {
    let converted = HAProxyConversion.convert(
      Self.backend + """
        backend c
        mode http
        server s 127.0.0.1:81
        frontend f
        mode http
        bind :80
        use_backend b if { path_beg /a }
        use_backend c if { path_beg /a/b }
        default_backend c
        """, file: "old")
    let text = converted.text
    // HAProxy never gets to the second rule.
    let inner = text.split(separator: "location ^~ /a/b {").last?.split(separator: "}").first ?? ""
    #expect(inner.contains("proxy_pass http://haproxy_1;"), "\(text)")
  }

  @Test func `a field whose value can't be had is removed, so that no client sends it`() {
    let converted = HAProxyConversion.convert(
      Self.backend
        + "frontend f\nmode http\nbind :80\nhttp-request set-header X-Cert %[ssl_c_der,base64]\ndefault_backend b",
      file: "old")
    #expect(lines(converted).contains(#"proxy_set_header X-Cert "";"#))
    #expect(!converted.isWhole)
  }

  @Test func `a server that isn't verified needs a pin, which check misses`() {
    let converted = HAProxyConversion.convert(
      "backend b\nmode http\nserver s 10.0.0.1:443 ssl verify none\nfrontend f\nmode http\nbind :80\ndefault_backend b",
      file: "old")
    #expect(lines(converted).contains("proxy_ssl_pin TO-BE-FILLED-IN/10.0.0.1-443;"))
    #expect(!converted.isWhole)
  }

  @Test func `several certificates of a bind line are servers by the names in them`() {
    let names = ["/a.pem": ["a.example", "*.a.example"], "/b.pem": ["b.example"]]
    let converted = HAProxyConversion.convert(
      Self.backend + """
        backend c
        mode http
        server s 127.0.0.1:81
        frontend f
        mode http
        bind :443 ssl crt /a.pem crt /b.pem ca-file /ca.pem verify required
        use_backend c if { hdr(host) b.example } or { hdr(host) x.a.example }
        default_backend b
        """, file: "old", names: { names[$0] })
    #expect(LoadedText(converted.text).errors == [], "\(converted.text)")
    #expect(converted.isWhole)
    let servers = converted.text.split(separator: "server {").dropFirst()
    #expect(servers.count == 3)
    for (name, certificate, backend) in [
      ("a.example ", "/a.pem", "haproxy_1"), ("b.example", "/b.pem", "haproxy_2"),
      ("x.a.example", "/a.pem", "haproxy_2"),
    ] {
      let server = servers.first { $0.contains("server_name \(name)") } ?? ""
      #expect(server.contains("ssl_certificate \(certificate);"), "\(name)")
      #expect(server.contains("proxy_pass http://\(backend);"), "\(name)")
      #expect(server.contains("ssl_verify_client on;"), "\(name)")
    }
  }

  @Test func `what all lines have is what each has, unless it says otherwise`() {
    let converted = HAProxyConversion.convert(
      """
      global
      ssl-default-bind-options ssl-min-ver TLSv1.3 no-tls-tickets
      ssl-server-verify none
      crt-base /certs
      \(Self.backend)backend c
      mode http
      server s 10.0.0.1:443 ssl
      frontend f
      mode http
      bind :443 ssl crt a.pem
      bind :444 ssl crt a.pem ssl-min-ver TLSv1.2
      default_backend b
      """, file: "old")
    #expect(LoadedText(converted.text).errors == [], "\(converted.text)")
    let lines = lines(converted)
    #expect(
      lines.filter { $0.hasPrefix("ssl_protocols") } == ["ssl_protocols TLSv1.3;", "ssl_protocols TLSv1.2 TLSv1.3;"])
    #expect(lines.contains("ssl_certificate /certs/a.pem;") && lines.contains("ssl_session_tickets off;"))
    #expect(converted.gaps == [TrustGap(host: "10.0.0.1", port: 443)])
  }

  @Test func `checks and cookies are those of a group`() {
    let converted = HAProxyConversion.convert(
      """
      backend b
      mode http
      cookie SRV insert indirect nocache httponly
      option httpchk GET /health
      http-check expect status 200
      server s 127.0.0.1:80 check inter 5s fall 4 cookie s
      frontend f
      mode http
      bind :80
      default_backend b
      """, file: "old")
    #expect(LoadedText(converted.text).errors == [], "\(converted.text)")
    let lines = lines(converted)
    #expect(lines.contains("sticky cookie SRV httponly;"))
    #expect(lines.contains("health_check interval=5s fails=4 passes=2 uri=/health match=haproxy_1;"))
    #expect(lines.contains("match haproxy_1 {"))
    #expect(converted.isWhole)
  }

  @Test(arguments: [
    ("if a b or c", [["a", "b"], ["c"]]), ("unless a b", [["!a"], ["!b"]]),
    ("unless a || !b c", [["!a", "b"], ["!a", "!c"]]),
    ("if twice", [["a"], ["b"]]), ("if !twice", [["!a", "!b"]]), ("", [[]]),
  ])
  func `a condition is its alternatives`(text: String, alternatives: [[String]]) {
    func line(_ text: String) -> HAProxyLine {
      HAProxyLine(words: text.split(separator: " ").map(String.init), line: OldLine(file: "f", number: 1, text: text))
    }
    let conditions = HAProxyConditions(
      ["acl a always_true", "acl b ssl_fc", "acl c ssl_c_used", "acl twice always_true", "acl twice ssl_fc"].map(line))
    let names: [HAProxyCriterion: String] = [.always: "a", .encrypted: "b", .certificate: "c"]
    let found = conditions.terms(line(text).words[...])
    #expect(found?.map { $0.map { ($0.isNegated ? "!" : "") + (names[$0.criterion] ?? "?") } } == alternatives)
  }

  @Test(arguments: ["if", "if a or", "if a or or b", "when a"]) func `others are none`(text: String) {
    let words = text.split(separator: " ").map(String.init)
    #expect(HAProxyConditions([]).terms(words[...]) == nil)
  }
}
