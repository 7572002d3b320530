import Foundation
import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `stub_status` {
  @Test func `has nginx's page, for GET and HEAD only`() async throws {
    let scene = try Scene.ofTest()
    let twin = try await NginxTwin(
      scene,
      """
      server { listen LISTEN; server_name h; location = /s { stub_status; } location /v {
        return 200 "$connections_active $connections_reading $connections_writing $connections_waiting"; } }
      """)
    // nginx's start was awaited by a connection.
    _ = try await scene.talk(twin.ours) { _ in true }
    try await twin.compare(NginxTwin.get("/s"))
    try await twin.compare(NginxTwin.get("/s"))
    try await twin.compare("HEAD /s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    try await twin.compare(NginxTwin.get("/v"))
    try await twin.compare("POST /s HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    try await twin.compare("GET /s HTTP/1.1\r\nHost: h\r\n\r\n" + NginxTwin.get("/s"))
    let page = try await twin.ask(NginxTwin.get("/s"))
    #expect(
      page.hasSuffix(
        "Active connections: 1 \nserver accepts handled requests\n 8 8 8 \nReading: 0 Writing: 1 Waiting: 0 \n"),
      "\(page)")
  }

  @Test func `counts the connections of all workers by what they do`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    _ = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port) reuseport; stub_status; }"))
    let page = try await scene.talk(port) { idle in
      try idle.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
      _ = try idle.response()
      let half = try Wire.dial(port: port)
      defer { half.close() }
      try half.write("GET / HTTP/1.1\r\nHost:")
      // The daemon may not have read it yet, so ask until it has, a bounded number of times.
      var page = ""
      for _ in 0..<200 {
        try idle.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        page = String(decoding: try idle.response().body, as: UTF8.self)
        if page.contains("Reading: 1") { break }
      }
      return page
    }
    #expect(page.contains("Active connections: 2 \n"), "\(page)")
    #expect(page.hasSuffix("Reading: 1 Writing: 1 Waiting: 0 \n"), "\(page)")
  }
}

@Suite(.staged) struct `The commands for configurations` {
  private let conf =
    "events {}\nhttp {\n    server {\n        listen 127.0.0.1:8099;\n        return 204; # no content\n    }\n}\n"

  @Test func `convert prints a configuration, and says by its status whether anything was refused`() async throws {
    let scene = try Scene.ofTest()
    let old = "[s]\naccept = 127.0.0.1:1\nconnect = 2\ncert = c.pem\nverify = 2\nCAfile = ca.pem\n"
    let path = try scene.write("stunnel.conf", text: old)
    let whole = try await scene.sallyport("convert", "stunnel", path)
    #expect(whole.status == 0 && whole.text.contains("ssl_verify_client on;"), "\(whole.everything)")
    let open = try scene.write("open.conf", text: old + "CApath = /x\n")
    let refused = try await scene.sallyport("convert", "stunnel", open)
    #expect(refused.status == 1 && refused.text.contains("ssl_reject_handshake on;"), "\(refused.everything)")
    #expect(refused.errors.contains("\(open):7: refused: CApath = /x: "), "\(refused.errors)")
    #expect(try await scene.sallyport("convert", "stunnel", scene.path("none")).status == 2)
    let nginx = try await scene.sallyport("convert", try scene.write("x.conf", text: conf))
    #expect(nginx.status == 0 && nginx.text.contains("return 204;"), "\(nginx.everything)")
    let flags = try await scene.sallyport(
      "convert", "ghostunnel", "--", "server", "--listen", "127.0.0.1:1", "--target", "localhost:2", "--cert", "c",
      "--key",
      "k", "--cacert", "a", "--allow-cn", "x")
    #expect(flags.status == 0 && flags.text.contains("ssl_client_allow cn=x;"), "\(flags.everything)")
  }

  @Test func `format prints, checks and replaces a file with its mode and owner`() async throws {
    let scene = try Scene.ofTest()
    let path = try scene.write(
      "x.conf", text: conf.replacing("        ", with: "\t").replacing("listen", with: " listen"))
    chmod(path, 0o640)
    let before = scene.text("x.conf")
    let printed = try await scene.sallyport("format", path)
    #expect(printed.status == 0 && printed.text == conf, "\(printed.everything)")
    #expect(scene.text("x.conf") == before)
    let checked = try await scene.sallyport("format", "--check", path)
    #expect(checked.status == 1 && checked.text == "\(path) is not formatted\n", "\(checked.everything)")
    symlink("x.conf", scene.path("link.conf"))
    #expect(try await scene.sallyport("format", "--in-place", scene.path("link.conf")).status == 0)
    #expect(scene.text("x.conf") == conf)
    var status = stat()
    #expect(stat(path, &status) == 0 && status.st_mode & 0o7777 == 0o640)
    #expect(lstat(scene.path("link.conf"), &status) == 0 && status.st_mode & S_IFMT == S_IFLNK)
    #expect(try await scene.sallyport("format", "--check", path).status == 0)
    let piped = try await scene.run(Sallyport.binary(), ["format"], input: Array("a  b;".utf8))
    #expect(piped.text == "a b;\n")
    let broken = try await scene.run(Sallyport.binary(), ["format", "-"], input: Array("a {".utf8))
    #expect(
      broken.status == 1 && broken.text.isEmpty && broken.errors.contains("stdin:1:4: error: unexpected end of file"))
    #expect(try await scene.sallyport("format", "--in-place", "-").status == 64)
  }

  @Test func `check --dump prints what nginx -T prints`() async throws {
    let scene = try Scene.ofTest()
    try scene.write("more.conf", text: "server { listen 127.0.0.1:8099; return 204; }\n")
    // nginx wants an absolute prefix, so both get absolute names.
    let text = "events {}\nhttp { # all\n  include \(scene.path("more.conf"));\n}\n"
    let path = try scene.write("x.conf", text: Sallyport.withUser(text))
    let ours = try await scene.sallyport("check", "--dump", "--config", path)
    #expect(ours.status == 0 && ours.errors.contains("configuration \(path) is valid"), "\(ours.everything)")
    // nginx also gets places that a user other than root may write to.
    let folders = NginxUpstream.ownPaths(in: scene.folder)
    let path2 = try scene.write(
      "y.conf", text: Sallyport.withUser(text.replacing("# all", with: "# all\n\(folders)")))
    let theirs = try await scene.run(
      "nginx",
      ["-T", "-c", path2, "-e", scene.path("nginx.err"), "-g", "pid \(scene.path("p")); error_log \(scene.path("e"));"])
    #expect(
      ours.text == theirs.text.replacing("\n\(folders)", with: "").replacing(path2, with: path), "\(theirs.errors)")
    let invalid = try await scene.sallyport(
      "check", "--dump", "--config", scene.write("y.conf", text: "events {} http { nonsense; }"))
    #expect(invalid.status == 1 && invalid.text.isEmpty && invalid.errors.contains("unknown directive \"nonsense\""))
  }

  @Test func `check --diff has an exit status for no change, a change and a fault`() async throws {
    let scene = try Scene.ofTest()
    let old = try scene.write("old.conf", text: conf)
    let open = try scene.write(
      "new.conf", text: conf.replacing("return 204;", with: "location / { return 204; allow 10.0.0.1; deny all; }"))
    let same = try await scene.sallyport("check", "--config", old, "--diff", old)
    #expect(same.status == 0 && same.everything.isEmpty)
    let changed = try await scene.sallyport("check", "--config", old, "--diff", open)
    #expect(changed.status == 1 && changed.text.contains("its rewrite directives differ"), "\(changed.everything)")
    let missing = try await scene.sallyport("check", "--config", old, "--diff", scene.path("missing.conf"))
    #expect(missing.status == 2 && missing.errors.contains("missing.conf is not valid"), "\(missing.everything)")
    #expect(try await scene.sallyport("check", "--config", old, "--diff", old, "--dump").status == 64)
    #expect(try await scene.sallyport("check", "--config", old, "--from", "::1").status == 64)
  }

  @Test func `every command of the migration page runs as it is written`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    _ = try scene.identity("alice", cast.authority.client())
    let page = try String(contentsOfFile: "\(checkout)/docs/MIGRATING-FROM-NGINX.md", encoding: .utf8)
    let inText = page.split(separator: "`").map(String.init).filter {
      $0.hasPrefix("sallyport check sallyport.conf") || $0.hasPrefix("sallyport format --")
    }
    let indented = page.split(separator: "\n").filter { $0.hasPrefix("       ") }.map {
      $0.trimmingCharacters(in: .whitespaces)
    }
    let commands = indented + inText
    #expect(commands.filter { $0.hasPrefix("sallyport ") }.count == 5, "\(commands)")
    try scene.write(
      "sallyport.conf",
      text: """
        events {}
        http {
            server {
                listen 127.0.0.1:443 ssl;
                server_name localhost;
                ssl_certificate server.pem;
                ssl_certificate_key server.key;
                ssl_client_certificate ca.pem;
                ssl_verify_client on;
                location /api/ {
                    proxy_pass http://127.0.0.1:9;
                }
            }
        }

        """)
    symlink(scene.path("alice.pem"), scene.path("alice.crt"))
    try scene.makeFolder("bin")
    symlink(try Sallyport.binary(), scene.path("bin/sallyport"))
    let script =
      "set -e\ncd \(scene.folder)\n" + commands.map { "echo '> \($0.replacing("'", with: ""))'\n\($0)\n" }.joined()
    let result = try await scene.run(
      "bash", [scene.write("page.sh", text: script)], environment: ["PATH": "\(scene.path("bin")):/usr/bin:/bin"])
    #expect(result.status == 0, "\(result.everything)")
    #expect(
      result.text.contains("configuration sallyport.conf is valid")
        && result.text.contains("sends         GET /api/ HTTP/1.1"), "\(result.everything)")
  }
}
