import Configuration
import ConfigurationSupport
@testable import Features
@testable import Forward
import Observability
import Patterns
import Testing
@testable import Traffic
import Transport

private func addresses(_ text: String) -> [String] {
  LoadedText("http { server { listen \(text); return 204; } }").settings?.http.listeners.map(\.address.description)
    ?? []
}

@Suite struct ListenTests {
  @Test(arguments: [
    ("8080", ["0.0.0.0:8080"]), ("*:81", ["0.0.0.0:81"]), ("127.0.0.1", ["127.0.0.1:80"]), ("[::]:443", ["[::]:443"]),
    ("[::1]", ["[::1]:80"]), ("localhost:90", ["127.0.0.1:90"]), ("unix:/run/s", ["unix:/run/s"]),
    ("systemd:https", ["systemd:https"]), ("8000-8002", ["0.0.0.0:8000", "0.0.0.0:8001", "0.0.0.0:8002"]),
  ])
  func `an address is spelt as in nginx`(text: String, expected: [String]) {
    #expect(addresses(text) == expected)
  }

  @Test(arguments: [
    ("0", "invalid port"), ("65536", "invalid port"), ("90-80", "invalid port"), ("host:80", "invalid address"),
    ("[::1", "invalid address"), ("::1", "invalid port"), ("unix:", "invalid socket path"), ("systemd:", "no name"),
    ("1.2.3:80", "invalid address"), ("[1.2.3.4]:80", "invalid address"), ("1-60000", "invalid port"),
  ])
  func `an address that is none is refused at its place`(text: String, problem: String) {
    let errors = LoadedText("http { server { listen \(text); return 204; } }").errors
    #expect(errors.first?.hasPrefix("1:24 \(problem) in \"listen\" directive: \"\(text)\"") == true, "\(errors)")
  }

  @Test func `a name stands for all its addresses, each with all ports of the line`() throws {
    func load(_ text: String) -> (addresses: [String], errors: [String]) {
      let text = Array("http { server { listen \(text); return 204; } }".utf8)
      let loaded = Configuration.load(bytes: text, fileName: "/etc/x.conf", files: memory([:])) { host, port in
        guard host == "two.test" else { return [] }
        return [.ipv4(address: 0xC000_0201, port: port), .ipv6(high: 0, low: 1, port: port)]
      }
      return (
        loaded.settings?.http.listeners.map(\.address.description) ?? [],
        loaded.diagnostics.filter { $0.severity == .error }.map(short)
      )
    }
    #expect(load("two.test").addresses == ["192.0.2.1:80", "[::1]:80"])
    #expect(load("two.test:81-82").addresses == ["192.0.2.1:81", "[::1]:81", "192.0.2.1:82", "[::1]:82"])
    #expect(load("192.0.2.9:81").addresses == ["192.0.2.9:81"])
    #expect(
      load("no.test:1").errors == [
        "1:24 host not found in \"listen\" directive: \"no.test:1\" | an IP address, or a name that DNS or /etc/hosts knows"
      ])
    for text in ["1.2.3:80", "[two.test]:80", "two.test:", "a b"] { #expect(load(text).errors.count == 1, "\(text)") }
  }

  @Test func `options of the socket are read`() throws {
    let loaded = LoadedText(
      "http { server { listen [::]:80 backlog=9 reuseport ipv6only=off so_keepalive=30m::10; return 204; } }")
    let options = try #require(loaded.settings?.http.listeners.first?.options)
    #expect(options.backlog == 9 && options.reuseport && !options.ipv6only)
    #expect(options.keepalive == .parameters(idle: 1800, interval: nil, count: 10))
  }

  @Test func `options of the queue and of the buffers are read`() throws {
    let loaded = LoadedText(
      "http { server { listen 80 deferred rcvbuf=8k sndbuf=16k fastopen=12 bind; return 204; } }")
    let options = try #require(loaded.settings?.http.listeners.first?.options)
    #expect(options.isDeferred && options.receiveBuffer == 8192 && options.sendBuffer == 16384)
    #expect(options.fastOpenQueue == 12)
  }

  @Test func `the PROXY protocol is for all servers of an address`() throws {
    let loaded = LoadedText(
      "http { server { listen 80; return 204; } server { server_name b; listen 80 proxy_protocol; return 204; } }")
    #expect(loaded.settings?.http.listeners.map(\.expectsProxyHeader) == [true])
    #expect(loaded.problems.first?.contains("it uses the PROXY protocol") == true)
  }

  @Test(arguments: [
    ("backlog=0", "1:27 invalid parameter \"backlog=0\" | a number from 1 to 65535"),
    ("ipv6only=on", "1:27 invalid parameter \"ipv6only=on\" | ipv6only=on or off, with an IPv6 address"),
    ("so_keepalive=1:2", "1:27 invalid parameter \"so_keepalive=1:2\" | on, off or IDLE:INTERVAL:COUNT, as 30m::10"),
    ("rcvbuf=0", "1:27 invalid parameter \"rcvbuf=0\" | a size from 1 byte to under 2g, such as 64k"),
    (
      "setfib=1",
      "1:27 `listen … setfib` is nginx's, but not supported here | leave it out: routing tables for sockets (SO_SETFIB)"
        + " are FreeBSD's, and Linux has none"
    ),
    (
      "quic",
      "1:17 `listen … quic` is for HTTP/3, which sallyport doesn't speak, and no other line takes its clients | listen 80 ssl;"
    ),
    ("http3", "1:27 `listen … http3` is nginx's, but not supported here | leave it out"),
    ("spdy", "1:27 warning: `listen … spdy` has no effect: HTTP/2 took the place of SPDY | http2 on;"),
    (
      "defualt_server",
      "1:27 invalid parameter \"defualt_server\" in \"listen\" directive | did you mean \"default_server\"?"
    ),
    (
      "http2",
      "1:27 warning: the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead"
        + " | write \"http2 on;\" in the server"
    ),
    (
      "multipath",
      "1:27 `listen … multipath` is nginx's, but not supported here | leave it out: sallyport listens by TCP, which every"
        + " client of Multipath TCP speaks too"
    ),
  ])
  func `a parameter that can't be taken is told at its place`(parameter: String, problem: String) {
    #expect(LoadedText("http { server { listen 80 \(parameter); return 204; } }").problems == [problem])
  }

  @Test func `listen with http2 speaks for every server of the address, as in nginx`() throws {
    let http = try #require(
      LoadedText(
        """
        http { server { listen 80 http2; server_name a; return 204; } server { listen 80; server_name b; return 204; }
        server { listen 81; return 204; } server { listen 82; http2 on; return 204; } }
        """
      ).settings?.http)
    #expect(http.servers.map(\.http2.isOn) == [true, true, false, true])
  }

  @Test func `servers share a listener, and the first or the default one takes what no name fits`() throws {
    let http = try #require(
      LoadedText(
        """
        http { server { listen 80; listen 81; server_name a; return 204; }
        server { listen 80 default_server; server_name b; return 204; }
        server { listen 81; server_name c; return 204; } }
        """
      ).settings?.http)
    #expect(http.listeners.map(\.servers) == [[0, 1], [0, 2]])
    #expect(http.listeners.map(\.defaultServer) == [1, 0])
  }

  @Test func `what two listen lines contradict each other in is told`() {
    #expect(LoadedText("http { server {\nlisten 80; listen *:80; return 204; } }").problems.count == 1)
    #expect(
      LoadedText("http { server {\nlisten 80; listen *:80; return 204; } }").problems == [
        "2:12 a duplicate listen 0.0.0.0:80 | keep one of the lines"
      ])
    let first = "http { server { listen 80 default_server backlog=5; server_name a; return 204; }\n"
    #expect(
      LoadedText(first + "server { listen 80 default_server; server_name b; return 204; } }").problems == [
        "2:10 a duplicate default server for 0.0.0.0:80 | the first is at /etc/x.conf:1:17"
      ])
    #expect(
      LoadedText(first + "server { listen 80 backlog=6; server_name b; return 204; } }").problems == [
        "2:10 duplicate listen options for 0.0.0.0:80 | both lines share one socket: keep its options in one line, such as the one at /etc/x.conf:1:17"
      ])
    #expect(
      LoadedText(first + "server { listen 80 ssl; ssl_reject_handshake on; server_name b; return 204; } }").problems
        .first
        == "1:8 no \"ssl_certificate\" is defined for a server that listens with ssl | ssl_certificate FILE; ssl_certificate_key FILE; or ssl_reject_handshake on;"
    )
    #expect(
      LoadedText(first + "server { listen 80 ssl; ssl_reject_handshake on; server_name b; return 204; } }").problems
        .last
        == "2:10 warning: protocol options redefined for 0.0.0.0:80: it uses TLS | write \"ssl\" in every listen of the address, or in no listen"
    )
  }
}
