@testable import Features
@testable import Forward
import HTTP
import Testing
@testable import Traffic

extension Rig {
  static let get = ["GET /a HTTP/1.1", "Host: h"]
  static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

  /// A server whose requests all go to a group that keeps connections.
  static func passing(_ directives: String = "", servers: Int = 1, http: String = "") throws -> Rig {
    let lines = (0..<servers).map { "server 127.0.0.1:\(9 + $0);" }.joined()
    return try Rig(
      """
      \(http) upstream u { \(lines) keepalive 4; }
      server { listen 80; location / { proxy_pass http://u; proxy_http_version 1.1; \(directives) } }
      """)
  }

  /// Starts an exchange, and opens the upstream so that the request has been sent.
  func asked(_ lines: [String] = get, body: [String] = []) throws -> MemoryStream {
    let client = try ask(lines, body: body)
    try upstream.open()
    return client
  }

  /// What a server `s.test` with these lines answers to a request for `h.test`.
  static func answer(of server: String, _ target: String = "/", _ fields: String = "") throws -> String {
    try Rig("server { listen 8080; server_name s.test; \(server) }")
      .answer("GET \(target) HTTP/1.1\r\nHost: h.test\r\n\(fields)\r\n")
  }
}
