import Foundation
import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `sallyport probe of a whole configuration` {
  private struct Row: Decodable {
    var locations: [String]
    var url: String
    var address: String?
    var trusted: Bool?
    var acceptance: String?
    var status: Int?
    var alpn: String?
    var fault: String?
    var advice: String?
    var skipped: String?
  }

  private func rows(_ scene: Scene, _ path: String, _ more: String...) async throws -> ([Row], status: Int32) {
    let result = try await scene.run(Sallyport.binary(), ["probe", "--json", "--config", path] + more)
    let rows = try result.text.split(separator: "\n").map { try JSONDecoder().decode(Row.self, from: Data($0.utf8)) }
    return (rows, result.status)
  }

  private func nginx(_ scene: Scene, _ options: String, ssl: String = "ssl http2") async throws -> UInt16 {
    let port = try scene.port()
    _ = try await NginxUpstream.start(
      scene, name: "nginx\(port)", ports: [port],
      """
      server { listen 127.0.0.1:\(port) \(ssl); ssl_certificate \(scene.path("server.pem"));
      ssl_certificate_key \(scene.path("server.key")); \(options) location / { return 200 ok; } }
      """)
    return port
  }

  private func file(_ scene: Scene, _ locations: String, _ more: String = "") throws -> String {
    try scene.write(
      "proxy.conf",
      text: """
        events {} http { proxy_ssl_verify on; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name localhost;
        grpc_ssl_verify on; grpc_ssl_trusted_certificate ca.pem; grpc_ssl_name localhost; \(more)
        server { listen 127.0.0.1:1; server_name front.test; \(locations) } }
        """)
  }

  @Test func `each server of each group is looked at once, with all its places, under the location's own trust`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    try scene.anchors("other", TestAuthority("Other"))
    let open = try await nginx(scene, "")
    let closed = try await nginx(
      scene, "ssl_client_certificate \(scene.path("ca.pem")); ssl_verify_client on;")
    let silent = try scene.port()
    let path = try file(
      scene,
      """
      location / { proxy_pass https://two; } location /same { proxy_pass https://two; }
      location /other { proxy_pass https://127.0.0.1:\(open); proxy_ssl_trusted_certificate other.pem; }
      location /pin { proxy_pass https://127.0.0.1:\(open);
        proxy_ssl_pin sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=; }
      location /name { proxy_pass https://127.0.0.1:\(open); proxy_ssl_name elsewhere.test; }
      location /none { proxy_pass https://127.0.0.1:\(closed); }
      location /alice { proxy_pass https://127.0.0.1:\(closed); proxy_ssl_certificate alice.pem;
        proxy_ssl_certificate_key alice.key; }
      location /request { proxy_pass https://$host; }
      location /plain { proxy_pass http://127.0.0.1:\(open); }
      location /missing { proxy_pass https://127.0.0.1:\(open); proxy_ssl_trusted_certificate none.pem; }
      """,
      "resolver 127.0.0.1; upstream two { server 127.0.0.1:\(open); server 127.0.0.1:\(silent) backup; }")
    let (all, status) = try await rows(scene, path)
    #expect(status == 3)
    func row(_ place: String, _ port: UInt16? = nil) throws -> Row {
      try #require(
        all.first { row in
          row.locations.contains { $0.contains("location \(place),") }
            && (port == nil || row.address?.hasSuffix(":\(port ?? 0)") ?? false)
        }, "\(place)")
    }
    #expect(all.count == 9, "\(all)")
    let group = try row("/", open)
    #expect(group.locations.count == 2 && group.trusted == true && group.status == 200)
    #expect(group.locations.allSatisfy { $0.hasPrefix("front.test location /") && $0.contains("proxy.conf:") })
    let backup = try #require(all.first { $0.fault == "connection-refused" })
    #expect(backup.locations == group.locations && backup.address == nil)
    #expect(backup.advice?.contains("nothing listens") == true)
    for place in ["/other", "/pin", "/name", "/missing"] { #expect(try row(place).trusted == false, "\(place)") }
    #expect(try row("/other").advice?.contains("none of the named CAs") == true)
    #expect(try row("/none").acceptance == "refused" && row("/alice").acceptance == "accepted")
    #expect(try row("/request").skipped?.contains("variables") == true)

    let text = try await scene.run(Sallyport.binary(), ["probe", "--config", path])
    #expect(text.status == 3 && text.text.contains("skipped https://$host"), "\(text.everything)")
    #expect(text.text.contains("8 servers: 6 not well: "), "\(text.everything)")
    #expect(text.errors.contains("hint: nothing listens"), "\(text.everything)")
    // By the argument, only what it names.
    #expect(try await rows(scene, path, "https://two/").0.count == 2)
    #expect(try await rows(scene, path, "localhost:1").status == 3)
    _ = cast
  }

  @Test func `grpc_pass looks for HTTP/2 by ALPN`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let open = try await nginx(scene, "")
    let closed = try await nginx(
      scene, "ssl_client_certificate \(scene.path("ca.pem")); ssl_verify_client on;")
    let old = try await OpenSSLServer.start(scene, try scene.identity("up", cast.authority.server()), "-www")
    let path = try file(
      scene,
      """
      location /a { grpc_pass grpcs://127.0.0.1:\(open); } location /b { grpc_pass grpcs://127.0.0.1:\(closed); }
      location /c { grpc_pass grpcs://127.0.0.1:\(closed); grpc_ssl_certificate alice.pem;
        grpc_ssl_certificate_key alice.key; }
      location /d { grpc_pass grpcs://127.0.0.1:\(old.port); }
      """)
    let (all, _) = try await rows(scene, path)
    #expect(all.map(\.acceptance) == ["not-asked", "refused", "accepted", "unknown"], "\(all)")
    #expect(all.map(\.alpn) == ["h2", "h2", "h2", ""] && all.map(\.trusted) == [true, true, true, true], "\(all)")
    #expect(all.map(\.status) == [200, nil, 200, nil] && all.last?.fault == "no-common-application-protocol", "\(all)")
  }

  @Test func `status 0 if all is well, and never for a file with nothing to look at`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try await nginx(scene, "")
    let well = try await scene.run(
      Sallyport.binary(),
      ["probe", "--config", file(scene, "location / { proxy_pass https://127.0.0.1:\(port); }")])
    #expect(well.status == 0 && well.text.contains("1 server: all well"), "\(well.everything)")
    for location in ["location / { proxy_pass http://127.0.0.1:1; }", "location / { proxy_pass https://$host; }"] {
      let none = try await scene.run(
        Sallyport.binary(), ["probe", "--config", file(scene, location, "resolver 127.0.0.1;")])
      #expect(none.status == 3 && none.errors.hasPrefix("error: "), "\(none.everything)")
    }
    _ = cast
  }

  @Test func `where only the system's CAs were believed, it says which to name`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try await nginx(scene, "")
    let result = try await scene.run(Sallyport.binary(), ["probe", "localhost:\(port)"])
    let advice = result.text.split(separator: "\n").last { $0.hasPrefix("What to do:") }
    #expect(result.status == 1 && advice?.contains("--cafile FILE") == true, "\(result.everything)")
    #expect(advice?.contains("CN=Test Root") == true && advice?.contains("proxy_ssl_pin sha256//") == true)
    _ = cast
  }
}
