import Traffic
import Forward
import Features
import ConfigurationSupport
import Observability
import Testing
import Transport
import Upstream

@testable import Configuration

/// A location whose lines begin in line 2, column 1.
private func location(_ lines: String, at path: String = "/a.B/", http: String = "") -> LoadedText {
  LoadedText("http { \(http) server { listen 80; location \(path) {\n\(lines)\n} } }")
}

private func pass(_ lines: String, http: String = "") -> UpstreamPass? {
  guard
    let pass = location(lines, http: http).settings?.http.servers.first?.root.locations.first?[UpstreamPass.self]
  else { return nil }
  return pass
}

@Suite struct `Directives of gRPC` {
  @Test func `grpc_pass is a proxy_pass of HTTP 2 that reads no body ahead`() throws {
    let plain = try #require(pass("grpc_pass grpc://h.example:50051;"))
    #expect(plain.dialect.callsMethods && plain.version == .http2 && plain.scheme == .http && plain.target.uri == nil)
    #expect(!plain.buffers.collectsRequests && plain.target.host == "h.example:50051" && plain.target.port == "50051")
    let secure = try #require(pass("grpc_pass GRPCS://h.example:443; grpc_ssl_verify off;"))
    #expect(
      secure.scheme == .https && secure.target.host == "h.example:443"
        && secure.trust.name == Template(literal: "h.example"))
    let grouped = try #require(pass("grpc_pass grpc://app;", http: "upstream app { server 10.0.0.1:1; }"))
    #expect(grouped.target.upstream == .group(0, .http))
  }

  @Test func `its directives are its own, and those of the proxy module don't apply`() throws {
    let found = try #require(
      pass(
        """
        grpc_pass grpc://h:1; grpc_read_timeout 7s; grpc_send_timeout 8s; grpc_connect_timeout 9s;
        grpc_next_upstream off; grpc_next_upstream_tries 2; grpc_intercept_errors on; grpc_buffer_size 32k;
        proxy_read_timeout 1s; proxy_intercept_errors off; proxy_http_version 1.1;
        """))
    #expect(found.timeouts.read == 7000 && found.timeouts.send == 8000 && found.timeouts.connect == 9000)
    #expect(found.retry.conditions.isEmpty && found.retry.tries == 2 && found.response.interceptsErrors)
    #expect(found.buffers.head == 32_768 && found.version == .http2)
    #expect(try #require(pass("grpc_pass grpc://h:1; proxy_read_timeout 1s;")).timeouts.read == 60_000)
    #expect(try #require(pass("proxy_pass http://h:1; grpc_read_timeout 1s;")).timeouts.read == 60_000)
  }

  @Test(arguments: [
    ("grpc_pass http://h:1;", "2:11 invalid URL prefix in \"http://h:1\" | it must begin with grpc:// or grpcs://"),
    ("proxy_pass grpc://h:1;", "2:12 invalid URL prefix in \"grpc://h:1\" | it must begin with http:// or https://"),
    (
      "grpc_pass grpc://h:1/x;",
      "2:11 \"grpc_pass\" cannot have a URI part | leave out \"/x\": the path is the method's name"
    ),
    (
      "grpc_pass grpc://h:1/;",
      "2:11 \"grpc_pass\" cannot have a URI part | leave out \"/\": the path is the method's name"
    ),
    (
      "grpc_pass grpc://h;",
      "2:11 no port in upstream in \"grpc_pass\" directive: \"grpc://h\" | grpc_pass [grpc[s]://]ADDRESS:PORT; or an upstream's name"
    ),
    (
      "grpc_pass h;",
      "2:11 no port in upstream in \"grpc_pass\" directive: \"grpc://h\" | grpc_pass [grpc[s]://]ADDRESS:PORT; or an upstream's name"
    ),
    ("grpc_pass grpc://;", "2:11 no host in \"grpc_pass\" directive: \"grpc://\" | ADDRESS[:PORT]"),
    (
      "grpc_pass grpc://h:0;",
      "2:11 invalid port in \"grpc_pass\" directive: \"grpc://h:0\" | a port is a number from 1 to 65535"
    ),
  ])
  func `an address that is none is refused, in its own words`(lines: String, problem: String) {
    #expect(location(lines).errors == [problem])
  }

  @Test func `grpc_pass is alone in its location`() {
    #expect(
      location("proxy_pass http://h:1;\ngrpc_pass grpc://h:1;").errors == [
        "3:1 \"grpc_pass\" beside \"proxy_pass\" | the other is at /etc/x.conf:2:1"
      ])
    #expect(!location("grpc_pass grpc://h:1;\ngrpc_pass grpc://h:2;").errors.isEmpty)
  }

  @Test func `no message is sealed`() {
    let key = "message_envelope_cipher aes-256-gcm; message_envelope_key k; message_envelope_mac none;"
    let errors = location("grpc_pass grpc://h:1;\nmessage_envelope on; \(key)").errors
    #expect(
      errors == [
        "2:1 \"message_envelope\" seals whole bodies, and gRPC sends streams | write \"message_envelope off;\" here; it is on at /etc/x.conf:3:1"
      ])
  }

  @Test(arguments: [
    "grpc_pass grpcs://h:1;", "grpc_pass grpcs://h:1; grpc_ssl_certificate c.pem;",
    "grpc_pass grpc://h:1; grpc_ssl_verify on;", "grpc_pass grpcs://h:1; grpc_ssl_verify off; grpc_ssl_pin sha256//x;",
  ])
  func `messages name grpc_ directives`(lines: String) {
    let problems = location(lines).problems
    #expect(!problems.isEmpty)
    for problem in problems { #expect(!problem.contains("proxy_"), "\(problem)") }
  }

  @Test(arguments: [
    ("grpc_pass grpc://proxy_a.test:0;", "\"grpc://proxy_a.test:0\""),
    ("grpc_pass grpc://$proxy_ho;", "\"proxy_ho\""),
    ("grpc_pass grpcs://h:1; grpc_ssl_verify off; grpc_ssl_pinning proxy_x;", "\"proxy_x\""),
  ])
  func `messages leave the words of a user as they are`(lines: String, word: String) {
    let problems = location(lines).problems
    #expect(problems.contains { $0.contains(word) }, "\(problems)")
  }

  @Test func `messages leave the names of files as they are`() {
    let text = "http { server { listen 80; location /a.B/ {\ngrpc_pass grpc://h:1; message_envelope on;\n} } }"
    let (_, diagnostics) = Configuration.load(text: text, fileName: "/etc/proxy_params")
    #expect(diagnostics.contains { $0.hint?.contains("/etc/proxy_params:2:") == true }, "\(diagnostics)")
    let pinned =
      "http { server { listen 80; location /a.B/ {\ngrpc_pass grpcs://h:1; grpc_ssl_pinning none;"
      + " grpc_ssl_verify on; grpc_ssl_pin sha256/AAAA;\n} } }"
    let hints = Configuration.load(text: pinned, fileName: "/etc/proxy_params").1.compactMap(\.hint)
    #expect(!hints.contains { $0.contains("grpc_params") }, "\(hints)")
    #expect(hints.contains { $0.contains("/etc/proxy_params") }, "\(hints)")
  }

  @Test(arguments: [
    "grpc_http_version 2;", "grpc_method GET;", "grpc_redirect off;", "grpc_buffering on;",
    "grpc_request_buffering on;",
    "grpc_ignore_client_abort on;", "grpc_pass_request_body off;",
  ])
  func `what makes no sense over gRPC is no directive`(line: String) {
    #expect(!location("grpc_pass grpc://h:1; \(line)").errors.isEmpty)
  }

  @Test func `variables name an address with a port, or a group`() throws {
    let rig = try Rig(
      "upstream g { server 127.0.0.1:9; } server { listen 1080; location / { grpc_pass grpc://$arg_to; } }")
    for name in ["h", "127.0.0.1", "[::1]"] {
      #expect(try rig.ask("GET /?to=\(name) HTTP/1.1", "Host: a").status == 500, "\(name)")
    }
    #expect(rig.upstreams.isEmpty)
    for name in ["g", "127.0.0.1:9"] { _ = try rig.ask("GET /?to=\(name) HTTP/1.1", "Host: a") }
    #expect(rig.upstreams.count == 2)
  }

  @Test func `TLS towards the upstream is judged as for proxy_pass`() {
    let bare = location("grpc_pass grpcs://h:1;").errors, proxied = location("proxy_pass https://h:1;").errors
    #expect(bare.count == proxied.count && !bare.isEmpty)
    #expect(location("grpc_pass grpcs://h:1; proxy_ssl_verify off;").errors == bare)
  }
}
