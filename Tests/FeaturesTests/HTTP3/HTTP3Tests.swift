import ConfigurationSupport
import Testing
@testable import Traffic

/// Lines for HTTP/3 beside those by which the same clients come over TCP.
@Suite struct `HTTP/3 that nobody speaks` {
  private func server(_ lines: String) -> LoadedText {
    LoadedText(
      "http { server { \(lines) ssl_certificate c.pem; ssl_certificate_key k.pem; return 204; } }",
      files: ["/etc/c.pem": "", "/etc/k.pem": ""])
  }

  @Test func `a line with quic beside one with ssl is taken, and listens for nobody`() throws {
    let loaded = server(
      "listen 443 quic reuseport; listen 443 ssl; http3 on; quic_retry on; http3_stream_buffer_size 64k;")
    #expect(loaded.errors == [])
    #expect(
      loaded.problems.first
        == "1:17 notice: `listen … quic` is taken and has no effect: its clients come over TCP | leave out the field Alt-Svc too, which sends clients to HTTP/3 first"
    )
    let listeners = try #require(loaded.settings?.http.listeners)
    #expect(listeners.count == 1 && listeners.first?.isTLS == true && listeners.first?.options.reuseport == false)
  }

  @Test(arguments: ["listen 443 quic;", "listen 443 quic; listen 80;"])
  func `a block whose clients of HTTP/3 could come by nothing else is refused`(lines: String) {
    #expect(server(lines).errors.contains { $0.contains("no other line takes its clients") })
  }

  @Test func `the variable is empty`() {
    #expect(LoadedText("http { log_format f $http3; server { listen 80; return 204; } }").errors == [])
  }
}
