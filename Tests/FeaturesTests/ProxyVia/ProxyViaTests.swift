import Bytes
import ConfigurationSupport
import Crypto
@testable import Features
@testable import Forward
import TestSupport
import Testing
@testable import Traffic
import Transport
import Upstream

/// `proxy_via` as a configuration says it. What it says on a wire: NegotiationTests and EndToEndTests.
@Suite struct `The directive proxy_via` {
  private static func location(_ lines: String, http: String = "") -> LoadedText {
    LoadedText("http { \(http) server { listen 80; location / {\n\(lines)\n} } }")
  }

  private func tunnel(_ loaded: LoadedText) -> TunnelSettings? {
    loaded.settings?.http.servers.first?.root.locations.first?[UpstreamPass.self]?.origin.tunnel
  }

  @Test func `names a proxy by address or name, and its user's file`() {
    let pass = "proxy_pass http://api.test:8080;"
    let named = tunnel(Self.location("\(pass) proxy_via http://proxy.test:3128 user_file=u;"))
    #expect(named?.proxy == .name("proxy.test", port: 3128) && named?.user?.description == "u")
    for written in ["http://127.0.0.1:3128", "HTTP://127.0.0.1:3128/"] {
      let found = tunnel(Self.location("\(pass) proxy_via \(written);"))
      #expect(found?.proxy == .address(.ipv4(address: 0x7F00_0001, port: 3128)) && found?.user == nil, "\(written)")
    }
    #expect(tunnel(Self.location("\(pass) proxy_via http://[::1]:1;"))?.proxy.description == "[::1]:1")
  }

  @Test func `is inherited, and off ends that`() {
    let outer = "proxy_via http://127.0.0.1:1;"
    #expect(tunnel(Self.location("proxy_pass http://a:1;", http: outer))?.proxy.description == "127.0.0.1:1")
    #expect(tunnel(Self.location("proxy_pass http://127.0.0.1:2; proxy_via off;", http: outer)) == nil)
    #expect(Self.location("proxy_pass http://127.0.0.1:2; proxy_via off;", http: outer).problems == [])
    let stream = LoadedText("stream { \(outer) server { listen 81; proxy_pass a:1; } }")
    #expect(stream.problems == [])
    #expect(stream.settings?.http.servers.first?.root[UpstreamPass.self]?.origin.tunnel != nil)
    let call = Self.location("grpc_pass grpc://a:1; grpc_via http://127.0.0.1:1;")
    #expect(call.problems == [] && tunnel(call) != nil)
  }

  @Test(arguments: [
    ("https://p:1", "sallyport speaks no TLS to the proxy itself"), ("p:1", "http://HOST:PORT, without variables"),
    ("http://p", "http://HOST:PORT"), ("http://p:1/x", "http://HOST:PORT"), ("http://unix:/p", "http://HOST:PORT"),
    ("http://$host:1", "without variables"), ("socks5://p:1", "http://HOST:PORT"), ("http://p:0", "http://HOST:PORT"),
    ("http://p:1 user_file=", "user_file=FILE"), ("http://p:1 file=x", "user_file=FILE"), ("off x", "off stands alone"),
    ("http://p:1 user_file=$u", "name a file"),
  ]) func `refuses what is no proxy`(words: String, told: String) {
    let errors = Self.location("proxy_pass http://a:1; proxy_via \(words);").errors
    #expect(errors.count == 1 && errors[0].contains(told), "\(errors)")
  }

  @Test func `shows no password that stands in the URL`() {
    let errors = Self.location("proxy_pass http://a:1; proxy_via http://al:xyzzy@p:1;").errors
    #expect(errors.count == 1 && !errors[0].contains("xyzzy") && errors[0].contains("user_file=FILE"), "\(errors)")
  }

  @Test(arguments: [
    ("proxy_pass http://$host;", "", "with a target of variables"),
    ("proxy_pass $arg_u;", "", "with a target of variables"),
    ("proxy_pass http://unix:/run/a.sock;", "", "for unix:/run/a.sock, which is on this machine"),
    ("proxy_pass http://g;", "upstream g { server a:1; server unix:/b; }", "for unix:/b, which is on this machine"),
    (
      "proxy_pass http://g;", "resolver 127.0.0.1; upstream g { zone z 64k; server a:1 resolve; }",
      "for servers with \"resolve\""
    ),
  ]) func `refuses a target that no proxy can reach`(pass: String, http: String, told: String) {
    let errors = Self.location("\(pass) proxy_via http://p:1;", http: http).errors
    #expect(
      errors.contains { $0.contains("\"proxy_via\" \(told)") && $0.contains("write \"proxy_via off;\"") }, "\(errors)")
  }

  @Test func `leaves names to the proxy, unless somebody reaches the group without one`() throws {
    func named(_ locations: String) throws -> [Bool] {
      let loaded = LoadedText(
        "http { upstream g { server a.test:1; } server { listen 80; proxy_via http://127.0.0.1:1; \(locations) } }")
      return try #require(loaded.settings, "\(loaded.problems)").http.groups.map(\.isNamedToProxies)
    }
    #expect(try named("location / { proxy_pass http://g; } location /b { proxy_pass http://b.test; }") == [true, true])
    #expect(
      try named("location / { proxy_pass http://g; } location /b { proxy_pass http://g; proxy_via off; }") == [false])
    // A group that nobody names is resolved as before.
    #expect(try named("location / { return 204; }") == [false])
  }

  @Test func `needs the proxy's address, and never goes without it`() throws {
    let rig = try Rig(
      "proxy_via http://proxy.test:3128; server { listen 80; location / { proxy_pass http://a.test; } }")
    let answer = try rig.answer("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    #expect(answer.hasPrefix("HTTP/1.1 500 "), "\(answer)")
    let settings = try #require(
      tunnel(Self.location("proxy_pass http://a:1; proxy_via http://127.0.0.1:9 user_file=u;")))
    var origin = OriginSettings()
    origin.tunnel = settings
    #expect(origin.base(in: rig.live.generation) == nil)
    origin.tunnel = TunnelSettings(settings.proxy, user: nil)
    #expect(origin.base(in: rig.live.generation)?.proxy?.name == "127.0.0.1:9")
  }

  // MARK: The user

  private func field(_ text: String) throws -> String {
    let reference = try MaterialReference(parsing: "u", relativeTo: "/", location: nil)
    return try Array(text.utf8).withUnsafeBytes { bytes in
      try ProxyUser.parse(bytes, reference).field.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    }
  }

  @Test(arguments: ["Aladdin:open sesame", "Aladdin:open sesame\n", "Aladdin:open sesame\r\n"])
  func `gets the credentials of RFC 7617`(text: String) throws {
    #expect(try field(text) == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
  }

  @Test(arguments: [
    "", "\n", "xyzzy", ":xyzzy", "a:xyzzy\nb", "a:xyzzy\u{1}", "a:xyzzy\(String(repeating: "s", count: 1024))",
  ])
  func `refuses a file that is no user, and shows nothing of it`(text: String) {
    #expect { _ = try field(text) } throws: { error in
      let told = "\(error)"
      return told.contains("\"u\"") && !told.contains("xyzzy")
    }
  }

  @Test func `keeps connections through different proxies apart`() throws {
    let address = SocketAddress.ipv4(address: 1, port: 1)
    func trust(_ name: String, _ credentials: ProxyCredentials?) -> ConnectionOrigin {
      var origin = ConnectionOrigin()
      origin.proxy = ConnectProxy(name: name, addresses: [address], credentials: credentials)
      return origin
    }
    let user = ProxyCredentials(SecretBytes(copying: UnsafeRawBufferPointer(start: nil, count: 0)))
    let other = ProxyCredentials(SecretBytes(copying: UnsafeRawBufferPointer(start: nil, count: 0)))
    #expect(trust("a", user) == trust("a", user) && trust("a", nil) != trust("b", nil))
    #expect(trust("a", user) != trust("a", other) && trust("a", user) != trust("a", nil))
    #expect(trust("a", nil) != ConnectionOrigin() && ConnectProxy(name: "a", addresses: [], credentials: nil) == nil)
  }
}
