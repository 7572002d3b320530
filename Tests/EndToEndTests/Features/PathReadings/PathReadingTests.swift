import Foundation
import TestSupport
import Testing

/// Two clients: `boss` may enter /admin/, `joe` may not.
@Suite(.stagedOverBoth) struct `Paths that an upstream reads in another way` {
  private struct Stage {
    let front: UInt16
    let cast: Cast
    let joe: IdentityFiles
    let boss: IdentityFiles
    let upstream: ScriptedUpstream
    let daemon: Sallyport
  }

  private func stage(_ scene: Scene, server: String = "", locations: String = "") async throws -> Stage {
    let cast = try Cast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; ssl_certificate server.pem; ssl_certificate_key server.key;
        ssl_client_certificate ca.pem; ssl_verify_client on; \(server)
        location / { proxy_pass http://127.0.0.1:\(upstream.port); }
        location /admin/ { proxy_pass http://127.0.0.1:\(upstream.port); ssl_client_allow cn=boss; }
        \(locations) }
      """)
    return Stage(
      front: port, cast: cast, joe: try scene.identity("joe", cast.authority.client(commonName: "joe")),
      boss: try scene.identity("boss", cast.authority.client(commonName: "boss")), upstream: upstream, daemon: daemon)
  }

  @Test func `CVE-2026-73511, CVE-2026-73551, CVE-2021-29492: no path leads further in another spelling`() async throws
  {
    try await guards([
      "/admin/secret", "/admin;x/secret", "/;/admin/secret", "/x/..;/admin/secret", "/admin\\secret", "/admin%5csecret",
      "/ADMIN/secret", "/admin%20/secret", "/admin./secret", "/x/%252e%252e/admin/secret", "/admin%3Bx/secret",
      "/admin%252fsecret", "/.;a/admin/secret",
    ])
  }

  @Test func `GHSA-m8m5-v4jf-3wcm, GHSA-qrp7-cvwr-j2c6: no escaped slash or backslash leads further`() async throws {
    try await guards(["/public/..%2fadmin/secret", "/admin;x/secret", "/public/..%5cadmin%5csecret"])
  }

  /// Each of these paths is refused to joe, and admits boss.
  private func guards(_ paths: [String]) async throws {
    let scene = try Scene.ofTest()
    let stage = try await stage(scene)
    let to = stage.cast.to(stage.front) + ["--path-as-is", "--globoff"]
    for path in paths {
      let before = stage.upstream.receivedText.count
      let refused = try await scene.curl(to + stage.joe.curl + ["https://localhost\(path)"])
      #expect(refused.status == 403, "\(path)")
      #expect(stage.upstream.receivedText.count == before, "\(path)")
      let admitted = try await scene.curl(to + stage.boss.curl + ["https://localhost\(path)"])
      #expect(admitted.status == 200, "\(path)")
    }
    #expect(
      stage.daemon.errorLog.contains(
        "access forbidden: \"/admin;x/secret\" can be read as \"/admin/secret\", and location /admin/ refuses this client"
      ))
  }

  @Test func `parameters, capitals and escapes that lead nowhere go on as they are`() async throws {
    let scene = try Scene.ofTest()
    let stage = try await stage(scene)
    let to = stage.cast.to(stage.front) + ["--path-as-is", "--globoff"]
    for path in ["/shop;jsessionid=1", "/Shop/A%20b.html", "/caf%C3%A9/100%25", "/a\\b", "/x//y"] {
      let answer = try await scene.curl(to + stage.joe.curl + ["https://localhost\(path)"])
      #expect(answer.status == 200, "\(path)")
      #expect(stage.upstream.receivedText.contains("GET \(path) "), "\(path)")
    }
  }

  @Test func `a switch turns readings off for a location`() async throws {
    let scene = try Scene.ofTest()
    let stage = try await stage(
      scene, server: "path_readings case;", locations: "location /raw/ { path_readings off; return 200 raw; }")
    let to = stage.cast.to(stage.front) + ["--path-as-is", "--globoff"] + stage.joe.curl
    #expect(try await scene.curl(to + ["https://localhost/admin;x/"]).status == 200)
    #expect(try await scene.curl(to + ["https://localhost/ADMIN/"]).status == 403)
  }

  @Test func `a password of the guarded location is asked for, and the right one admits`() async throws {
    let scene = try Scene.ofTest()
    try scene.write("users", text: "joe:{PLAIN}right\n")
    let stage = try await stage(
      scene,
      locations: """
        location /in/ { proxy_pass http://127.0.0.1:1; auth_basic Inside; auth_basic_user_file users; }
        """)
    let to = stage.cast.to(stage.front) + ["--path-as-is", "--globoff"] + stage.joe.curl
    for (user, status) in [(nil, 401), ("joe:wrong", 401), ("joe:right", 200)] as [(String?, Int)] {
      let credentials = user.map { ["--user", $0] } ?? []
      let answer = try await scene.curl(to + credentials + ["https://localhost/in;x/"])
      #expect(answer.status == status, "\(user ?? "nobody")")
      #expect(answer.heads.lowercased().contains("www-authenticate: basic") == (status == 401))
    }
  }
}
