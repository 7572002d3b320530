import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `sallyport demo` {
  /// Runs a line that the demo printed, as a shell does, and returns the status and the body.
  private func paste(_ scene: Scene, _ line: Substring) async throws -> (status: String, body: String) {
    let result = try await scene.run("sh", ["-c", "\(line) -q -sS --noproxy '*' -w '|%{http_code}'"])
    let parts = result.text.split(separator: "|", omittingEmptySubsequences: false)
    return (String(parts.last ?? ""), parts.dropLast().joined(separator: "|"))
  }

  @Test(arguments: ["demo", "a folder's \"$name\""])
  func `the printed lines work from an empty folder, and the files are kept`(folder: String) async throws {
    let scene = try Scene.ofTest()
    let first = try await Demo(scene, folder: folder)
    let commands = first.said.split(separator: "\n").map { $0.drop { $0 == " " } }.filter { $0.hasPrefix("curl ") }
    try #require(commands.count == 4)
    for command in commands[..<2] {
      let answer = try await paste(scene, command)
      #expect(answer.status == "200", "\(command)")
      #expect(
        answer.body.contains(
          #"    "verdict": "SUCCESS",\#n    "subject": "CN=demo client,O=sallyport demo",\#n"#), "\(answer.body)")
      #expect(answer.body.contains("  \"upstream\": {\n    \"protocol\": \"TLSv1.3\",\n"))
      // Indented, and still JSON.
      let report = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
      #expect(report?["method"] as? String == "GET" && (report?["fields"] as? [Any])?.isEmpty == false)
    }
    for command in commands[2...] { #expect(try await paste(scene, command).status == "400") }

    let names = ["ca.crt", "server.crt", "echo.key", "client.p12", "ca.crl", "revoked.p12", "demo.mobileconfig"]
    let kept = names.map { scene.bytes("\(folder)/\($0)") }
    #expect(kept.allSatisfy { !$0.isEmpty })
    var status = stat()
    for name in try FileManager.default.contentsOfDirectory(atPath: first.folder) where name.hasSuffix(".key") {
      #expect(stat(first.file(name), &status) == 0 && status.st_mode & 0o777 == 0o600)
    }
    #expect(stat(first.folder, &status) == 0 && status.st_mode & 0o777 == 0o700)
    first.process.signal(SIGINT)
    #expect(try await first.process.ended() == .exited(0))

    let second = try await Demo(scene, folder: folder, port: first.port)
    #expect(names.map { scene.bytes("\(folder)/\($0)") } == kept)
    #expect(try await paste(scene, commands[0]).status == "200")
    // A third, meanwhile: the port is taken, and it says what to do.
    let third = try await scene.sallyport("demo", "--dir", scene.path("other"), "--port", "\(first.port)")
    #expect(third.status == 1 && third.errors.contains("--port") && access(scene.path("other"), F_OK) != 0)
    second.process.signal(SIGTERM)
    #expect(try await second.process.ended() == .exited(0))
  }

  @Test(
    arguments: [
      ([], ["200", "200", "400", "400"]), (["--verify", "optional"], ["200", "200", "200", "400"]),
      (["--tls", "1.2"], ["200", "200", "400", "400"]), (["--tls", "1.3"], ["200", "200", "400", "400"]),
      (["--upstream"], ["200", "200", "400", "400"]),
      (["--verify", "optional", "--upstream"], ["200", "200", "200", "400"]),
    ] as [([String], [String])]) func `each printed line is true of the options`(
      options: [String], statuses: [String]
    ) async throws
  {
    let scene = try Scene.ofTest()
    let own = options.last == "--upstream" ? ["http://127.0.0.1:\(try ScriptedUpstream.echo(scene).port)"] : []
    let demo = try await Demo(scene, folder: "demo", options + own)
    let lines = demo.said.split(separator: "\n").map { $0.drop { $0 == " " } }
    var found: [String] = []
    for command in lines.filter({ $0.hasPrefix("curl ") }) { found.append(try await paste(scene, command).status) }
    #expect(found == statuses, "\(demo.said)")
    #expect(lines.contains { $0.hasPrefix("Without a certificate: 400") } == (statuses[2] == "400"))
    let next = lines.filter { $0.hasPrefix("sallyport check") || $0.hasPrefix("sallyport probe") }
    #expect(next.count == (own.isEmpty ? 2 : 1))
    for line in next {
      let result = try await scene.run("sh", ["-c", "\(try Sallyport.binary()) \(line.dropFirst("sallyport ".count))"])
      #expect(result.status == 0, "\(line): \(result.everything)")
    }
  }

  @Test func `certificates to be refused are, as PEM and as PKCS#12, and the answer and the log say why`() async throws
  {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene)
    for (name, answer, reason) in [
      ("expired", "your certificate has expired", "certificate has expired"),
      ("not-yet-valid", "your certificate is not yet valid", "certificate is not yet valid"),
      ("revoked", "your certificate is revoked: the list ca.crl names it", "certificate revoked"),
      ("wrong-ca", "another CA issued your certificate", "unable to verify the first certificate"),
    ] {
      let refused = try await demo.ask("/", as: name)
      #expect(refused.status == 400 && refused.text.hasPrefix("400: \(answer)"), "\(name): \(refused.text)")
      #expect(refused.response["Content-Type"] == "text/plain")
      let page = try await demo.ask("/", as: name, ["-H", "Accept: text/html"])
      #expect(page.status == 400 && page.response["Content-Type"] == "text/html", "\(name)")
      #expect(page.text.contains("<p id=\"reason\">\(answer)") && page.text.contains("guide.md"), "\(page.text)")
      #expect(page.response["Content-Security-Policy"]?.contains("default-src 'none'") == true)
      let archive = ["--cert-type", "P12", "--cert", "\(demo.file("\(name).p12")):demo"]
      #expect(try await demo.ask("/", as: nil, archive).status == 400, "\(name)")
      #expect(demo.said.contains(reason), "\(name)")
    }
    #expect(
      try await demo.ask("/", as: nil, ["--cert-type", "P12", "--cert", "\(demo.file("client.p12")):demo"]).status
        == 200)
  }

  /// Whether the demo has an upstream of its own or the user's.
  @Test(arguments: [false, true])
  func `a client without a certificate is told so over HTTP/2 and HTTP/1.1, and nothing of it reaches an upstream`(
    isOwn: Bool
  ) async throws {
    let scene = try Scene.ofTest()
    let own = try isOwn ? ScriptedUpstream.echo(scene) : nil
    let demo = try await Demo(scene, own.map { ["--upstream", "http://127.0.0.1:\($0.port)"] } ?? [])
    for version in ["2", "1.1"] {
      let refused = try await demo.ask("/any", as: nil, ["--http\(version)", "-d", "body"])
      #expect(refused.status == 400 && refused.text.hasPrefix("400: you presented no client certificate\n"))
      #expect(refused.text.contains("client.p12") && refused.heads.hasPrefix("HTTP/\(version) "), "\(refused.text)")
      let admitted = try await demo.ask("/", ["--http\(version)"])
      #expect(admitted.status == 200 && admitted.heads.hasPrefix("HTTP/\(version) "), "\(admitted.heads)")
    }
    // The page is for clients that are refused alone.
    #expect(try await demo.ask("/sallyport-demo/refused/page").status == 404)
    if let own { #expect(own.requests("POST") == 0) }
  }

  @Test func `--listen lets others in under the address, which the certificate has`() async throws {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene, ["--listen", "127.0.0.9", "--listen", "127.0.0.9"])
    let identity = ["--cert", demo.file("client.crt"), "--key", demo.file("client.key")]
    for host in ["127.0.0.9", "127.0.0.1"] {
      let answer = try await scene.curl(
        ["--cacert", demo.file("ca.crt")] + identity + ["https://\(host):\(demo.port)/"])
      #expect(answer.status == 200, "\(host): \(answer.errors)")
    }
    #expect(demo.said.contains("where NAME is one of 127.0.0.9."))
    let port = try scene.port()
    let other = try await scene.sallyport(
      "demo", "--dir", scene.path("x"), "--port", "\(port)", "--listen", "192.0.2.1")
    #expect(
      other.status == 1 && other.errors.contains("can't listen on port \(port) of 192.0.2.1"), "\(other.everything)")
  }

  @Test func `its paths do what they say`() async throws {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene, ["--name", "app.test", "--name", "10.1.2.3"])
    #expect(try await demo.ask("/bytes/70000").body.count == 70_000)
    #expect(try await demo.ask("/status/418").status == 418)
    #expect(try await demo.ask("/status/204").body.isEmpty)
    #expect(try await demo.ask("/delay/0").status == 200)
    for path in ["/nothing", "/bytes/9999999999", "/status/99", "/delay/3600", "/bytes/x"] {
      #expect(try await demo.ask(path).status == 404, "\(path)")
    }
    let uploaded = try await scene.curl(
      ["--cacert", demo.file("ca.crt"), "--cert", demo.file("client.crt"), "--key", demo.file("client.key")]
        + ["https://localhost:\(demo.port)/upload"], input: [UInt8](repeating: 65, count: 300_000))
    #expect(uploaded.text == "{\"received\":300000}\n")
    #expect(try await demo.ask("/bytes/10", ["-I"]).status == 200)
    let named = try await demo.ask("/", ["--connect-to", "app.test:\(demo.port):127.0.0.1:\(demo.port)"])
    #expect(named.status == 200)
    let certificate = try #require(
      Certificate.loadAll(MaterialReference(path: demo.file("server.crt"))).first?.subjectAltNames.all.map(
        \.description))
    #expect(certificate == ["localhost", "127.0.0.1", "::1", "app.test", "10.1.2.3"])
    // A line to paste for each name, which no resolver knows.
    for name in ["app.test", "10.1.2.3"] {
      let command = try #require(
        demo.said.split(separator: "\n").first { $0.contains("curl ") && $0.contains("https://\(name):") })
      #expect(try await paste(scene, command.drop { $0 == " " }).status == "200", "\(command)")
    }
  }

  @Test func `a folder that is there keeps its mode, and nobody else can reach the sockets in it`() async throws {
    let scene = try Scene.ofTest()
    try scene.makeFolder("open")
    try #require(chmod(scene.path("open"), 0o755) == 0)
    let demo = try await Demo(scene, folder: "open")
    func mode(_ name: String) throws -> mode_t {
      var status = stat()
      try #require(lstat(scene.path(name), &status) == 0)
      return status.st_mode & 0o777
    }
    #expect(try mode("open") == 0o755 && mode("open/run") == 0o700)
    // Nothing in the folder itself is for others.
    for name in try FileManager.default.contentsOfDirectory(atPath: demo.folder) where name != "sallyport.pid" {
      #expect(try mode("open/\(name)") & 0o077 == 0, "\(name)")
    }
    #expect(try await demo.ask("/").status == 200)
    // One that was left open is shut.
    demo.process.signal(SIGINT)
    _ = try await demo.process.ended()
    try #require(chmod(scene.path("open/run"), 0o777) == 0)
    _ = try await Demo(scene, folder: "open")
    #expect(try mode("open/run") == 0o700)
  }

  @Test func `a folder that others may write is refused, and left as it is`() async throws {
    let scene = try Scene.ofTest()
    try scene.makeFolder("shared")
    try #require(chmod(scene.path("shared"), 0o1777) == 0)
    let refused = try await scene.sallyport("demo", "--dir", scene.path("shared"), "--port", "\(scene.port())")
    #expect(refused.status == 1 && refused.errors.contains("other users can write to"), "\(refused.everything)")
    #expect(try FileManager.default.contentsOfDirectory(atPath: scene.path("shared")).isEmpty)
  }

  @Test func `--help tells every option, of the demo and of deploy/quickstart, which builds nothing for it`()
    async throws
  {
    let scene = try Scene.ofTest()
    func options(_ text: String) -> Set<String> { Set(text.matches(of: /--[a-z][a-z-]+/).map { String($0.output) }) }
    var helps: [ToolResult] = []
    for words in [["demo", "--help"], ["demo", "-h"], ["help", "demo"], ["demo", "--port", "1", "--help"]] {
      helps.append(try await scene.run(Sallyport.binary(), words))
    }
    let expected: Set = [
      "--dir", "--port", "--listen", "--name", "--upstream", "--upstream-pin", "--verify", "--tls", "--bad-servers",
      "--report", "--may-accept", "--json",
    ]
    for help in helps {
      #expect(help.status == 0 && options(help.text).isSuperset(of: expected), "\(help.everything)")
      #expect(help.text.contains("demo trust"))
    }
    for word in ["--help", "-h"] {
      // Without a Swift in PATH nothing could be built.
      let quick = try await scene.run(
        "\(checkout)/deploy/quickstart", ["--port", "1", word], environment: ["PATH": "/usr/bin:/bin"])
      #expect(quick.status == 0 && !quick.everything.contains("Building"), "\(quick.everything)")
      #expect(options(quick.text) == options(helps[0].text).subtracting(["--remove"]), "\(quick.text)")
    }
  }

  private static let ownMounts =
    "mount --make-rprivate / && mount -t tmpfs none /usr/local/share/ca-certificates && cp -a /etc/ssl /tmp/.$$ && "
    + "mount -t tmpfs none /etc/ssl && cp -a /tmp/.$$/. /etc/ssl/ && rm -r /tmp/.$$"

  @Test(
    .enabled("no mounts of one's own, or no update-ca-certificates") {
      await Scene.succeeds("unshare", ["-m", "sh", "-c", "command -v update-ca-certificates && \(ownMounts)"])
    }) func `trust system puts the CA into the store, and leaves nothing of it behind`() async throws
  {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene)
    let binary = try Sallyport.binary()
    // In mounts of its own: this machine's store stays as it is.
    let script = """
      \(Self.ownMounts) || exit 9
      list() { ls -l /etc/ssl/certs; }
      list >before
      '\(binary)' demo trust system --dir '\(demo.folder)' || exit 1
      list >during
      cat /etc/ssl/certs/ca-certificates.crt >bundle
      '\(binary)' demo trust system --dir '\(demo.folder)' --remove || exit 2
      list >after
      cat /etc/ssl/certs/ca-certificates.crt >bundle-after
      '\(binary)' demo trust system --dir '\(demo.folder)' --remove || exit 3
      """
    let result = try await scene.run("unshare", ["-m", "sh", "-c", script], within: .seconds(120))
    try #require(result.status == 0, "\(result.everything)")
    func links(_ file: String) -> [Substring] {
      scene.text(file).split(separator: "\n").filter { $0.contains("sallyport-demo") }
    }
    let own = scene.text("demo/ca.crt").split(separator: "\n")[1]
    #expect(links("before").isEmpty)
    // By name, and by hash.
    #expect(links("during").count == 2, "\(links("during"))")
    #expect(scene.text("bundle").contains(own) && !scene.text("bundle-after").contains(own))
    #expect(links("after").isEmpty, "\(links("after"))")
  }

  @Test func `a browser gets a page with the identity, escaped`() async throws {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene)
    let page = try await demo.ask("/?<script>", ["-H", "Accept: text/html,*/*", "-H", "X-Odd: <b>\"&'"])
    #expect(page.response["Content-Type"] == "text/html; charset=utf-8")
    #expect(page.text.contains("<p id=\"identity\">CN=demo client,O=sallyport demo</p>"))
    #expect(page.text.contains("Your certificate was accepted"))
    #expect(
      page.text.contains("&lt;b&gt;&quot;&amp;&#39;") && !page.text.contains("<script>") && !page.text.contains("<b>"))
    #expect(page.response["Content-Security-Policy"]?.contains("default-src 'none'") == true)
  }

  @Test func `a WebSocket is echoed`() async throws {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene)
    try await scene.talk(tls: demo.port, ["-cert", demo.file("client.crt"), "-key", demo.file("client.key")]) { wire in
      try wire.write(
        "GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
          + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
      let head = try #require(try wire.read(through: "\r\n\r\n"))
      // The example of RFC 6455 §1.3.
      #expect(String(decoding: head, as: UTF8.self).contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="))
      let payload = Array("hello".utf8), mask: [UInt8] = [1, 2, 3, 4]
      try wire.write([0x81, 0x80 | 5] + mask + payload.enumerated().map { $1 ^ mask[$0 & 3] })
      #expect(try wire.read(exactly: 7) == [0x81, 5] + payload)
      try wire.write([0x88, 0x80] + mask)
      #expect(try wire.read(exactly: 2) == [0x88, 0])
    }
  }

  @Test func `--verify optional lets in who has none, --tls keeps to one version`() async throws {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene, ["--verify", "optional", "--tls", "1.2"])
    let anonymous = try await demo.ask("/", as: nil)
    #expect(anonymous.status == 200 && anonymous.text.contains(#""verdict": "NONE""#))
    #expect(anonymous.text.contains(#""protocol": "TLSv1.2""#))
    #expect(!demo.said.contains("Without a certificate: 400") && demo.said.contains("Without a certificate: 200"))
    #expect(!demo.said.contains("asks for a client certificate on"))
    #expect(try await demo.ask("/", as: "expired").status == 400)
    #expect(try await demo.ask("/", ["--tlsv1.3"]).exit == 35)
  }

  @Test func `one's own application stands behind it, an https one by its pin only`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let demo = try await Demo(scene, ["--upstream", "http://127.0.0.1:\(upstream.port)"])
    let answer = try await demo.ask("/head")
    #expect(answer.status == 200 && answer.text.contains("X-Client-DN: CN=demo client,O=sallyport demo"))
    let secure = try await OpenSSLServer.start(
      scene, scene.identity("up", cast.authority.server(names: ["up.test"])), "-www")
    let unpinned = try await scene.sallyport(
      "demo", "--dir", demo.folder, "--upstream", "https://127.0.0.1:\(secure.port)")
    #expect(unpinned.status != 0 && unpinned.errors.contains("--upstream-pin"))
    let pin = try await scene.sallyport("pin", scene.path("up.pem")).text
    let spelling = try #require(pin.split(whereSeparator: { " ;\n".contains($0) }).first { $0.hasPrefix("sha256//") })
    let pinned = try await Demo(
      scene, folder: "second", ["--upstream", "https://127.0.0.1:\(secure.port)", "--upstream-pin", String(spelling)])
    #expect(try await pinned.ask("/").text.contains("s_server -"))
    for bad in ["ftp://x", "http://", "http://a b", "http://a;b", "http://a/path", "http://$host"] {
      #expect(try await scene.sallyport("demo", "--dir", demo.folder, "--upstream", bad).status != 0, "\(bad)")
    }
  }

  @Test func `a certificate about to end is renewed while it runs, with its key and under its CA`() async throws {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene, ["--renew-every", "1"])
    let authority = try CertifiedKey.load(
      certificate: MaterialReference(path: demo.file("ca.crt")), key: MaterialReference(path: demo.file("ca.key")),
      tokens: TokenRefusals())
    let server = try CertifiedKey.load(
      certificate: MaterialReference(path: demo.file("server.crt")),
      key: MaterialReference(path: demo.file("server.key")), tokens: TokenRefusals())
    let ending = try CertificateBuilder(
      commonName: "localhost", .leaf([.serverAuth]), names: [.dns("localhost"), .ip("127.0.0.1"), .ip("::1")], days: 2
    ).signed(by: authority, key: server.key)
    try scene.write("demo/server.crt", text: ending.certificate.pem)
    try await until("the renewal") { demo.said.contains("renewed: server\n") }
    let renewed = try #require(Certificate.loadAll(MaterialReference(path: demo.file("server.crt"))).first)
    #expect(renewed.spkiSHA256 == server.certificate.spkiSHA256 && authority.certificate.issued(renewed))
    #expect(try #require(renewed.notAfter.seconds) > #require(ending.certificate.notAfter.seconds))
    try await until("the daemon to serve it") {
      let shown = try await scene.run(
        "openssl", ["s_client", "-connect", "127.0.0.1:\(demo.port)", "-servername", "localhost"], input: [])
      return shown.text.contains(renewed.pem)
    }
    #expect(try await demo.ask("/").status == 200)
  }

  @Test func `the CA can certify the demo's names and no others`() async throws {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene)
    let authority = try CertifiedKey.load(
      certificate: MaterialReference(path: demo.file("ca.crt")), key: MaterialReference(path: demo.file("ca.key")),
      tokens: TokenRefusals())
    for (name, isGood) in [("localhost", true), ("bank.example", false)] {
      let leaf = try CertificateBuilder(commonName: name, .leaf([.serverAuth]), names: [.dns(name)])
        .signed(by: authority, key: .generate())
      let file = try scene.write("leaf.pem", text: leaf.certificate.pem)
      let verified = try await scene.run("openssl", ["verify", "-CAfile", demo.file("ca.crt"), file])
      #expect((verified.status == 0) == isGood, "\(verified.text)")
    }
  }

  static let hasNSS = access("/usr/bin/certutil", X_OK) == 0

  @Test(.enabled(if: hasNSS, "certutil (libnss3-tools) is not installed"))
  func `trust puts CA and client into an NSS store, and takes them out`() async throws {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene)
    let store = scene.path("nssdb")
    let words = ["demo", "trust", "nss", "--dir", demo.folder, "--nss-dir", store]
    func listed() async throws -> String { try await scene.run("certutil", ["-d", "sql:\(store)", "-L"]).text }
    #expect(try await scene.run(Sallyport.binary(), words).status == 0)
    let inside = try await listed()
    #expect(inside.contains("sallyport demo CA") && inside.contains("demo client"))
    // What somebody took out by hand leaves nothing else in.
    try await scene.succeed("certutil", "-d", "sql:\(store)", "-D", "-n", "sallyport demo CA")
    #expect(try await scene.run(Sallyport.binary(), words + ["--remove"]).status == 0)
    let after = try await listed()
    #expect(!after.contains("sallyport demo CA") && !after.contains("demo client"), "\(after)")
  }
}
