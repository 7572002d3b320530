import Glibc
import TestSupport
import Testing

/// Exchanges, connections and buffers serve one client after another. The first client here fills every place with marks;
/// the second one's request ends at every step that there is, and nothing that is told of it may bear a mark.
@Suite(.staged) struct `What one client leaves behind` {
  private static let variables = [
    "upstream_http_x_mark", "upstream_http_set_cookie", "upstream_cookie_mark", "upstream_addr", "upstream_status",
    "upstream_ssl_result", "upstream_ssl_spki", "sent_http_x_mark", "sent_http_x_added", "sent_trailer_x_mark",
    "http_x_mark", "http_authorization", "arg_mark", "cookie_mark", "remote_user", "uri", "args", "query_string",
    "request_uri", "request", "host", "http_host", "content_type", "content_length", "proxy_host", "name", "slot", "1",
    "proxy_add_x_forwarded_for", "ssl_early_data",
  ]

  /// Whatever the exchange knows, sent to the upstream and written to the log.
  private static var everything: String { variables.map { "\($0)=<$\($0)>" }.joined(separator: " ") }

  private static func upstream(_ scene: Scene) throws -> ScriptedUpstream {
    try ScriptedUpstream(scene) { wire, _ in
      while let request = try wire.requestHead() {
        switch request.target.split(separator: "?").first {
        case "/hold": return _ = try wire.readToEnd()
        case "/close": return
        case "/bad": return try wire.write("HTTP/1.1 banana\r\nX-Mark: MARK\r\n\r\n")
        case "/interim":
          try wire.write("HTTP/1.1 103 Early Hints\r\nX-Mark: MARK\r\nSet-Cookie: mark=MARK\r\n\r\n")
          return _ = try wire.readToEnd()
        case "/half": return try wire.write("HTTP/1.1 200 OK\r\nX-Mark: MARK\r\nContent-L")
        case "/plain": try wire.answer("plain")
        default:
          var request = request
          try wire.readBody(of: &request)
          try wire.write(
            "HTTP/1.1 200 OK\r\nX-Mark: MARK\r\nSet-Cookie: mark=MARK\r\nTransfer-Encoding: chunked\r\n\r\n"
              + "4\r\nMARK\r\n0\r\nX-Mark: MARK\r\n\r\n")
        }
      }
    }
  }

  private static let marking =
    "POST /MARK/MARK?mark=MARK HTTP/1.1\r\nHost: MARK.test\r\nX-Mark: MARK\r\nCookie: mark=MARK\r\nTE: trailers\r\n"
    + "X-Forwarded-For: MARK\r\nContent-Type: MARK\r\nAuthorization: Basic TUFSSzpNQVJL\r\n"
    + "Transfer-Encoding: chunked\r\n\r\n4\r\nMARK\r\n0\r\nX-Mark: MARK\r\n\r\n"

  /// How the second client's request goes; each ends with its record.
  private static let steps: [(name: String, request: String, leaves: Bool)] = [
    ("a whole answer", "GET /plain HTTP/1.1\r\nHost: h\r\n\r\n", false),
    ("the client leaves before the head", "GET /hold HTTP/1.1\r\nHost: h\r\n\r\n", true),
    ("the client leaves after an interim head", "GET /interim HTTP/1.1\r\nHost: h\r\n\r\n", true),
    ("the client leaves in its body", "POST /plain HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab", true),
    ("the upstream closes", "GET /close HTTP/1.1\r\nHost: h\r\n\r\n", false),
    ("the upstream closes in its head", "GET /half HTTP/1.1\r\nHost: h\r\n\r\n", false),
    ("a head of the upstream's that can't be read", "GET /bad HTTP/1.1\r\nHost: h\r\n\r\n", false),
    ("nobody to ask", "GET /dead/ HTTP/1.1\r\nHost: h\r\n\r\n", false),
    ("our own answer", "GET /own/ HTTP/1.1\r\nHost: h\r\n\r\n", false),
    ("no answer", "GET /silent/ HTTP/1.1\r\nHost: h\r\n\r\n", false),
    ("a body that is too large", "POST /plain HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\n", false),
    ("a request line that can't be read", "GET / banana\r\n\r\n", false),
    ("a field that can't be read", "GET /plain HTTP/1.1\r\nHost: h\r\nX : y\r\n\r\n", false),
    ("no Host", "GET /plain HTTP/1.1\r\n\r\n", false),
    ("a path that climbs", "GET /../x HTTP/1.1\r\nHost: h\r\n\r\n", false),
    ("HTTP/1.0", "GET /own/ HTTP/1.0\r\n\r\n", false),
  ]

  @Test(arguments: steps.indices, [true, false])
  func `is in nothing that the next client is told, or that is told of it`(
    step: Int, onSameConnection: Bool
  ) async throws {
    let scene = try Scene.ofTest()
    let upstream = try Self.upstream(scene), port = try scene.port(), dead = try scene.port()
    let text = configuration(
      """
      log_format everything '$request_id \(Self.everything)';
      upstream kept { server 127.0.0.1:\(upstream.port); keepalive 8; }
      server {
        listen 127.0.0.1:\(port); client_max_body_size 1k;
        access_log everything.log everything;
        proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header X-All "\(Self.everything)";
        proxy_pass_request_headers off; add_header X-Added "$http_x_mark" always;
        location ~ ^/(?<name>MARK)/(.*) { set $slot $http_x_mark; proxy_pass http://kept; }
        location / { set $slot ""; proxy_pass http://kept; }
        location /own/ { return 200 "\(Self.everything)"; }
        location /silent/ { return 444; }
        location /dead/ { proxy_pass http://127.0.0.1:\(dead); }
      }
      """
    ).replacing("worker_processes 2", with: "worker_processes 1")
    _ = try await Sallyport.start(scene, text)
    let (name, request, leaves) = Self.steps[step]
    let wire = try await offPool {
      let wire = try Wire.dial(port: port)
      try wire.write(Self.marking)
      let first = try wire.response()
      #expect(first.text == "MARK" && first["X-Mark"] == "MARK" && first.trailers.count == 1)
      let second = onSameConnection ? wire : try Wire.dial(port: port)
      try second.write(request)
      return second
    }
    if leaves {
      if request.hasPrefix("GET") {
        try await until("the request at the upstream") { upstream.receivedText.contains("GET /") }
      }
      wire.finishWriting()
    }
    // Nothing, where the connection ends without an answer.
    let told = await (try? offPool { try wire.response() }).map { $0.head + $0.text } ?? ""
    try await until("both records") { scene.text("everything.log").split(separator: "\n").count == 2 }
    let records = scene.text("everything.log").split(separator: "\n")
    // A test that finds no mark has to show that marks are found.
    #expect(records[0].split(separator: "MARK").count > 12, "\(records[0])")
    #expect(!records[1].contains("MARK"), "\(name): \(records[1])")
    #expect(!told.contains("MARK"), "\(name): \(told)")
    let asked = upstream.receivedText.split(separator: "GET ").dropFirst().joined()
    #expect(!asked.contains("MARK"), "\(name): \(asked)")
  }
}
