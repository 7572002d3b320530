import ConfigurationSupport
import Features
import Forward
import Testing
import Traffic

@Suite struct `Compression in the configuration` {
  private func errors(_ lines: String) -> String { LoadedText.server(lines).errors.first ?? "" }

  @Test func `compression over TLS is told to spare identities`() {
    let tls = "listen 443 ssl; ssl_certificate c; ssl_certificate_key k; gzip on;"
    func told(_ lines: String) -> Bool {
      LoadedText("http { server { \(tls) \(lines) } }").problems.contains { $0.contains("notice: over TLS, \"gzip\"") }
    }
    #expect(told("location / { proxy_pass http://127.0.0.1:1; }"))
    #expect(!told("root /r;"))
    #expect(errors("gzip on; gzip_proxied off any;").contains("beside other words"))
    #expect(errors("gzip on; gzip_disable \"[\";").contains("invalid regular expression"))
  }
}
