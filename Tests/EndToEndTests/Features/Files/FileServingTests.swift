import Glibc
import TestSupport
import Testing

/// Files over both versions of HTTP: sizes, kinds, changes, and the rules of a location.
@Suite(.stagedOverBoth) struct `Serving files` {
  private func start(_ scene: Scene, _ lines: String, http: String = "") async throws -> (
    port: UInt16, daemon: Sallyport
  ) {
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene, configuration("\(http) server { listen 127.0.0.1:\(port); root \(scene.path("www")); \(lines) }"))
    return (port, daemon)
  }

  private func get(_ scene: Scene, _ port: UInt16, _ path: String, _ options: String...) async throws -> CurlResult {
    try await scene.curl(["--path-as-is"] + options + ["http://127.0.0.1:\(port)\(path)"])
  }

  @Test func `a file of many slices is whole, and so are its ranges`() async throws {
    let scene = try Scene.ofTest()
    _ = try scene.makeFolder("www")
    let whole = (0..<(5 << 20) + 7).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 4) }
    try scene.write("www/large", whole)
    let (port, _) = try await start(scene, "location /paced { alias \(scene.path("www/large")); limit_rate 8m; }")
    for path in ["/large", "/paced"] {
      let answer = try await get(scene, port, path)
      #expect(answer.status == 200 && answer.body == whole && answer["Content-Length"] == "5242887", "\(path)")
    }
    let part = try await get(scene, port, "/large", "-r", "200000-4900000")
    #expect(part.status == 206 && part.body == Array(whole[200_000...4_900_000]))
    let parts = try await get(scene, port, "/large", "-r", "0-3000000,4000000-4000009,-7")
    #expect(parts.status == 206 && parts.body.count == Int(parts["Content-Length"] ?? ""))
    #expect(parts.body.count > 3_000_018 && parts.body.count < 3_000_600)
    let tag = try #require(part["ETag"])
    #expect(try await get(scene, port, "/large", "-r", "0-9", "-H", "If-Range: \(tag)").body == Array(whole[..<10]))
    #expect(try await get(scene, port, "/large", "-r", "0-9", "-H", "If-Range: \"other\"").body.count == whole.count)
    #expect(try await get(scene, port, "/large", "-I")["Content-Length"] == "5242887")
  }

  @Test func `a root that a map names is one of the folders in the map`() async throws {
    let scene = try Scene.ofTest()
    for name in ["a", "b"] {
      _ = try scene.makeFolder("www/\(name)/m")
      try scene.write("www/\(name)/m/f", text: "of \(name)")
    }
    try scene.write("www/f", text: "of neither")
    let map = "map $arg_s $folder { default \(scene.path("www"))/a; b \(scene.path("www"))/b; }"
    let (port, _) = try await start(scene, "location /m/ { root $folder; }", http: map)
    #expect(try await get(scene, port, "/m/f").text == "of a")
    #expect(try await get(scene, port, "/m/f?s=b").text == "of b")
    #expect(try await get(scene, port, "/m/f?s=..").text == "of a")
  }

  @Test func `a FIFO and a device are no files`() async throws {
    let scene = try Scene.ofTest()
    _ = try scene.makeFolder("www")
    #expect(mkfifo(scene.path("www/fifo"), 0o644) == 0)
    let (port, daemon) = try await start(scene, "location /dev/ { alias /dev/; }")
    #expect(try await get(scene, port, "/fifo").status == 404)
    #expect(try await get(scene, port, "/dev/null").status == 404)
    try await daemon.logged("is not a regular file")
  }

  @Test(.ofHTTP1) func `a file that shrinks while it is sent ends the response, and nothing else`() async throws {
    let scene = try Scene.ofTest()
    _ = try scene.makeFolder("www")
    try scene.write("www/big", [UInt8](repeating: 1, count: 1 << 20))
    // The rate leaves most of the file for later.
    let (port, daemon) = try await start(scene, "location /big { limit_rate 200k; }")
    let file = scene.path("www/big")
    let received = try await scene.talk(port) { wire in
      try wire.write(NginxTwin.get("/big"))
      _ = try wire.read(exactly: 1000)
      #expect(truncate(file, 1000) == 0)
      return try wire.readToEnd().count
    }
    #expect(received < 900_000)
    try await daemon.logged("has changed while it was sent")
    #expect(try await get(scene, port, "/big").body.count == 1000)
  }

  @Test func `the rules of a location apply to files as to anything`() async throws {
    let scene = try Scene.ofTest()
    _ = try scene.makeFolder("www")
    try scene.write("www/index.html", text: "home")
    try scene.write("www/404.html", text: "nothing here")
    try scene.write("www/maintenance.html", text: "later")
    try scene.write("users", text: "al:{PLAIN}secret\n")
    let (port, _) = try await start(
      scene,
      """
      error_page 404 /404.html; error_page 503 @later;
      location /denied/ { deny all; }
      location /password/ { alias \(scene.path("www"))/; auth_basic x; auth_basic_user_file users; }
      location = /404.html { internal; }
      location @later { try_files /maintenance.html =503; }
      location /down/ { if (-f $document_root/maintenance.html) { return 503; } }
      location /.well-known/acme-challenge/ { root \(scene.path("www")); default_type text/plain; }
      """)
    #expect(try await get(scene, port, "/denied/index.html").status == 403)
    #expect(try await get(scene, port, "/password/").status == 401)
    let admitted = try await get(scene, port, "/password/", "-u", "al:secret")
    #expect(admitted.status == 200 && admitted.text == "home")
    let missing = try await get(scene, port, "/nothing")
    #expect(missing.status == 404 && missing.text == "nothing here")
    #expect(try await get(scene, port, "/404.html").text == "nothing here")
    let posted = try await get(scene, port, "/nothing", "-d", "x=y")
    #expect(posted.status == 404 && posted.text == "nothing here")
    let down = try await get(scene, port, "/down/x")
    #expect(down.status == 503 && down.text == "later")
    _ = try scene.makeFolder("www/.well-known")
    _ = try scene.makeFolder("www/.well-known/acme-challenge")
    try scene.write("www/.well-known/acme-challenge/token", text: "token.thumbprint")
    let challenge = try await get(scene, port, "/.well-known/acme-challenge/token")
    #expect(challenge.text == "token.thumbprint" && challenge["Content-Type"] == "text/plain")
  }

  @Test func `a client that reads slowly gets all, and many at once too`() async throws {
    let scene = try Scene.ofTest()
    _ = try scene.makeFolder("www")
    let bytes = (0..<(1 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 7 >> 5) }
    try scene.write("www/big", bytes)
    let (port, _) = try await start(
      scene, "location /slow { alias \(scene.path("www"))/big; limit_rate 2m; limit_rate_after 300k; }")
    try await withThrowingTaskGroup(of: Bool.self) { group in
      for index in 0..<12 {
        group.addTask { try await self.get(scene, port, index % 4 == 0 ? "/slow" : "/big").body == bytes }
      }
      for try await isWhole in group { #expect(isWhole) }
    }
  }
}

/// The configurations that nginx comes with, on ports and in folders of the test.
@Suite(.staged) struct `Stock configurations` {
  private func run(_ scene: Scene, _ main: String, _ site: String, folder: String) async throws -> UInt16 {
    let port = try scene.port()
    func moved(_ text: String) -> String {
      text.replacing("/etc/nginx/", with: "\(scene.folder)/").replacing("/var/log/nginx/", with: "\(scene.folder)/")
        .replacing("/run/nginx.pid", with: scene.path("sallyport.pid")).replacing(
          "/var\(scene.folder)", with: scene.folder
        )
        .replacing(#/user +(www-data|nginx);/#, with: "user root;").replacing(folder, with: scene.path("html"))
        .replacing(#/listen +80/#, with: "listen 127.0.0.1:\(port)").replacing(
          #/listen +\[::\]:80/#, with: "listen [::1]:\(port)")
    }
    for name in ["conf.d", "sites-enabled", "modules-enabled", "html"] { _ = try scene.makeFolder(name) }
    try scene.write("mime.types", text: StockFiles.types)
    try scene.write(main == StockFiles.debian ? "sites-enabled/default" : "conf.d/default.conf", text: moved(site))
    try scene.write("html/index.html", text: "<h1>Welcome to nginx!</h1>, with a few more words after it\n")
    try scene.write("html/50x.html", text: "An error occurred.")
    _ = try await Sallyport.start(scene, moved(main))
    return port
  }

  @Test func `Debian's`() async throws {
    let scene = try Scene.ofTest()
    let port = try await run(scene, StockFiles.debian, StockFiles.debianSite, folder: "/var/www/html")
    let home = try await scene.curl(["--compressed", "-H", "Accept-Encoding: gzip", "http://127.0.0.1:\(port)/"])
    #expect(
      home.text.hasPrefix("<h1>Welcome") && home["Content-Encoding"] == "gzip" && home["Content-Type"] == "text/html")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/none"]).status == 404)
    let check = try await scene.sallyport("check", "--config", scene.path("sallyport.conf"))
    #expect(check.status == 0, "\(check.everything)")
    #expect(check.everything.contains("notice: taken, and without effect: sendfile, "), "\(check.everything)")
  }

  @Test func `the official image's`() async throws {
    let scene = try Scene.ofTest()
    let port = try await run(scene, StockFiles.image, StockFiles.imageSite, folder: "/usr/share/nginx/html")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text.hasPrefix("<h1>Welcome"))
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/50x.html"]).text == "An error occurred.")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/x"]).status == 404)
  }
}
