import Bytes
@testable import Features
@testable import Forward
import HTTP
import TestSupport
import Testing
@testable import Traffic

@Suite struct `Names of fields that say who a client is` {
  private static let told = """
    proxy_set_header X-Client-DN $ssl_client_s_dn; proxy_set_header X-Client-Verify $ssl_client_verify;
    client_identity rfc9440;
    """

  private static func telling(_ target: String) -> String {
    """
    server { listen 127.0.0.1:443 ssl; ssl_certificate a; ssl_certificate_key b; ssl_client_certificate c;
      ssl_verify_client on; \(told) location / { proxy_pass \(target); } }
    """
  }

  /// The head that the upstream of the plain server gets.
  private func forwarded(_ http: String, _ uri: String = "/") throws -> [String] {
    // The rig's requests go to the first server.
    let rig = try Rig(http)
    return try rig.forwarded(
      "GET \(uri) HTTP/1.1", "Host: h", "X-Client-DN: CN=root", "x_client_verify: SUCCESS", "Client-Cert: :AA==:",
      "X-Stays: 1")
  }

  private static let forged = ["X-Client-DN: CN=root", "x_client_verify: SUCCESS", "Client-Cert: :AA==:"]

  @Test(arguments: [
    ("", "http://127.0.0.1:9000", "http://127.0.0.1:9000"),
    ("upstream erp { server 127.0.0.1:9000; }", "http://erp", "http://erp"),
    ("upstream erp { server 127.0.0.1:9000; server 10.0.0.1:9000 backup; }", "http://erp", "http://10.0.0.1:9000"),
    ("upstream erp { server 127.0.0.1:9000; } upstream other { server 127.0.0.1:9000; }", "http://erp", "http://other"),
    ("", "http://127.0.0.1:9000", "http://localhost:9000/app/"), ("", "http://127.0.0.1:9000", "http://[::1]:9000"),
    ("", "http://[::ffff:10.0.0.1]:80", "http://10.0.0.1"), ("", "http://unix:/run/erp", "http://unix:/run/erp:/app/"),
    ("upstream erp { server 127.0.0.1:9000; }", "http://erp", "http://127.0.0.1:9000/$http_x_stays"),
    ("upstream erp { server 127.0.0.1:9000; }", "http://$http_x_stays", "http://erp"),
    ("upstream erp { server 127.0.0.1:9000; }", "http://erp", "http://127.0.0.$http_x_stays:9"),
  ])
  func `are removed in another server block with the same upstream`(http: String, told: String, plain: String) throws {
    let server = "server { listen 127.0.0.1:80; location / { proxy_pass \(plain); } }"
    let head = try forwarded("\(http) \(server) \(Self.telling(told))")
    #expect(head.contains("X-Stays: 1"))
    #expect(head.filter { Self.forged.contains($0) } == [], "\(plain)")
  }

  @Test func `are removed where copies, error pages and blocks go there`() throws {
    for lines in [
      "location / { if ($http_x_stays) { proxy_pass http://erp; } return 204; }",
      "location / { limit_except POST { proxy_pass http://erp; } }",
      "location / { error_page 418 = @erp; return 418; } location @erp { proxy_pass http://erp; }",
      "location / { grpc_pass erp; }",
    ] {
      let server = "upstream erp { server 127.0.0.1:9000; } server { listen 127.0.0.1:80; \(lines) }"
      let rig = try Rig("\(server) \(Self.telling("http://erp"))")
      let passes = rig.live.servers[0].settings.root.withNested.compactMap { $0[UpstreamPass.self] }
      let names = IdentityNames(rig.live.generation.http, rig.live.generation.groups)
      #expect(!passes.isEmpty)
      for pass in passes {
        let removed = names.names(inServer: 0, to: pass).map { String(decoding: $0, as: UTF8.self) }
        #expect(removed.contains("X-Client-DN") && removed.contains("Client-Cert"), "\(lines)")
      }
    }
  }

  @Test(arguments: [
    ("http://127.0.0.1:9001", ""), ("http://10.0.0.2:9000", ""), ("http://erp.test:9000", ""),
    // The block says itself whose word it takes.
    (
      "http://127.0.0.1:9000",
      """
      proxy_set_header X-Client-DN $http_x_client_dn; proxy_set_header x_client_verify $http_x_client_verify;
      proxy_set_header Client-Cert $http_client_cert;
      """
    ),
  ])
  func `stay for another upstream, and in a block that sets them itself`(target: String, lines: String) throws {
    let server = """
      server { listen 127.0.0.1:80; underscores_in_headers on; location / { proxy_pass \(target); \(lines) } }
      """
    let head = try forwarded("\(server) \(Self.telling("http://127.0.0.1:9000"))")
    #expect(Self.forged.filter { !head.contains($0) } == [], "\(head)")
  }

  @Test func `are also those that say whose password was right`() throws {
    let asking = """
      server { listen 127.0.0.1:81; auth_basic a; auth_basic_user_file b; proxy_set_header X-User $remote_user;
        location / { proxy_pass http://127.0.0.1:9000; } }
      """
    let plain = "server { listen 127.0.0.1:80; location / { proxy_pass http://127.0.0.1:9000; } }"
    let rig = try Rig("\(plain) \(asking)")
    #expect(try !rig.forwarded("GET / HTTP/1.1", "Host: h", "X-User: root").contains("X-User: root"))
  }
}
