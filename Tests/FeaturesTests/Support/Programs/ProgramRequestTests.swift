import Bytes
import CGI
@testable import Features
@testable import Forward
import HTTP
import Testing
@testable import Traffic

extension Rig {
  /// The parameters that a server of programs gets for a request, as `NAME=value`.
  func parameters(_ lines: String..., body: [String] = []) throws -> [String] {
    let stream = try ask(lines, body: body)
    try upstream.open()
    let handler = try #require(stream.exchange?.handler as? ProxyHandler)
    let kind = try #require(handler.pass?.settings[ProgramSettings.self]?.kind)
    return Self.block(of: Array(handler.attempt.outgoing.parameters.readable), kind).withUnsafeBytes {
      ParameterBlock.parameters(of: $0, kind).map {
        "\(String(decoding: $0.name, as: UTF8.self))=\(String(decoding: $0.value, as: UTF8.self))"
      }.filter { kind != .scgi || !["SCGI=1", "CONTENT_LENGTH=0"].contains($0) }
    }
  }

  /// The parameters in all that goes before a body.
  private static func block(of head: [UInt8], _ kind: ProgramProtocol) -> [UInt8] {
    switch kind {
    case .scgi: return Array(head.drop { $0 != 0x3A }.dropFirst().dropLast())
    case .uwsgi: return Array(head.dropFirst(4))
    case .fastCGI:
      var block: [UInt8] = [], rest = head[...]
      while rest.count >= 8 {
        let header = Array(rest.prefix(8)), count = Int(header[4]) << 8 | Int(header[5])
        if header[1] == 4 { block += rest.dropFirst(8).prefix(count) }
        rest = rest.dropFirst(8 + count + Int(header[6]))
      }
      return block
    }
  }
}

/// A rig with one location for all paths.
private func one(_ lines: String, server: String = "", http: String = "", listen: String = "listen 80;") throws -> Rig {
  try Rig("\(http) server { \(listen) \(server) location / { \(lines) } }")
}

@Suite struct `Parameters of a request to a server of programs` {
  @Test(arguments: ["fastcgi", "scgi", "uwsgi"]) func `are those of the lines in effect, then the fields`(
    module: String
  ) throws {
    let rig = try one(
      """
      \(module)_pass 127.0.0.1:9000; \(module)_param METHOD $request_method; \(module)_param A one;
      \(module)_param B ""; \(module)_param C $arg_c if_not_empty; \(module)_param D $arg_d; \(module)_param A two;
      \(module)_param E "" if_not_empty;
      """, http: "\(module)_param LOST x;")
    #expect(
      try rig.parameters("PUT /x?c=1 HTTP/1.1", "Host: h.test", "X-One: 1", "x-one: 2")
        == ["METHOD=PUT", "A=one", "B=", "C=1", "D=", "A=two", "HTTP_HOST=h.test", "HTTP_X_ONE=1, 2"])
    #expect(
      try rig.parameters("GET / HTTP/1.1", "Host: h")
        == ["METHOD=GET", "A=one", "B=", "D=", "A=two", "HTTP_HOST=h"])
  }

  @Test func `of a level are all of its own or all of those around it`() throws {
    let http = "fastcgi_param A http; fastcgi_param B http;"
    #expect(try one("fastcgi_pass h:1;", http: http).parameters("GET / HTTP/1.0") == ["A=http", "B=http"])
    let own = try one("fastcgi_pass h:1; fastcgi_param B own;", http: http)
    #expect(try own.parameters("GET / HTTP/1.0") == ["B=own"])
  }

  @Test(
    arguments: ["X-Client-DN", "X_Client_DN", "x.client.dn", "X+Client~DN"],
    ["HTTP_X_CLIENT_DN", "HTTP_X_Client_DN", "http_x_client_dn"])
  func `that the configuration sets come from no client in any spelling`(field: String, name: String) throws {
    let rig = try one(
      "fastcgi_pass h:1; fastcgi_param \(name) $ssl_client_s_dn; fastcgi_param REMOTE_USER $remote_user;",
      server: "ignore_invalid_headers off; underscores_in_headers on;")
    #expect(
      try rig.parameters("GET / HTTP/1.0", "\(field): CN=root", "Remote-User: root", "REMOTE_USER: root")
        == ["\(name)=", "REMOTE_USER=", "HTTP_REMOTE_USER=root"])
  }

  @Test func `that say who the client is come from no client of another server block with the same upstream`() throws {
    let telling = """
      server { listen 443 ssl; ssl_certificate a; ssl_certificate_key b; ssl_client_certificate c;
        ssl_verify_client on; location / { fastcgi_pass 127.0.0.1:9000; fastcgi_param HTTP_X_DN $ssl_client_s_dn;
        fastcgi_param HTTP_X_NAME fixed; } }
      """
    let rig = try Rig(
      "server { listen 80; location / { fastcgi_pass 127.0.0.1:9000; fastcgi_param A b; } } \(telling)")
    #expect(
      try rig.parameters("GET / HTTP/1.0", "X-DN: CN=root", "X_DN: CN=root", "X-Name: n")
        == ["A=b", "HTTP_X_NAME=n"])
  }

  @Test func `CVE-2016-5385: never say which proxy a program uses, nor what belongs to the client's connection`() throws
  {
    let rig = try one("fastcgi_pass h:1; fastcgi_param A b;")
    #expect(
      try rig.parameters(
        "GET / HTTP/1.1", "Host: h", "Proxy: http://evil", "Connection: x-hop", "X-Hop: 1", "TE: trailers",
        "Expect: 100-continue", "Content-Type: t", "Content-Length: 0") == ["A=b", "HTTP_HOST=h"])
  }

  @Test func `have no fields of the client where the configuration says so`() throws {
    let rig = try one("fastcgi_pass h:1; fastcgi_param A b; fastcgi_pass_request_headers off;")
    #expect(try rig.parameters("GET / HTTP/1.1", "Host: h", "X-A: 1") == ["A=b", "HTTP_HOST=h"])
  }

  @Test func `say how long the body is, whatever the client has said`() throws {
    let rig = try one(
      "fastcgi_pass h:1; fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param L $content_length;")
    #expect(
      try rig.parameters("POST / HTTP/1.0", "Content-Length: 3", body: ["abc"]) == ["CONTENT_LENGTH=3", "L=3"])
    #expect(
      try rig.parameters("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked", body: ["ab", "cd"])
        == ["CONTENT_LENGTH=4", "L=4", "HTTP_HOST=h"])
    #expect(try rig.parameters("GET / HTTP/1.0") == ["CONTENT_LENGTH=", "L="])
    let ifAny = try one("fastcgi_pass h:1; fastcgi_param CONTENT_LENGTH $content_length if_not_empty;")
    #expect(try ifAny.parameters("GET / HTTP/1.0") == [])
    #expect(try ifAny.parameters("POST / HTTP/1.0", "Content-Length: 3", body: ["abc"]) == ["CONTENT_LENGTH=3"])
    let unbuffered = try one("fastcgi_pass h:1; fastcgi_param L $content_length; fastcgi_request_buffering off;")
    #expect(
      try unbuffered.parameters("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked", body: ["ab", "cd"])
        == ["L=4", "HTTP_HOST=h"])
  }

  @Test func `of Debian's file are taken unchanged`() throws {
    let file = """
      fastcgi_param  QUERY_STRING       $query_string; fastcgi_param  REQUEST_METHOD     $request_method;
      fastcgi_param  CONTENT_TYPE       $content_type; fastcgi_param  CONTENT_LENGTH     $content_length;
      fastcgi_param  SCRIPT_FILENAME    $document_root$fastcgi_script_name;
      fastcgi_param  SCRIPT_NAME        $fastcgi_script_name; fastcgi_param  REQUEST_URI        $request_uri;
      fastcgi_param  DOCUMENT_URI       $document_uri; fastcgi_param  DOCUMENT_ROOT      $document_root;
      fastcgi_param  SERVER_PROTOCOL    $server_protocol; fastcgi_param  REQUEST_SCHEME     $scheme;
      fastcgi_param  HTTPS              $https if_not_empty; fastcgi_param  GATEWAY_INTERFACE  CGI/1.1;
      fastcgi_param  SERVER_SOFTWARE    nginx/$nginx_version; fastcgi_param  REMOTE_ADDR        $remote_addr;
      fastcgi_param  REMOTE_PORT        $remote_port; fastcgi_param  REMOTE_USER        $remote_user;
      fastcgi_param  SERVER_ADDR        $server_addr; fastcgi_param  SERVER_PORT        $server_port;
      fastcgi_param  SERVER_NAME        $server_name; fastcgi_param  REDIRECT_STATUS    200;
      """
    let rig = try one("fastcgi_pass h:1; fastcgi_index index.php; \(file)", server: "root /srv/www; server_name s;")
    let found = try rig.parameters("GET /a/?b=c HTTP/1.1", "Host: h")
    #expect(found.count == 21)
    for parameter in [
      "QUERY_STRING=b=c", "SCRIPT_FILENAME=/srv/www/a/index.php", "SCRIPT_NAME=/a/index.php", "REQUEST_URI=/a/?b=c",
      "DOCUMENT_URI=/a/", "DOCUMENT_ROOT=/srv/www", "REQUEST_SCHEME=http", "REMOTE_ADDR=192.0.2.1", "SERVER_NAME=s",
      "REDIRECT_STATUS=200",
    ] { #expect(found.contains(parameter), "\(parameter)") }
    #expect(!found.contains { $0.hasPrefix("HTTPS=") })
  }

  @Test func `that take more than a packet of uwsgi holds are refused`() throws {
    let rig = try one("uwsgi_pass h:1; uwsgi_param A $arg_a$arg_a$arg_a$arg_a$arg_a$arg_a$arg_a$arg_a$arg_a$arg_a;")
    let long = String(repeating: "a", count: 7000)
    let stream = try rig.ask("GET /?a=\(long) HTTP/1.0")
    try rig.upstream.open()
    #expect(stream.status == 400)
  }

  @Test func `of a client without a verified chain have no name in those of mod_ssl`() throws {
    let rig = try one(
      "fastcgi_pass h:1; fastcgi_param A b;",
      server: """
        ssl_certificate a; ssl_certificate_key b; ssl_client_certificate c; ssl_verify_client optional;
        client_identity mod_ssl;
        """, listen: "listen 443 ssl;")
    #expect(try rig.parameters("GET / HTTP/1.0", "SSL-Client-Verify: SUCCESS").contains("SSL_CLIENT_VERIFY=NONE"))
  }
}
