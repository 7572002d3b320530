import ConfigurationSupport
import Observability
import Testing

/// What `check` says of a `proxy_pass` whose variables say the scheme, and which has no trust settings.
@Suite struct `A scheme that constants say` {
  private enum Answer: String {
    case http = ""
    case https = "error"
    case depends = "warning"
  }

  private static func answer(_ server: String, http: String = "", listen: String = "80") -> Answer? {
    let text = "http { \(http) server { listen \(listen); ssl_certificate c; ssl_certificate_key k;\n\(server)\n} }"
    let said = LoadedText(text).diagnostics.filter { $0.message.contains("trust settings") }
    #expect(said.count < 2)
    return said.first.map { Answer(rawValue: $0.severity.rawValue) } ?? .http
  }

  @Test(arguments: [
    "set $b http://a:1; proxy_pass $b;", "set $b HTTP://a; proxy_pass $b/x;",
    "set $proto http; set $app a; proxy_pass $proto://$app:8080;", "set $s ''; proxy_pass http$s://a;",
    "set $b https://a; set $b http://a; proxy_pass $b;",
    "set $b http://a; if ($arg_x) { set $b http://c; } proxy_pass $b;",
    "set $p http; set $b $p://a; set $p https; proxy_pass $b;",
    "set $b https://a; if ($arg_x) { return 204; } set $b http://a; proxy_pass $b;",
    "set $b http://a; break; set $b https://a; proxy_pass $b;", "set $b ftp://a; proxy_pass $b;",
  ])
  func `http needs no trust settings, and no word`(lines: String) {
    #expect(Self.answer("location / { \(lines) }") == .http)
  }

  @Test(arguments: [
    "set $b https://a; proxy_pass $b;", "set $proto https; set $app a; proxy_pass $proto://$app:8080;",
    "set $s s; proxy_pass http$s://a;", "set $b http://a; if ($arg_x) { set $b https://a; } proxy_pass $b;",
    "set $b http://a; if ($arg_x) { set $b https://a; proxy_pass $b; }",
    "set $b https://$arg_host; proxy_pass $b;",
  ])
  func `https without trust settings is refused`(lines: String) {
    #expect(Self.answer("location / { \(lines) }") == .https)
    #expect(Self.answer("proxy_ssl_verify on; location / { \(lines) }") == .http)
  }

  @Test(arguments: [
    "proxy_pass $arg_x;", "set $b $arg_b; proxy_pass $b;", "set $b $arg_p://a; proxy_pass $b;",
    "if ($uri ~ (?<p>.*)) { set $x 1; } proxy_pass $p://a;", "set $a $b; set $b $a; proxy_pass $arg_z$a;",
  ])
  func `what a request decides is warned of`(lines: String) {
    #expect(Self.answer("location / { \(lines) }") == .depends)
  }

  @Test func `it is followed through map, geo and split_clients`() {
    func answer(_ table: String) -> Answer? { Self.answer("location / { proxy_pass $b; }", http: table) }
    #expect(answer("map $host $b { default http://a; c http://c; }") == .http)
    #expect(answer("map $host $b { default http://a; ~^s https://c; }") == .https)
    #expect(answer("map $host $b { default $p://a; } map $uri $p { default http; /s https; }") == .https)
    #expect(answer("map $host $b { default $p://a; } map $uri $p { default http; }") == .http)
    #expect(answer("map $host $b { default http://a; x $arg_b; }") == .depends)
    #expect(answer("geo $b { default http://a; 10.0.0.0/8 https://c; }") == .https)
    #expect(answer("split_clients $remote_addr $b { 50% http://a; * http://c; }") == .http)
    #expect(answer("split_clients $remote_addr $b { 50% http://a; * https://c; }") == .https)
    #expect(answer("keyval_zone zone=z:1m; keyval $uri $b zone=z;") == .depends)
  }

  @Test func `the server block's set counts in each location, and that of another location where nothing else does`() {
    #expect(Self.answer("set $b https://a; location / { proxy_pass $b; }") == .https)
    #expect(Self.answer("set $b https://a; location / { set $b http://a; proxy_pass $b; }") == .http)
    #expect(
      Self.answer("location /x { set $b https://a; return 204; } location / { set $b http://a; proxy_pass $b; }")
        == .http)
    let named = "location @up { proxy_pass $b; }"
    #expect(Self.answer("location / { set $b http://a; try_files /x @up; } \(named)") == .http)
    #expect(Self.answer("location / { set $b https://a; try_files /x @up; } \(named)") == .https)
    let other = "location /y { set $b https://a; try_files /x @up; }"
    #expect(Self.answer("location / { set $b http://a; try_files /x @up; } \(other) \(named)") == .depends)
  }

  @Test func `the client's own is that of the listeners`() {
    let location = "location / { proxy_pass $scheme://a; }"
    #expect(Self.answer(location) == .http)
    #expect(Self.answer(location, listen: "443 ssl") == .https)
    #expect(Self.answer(location, listen: "80; listen 443 ssl") == .depends)
  }

  @Test func `grpc_pass has its own schemes and words`() {
    #expect(Self.answer("location / { set $b grpc://a:1; grpc_pass $b; }") == .http)
    #expect(Self.answer("location / { set $b a:1; grpc_pass $b; }") == .http)
    let text = "http { server { listen 80; location / {\nset $b grpcs://a:1; grpc_pass $b; } } }"
    #expect(LoadedText(text).errors.contains { $0.hasPrefix("2:21 ") && $0.contains("write grpc_ssl_verify on") })
  }

  @Test func `tables that multiply don't hold the check up`() {
    let maps = (0..<30).map { number in
      "map $uri $m\(number) { " + (0..<30).map { "k\($0) $m\(number + 1);" }.joined(separator: " ") + " }"
    }
    let text = maps.joined(separator: " ") + " map $uri $m30 { default http://a; }"
    #expect(Self.answer("location / { proxy_pass $m0; }", http: text) == .depends)
  }
}
