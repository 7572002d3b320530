import ConfigurationSupport
import Language
import Testing

@testable import Conversion

@Suite struct `stunnel's file` {
  private func lines(_ text: String, files: SourceFiles = .none) -> [String] {
    StunnelConversion.convert(text, file: "old", files: files).text.split(separator: "\n").map {
      String($0.drop { $0 == " " })
    }
  }

  @Test func `a service is a server of stream`() {
    let converted = StunnelConversion.convert(
      "[db]\naccept = 127.0.0.1:5433\nconnect = 5432\ncert = c.pem\nverify = 2\nCAfile = ca.pem", file: "stunnel.conf")
    #expect(converted.isWhole)
    #expect(
      converted.text.split(separator: "stream {").last == """


            # stunnel.conf:1: [db]
            server {
                listen 127.0.0.1:5433 ssl;
                ssl_certificate c.pem;
                ssl_certificate_key c.pem;
                ssl_ciphers ECDHE+AESGCM:ECDHE+CHACHA20:@SECLEVEL=2;
                ssl_client_certificate ca.pem;
                ssl_verify_depth 10;
                ssl_verify_client on;
                proxy_pass localhost:5432;
                proxy_connect_timeout 10s;
                proxy_timeout 12h;
            }
        }

        """)
  }

  @Test func `included files are read in their order, and services go on in them`() {
    let files = memory(["/etc/conf.d/a.conf": "[a]\naccept = 1\ncert = c", "/etc/conf.d/b.conf": "connect = 2"])
    let found = lines("include = /etc/conf.d", files: files)
    #expect(found.contains("listen 1 ssl;"))
    #expect(found.contains("proxy_pass localhost:2;"))
  }

  @Test func `a default of all services counts, and a service's own value before it`() {
    let found = lines("cert = all.pem\n[a]\naccept = 1\nconnect = 2\n[b]\naccept = 3\nconnect = 4\ncert = own.pem")
    #expect(
      found.filter { $0.hasPrefix("ssl_certificate ") } == ["ssl_certificate all.pem;", "ssl_certificate own.pem;"])
  }

  @Test func `a name that an earlier pattern covers never served anybody`() {
    let converted = StunnelConversion.convert(
      """
      [m]
      accept = 1
      connect = 2
      cert = m
      [wide]
      sni = m:*.example.com
      connect = 3
      cert = w
      [narrow]
      sni = m:a.example.com
      connect = 4
      cert = n
      """, file: "old")
    #expect(!converted.text.contains("server_name a.example.com;"))
    #expect(converted.notes.contains { $0.line.number == 10 && $0.outcome == .refused })
  }

  @Test func `a service with a refused check refuses its name, and doesn't leave it to the master`() {
    let found = lines(
      "[m]\naccept = 1\nconnect = 2\ncert = m\n[s]\nsni = m:a.example\nconnect = 3\ncert = s\nverify = 2\nCApath = /ca")
    let end = found.drop { $0 != "server_name a.example;" }
    #expect(end.contains("ssl_reject_handshake on;"))
    #expect(!end.contains { $0.hasPrefix("proxy_pass") })
  }

  @Test(arguments: ["$x", "a\u{7}b$"]) func `a word is never a variable`(path: String) {
    let converted = StunnelConversion.convert("[a]\naccept = 1\nconnect = 2\ncert = \(path)", file: "old")
    #expect(!converted.isWhole)
    #expect(!converted.text.contains("ssl_certificate $"))
  }

  @Test func `a proxy on the way is that of connect, and the server that of protocolHost`() {
    let head =
      "[a]\nclient = yes\naccept = 127.0.0.1:1\nconnect = p.example:3128\nprotocol = connect\nverifyChain = yes\nCAfile = c\n"
    let found = lines(head + "protocolHost = h.example:443")
    #expect(found.contains("proxy_via http://p.example:3128;") && found.contains("proxy_pass h.example:443;"))
    #expect(found.contains("proxy_ssl_name h.example;") && found.contains("proxy_ssl_verify on;"))
    for more in ["", "protocolHost = h", "protocolHost = h.example:443\nprotocolUsername = u\nprotocolPassword = p"] {
      #expect(!lines(head + more).contains { $0.hasPrefix("proxy_pass") }, "\(more)")
    }
  }

  @Test func `one name is expected of a server`() {
    let head = "[a]\nclient = yes\naccept = 1\nconnect = h.example:2\nverifyChain = yes\nCAfile = c\n"
    #expect(lines(head + "checkHost = h.example").contains("proxy_ssl_name h.example;"))
    #expect(lines(head).contains("proxy_ssl_name h.example;"))
    #expect(!lines(head + "checkHost = a\ncheckHost = b").contains { $0.hasPrefix("proxy_pass") })
    #expect(!lines(head + "checkHost = a\nsni = b").contains { $0.hasPrefix("proxy_pass") })
    #expect(!lines(head + "checkEmail = a@b").contains { $0.hasPrefix("proxy_pass") })
  }
}
