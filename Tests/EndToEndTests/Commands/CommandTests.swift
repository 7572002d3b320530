import Bytes
import Crypto
import Daemon
import Foundation
import Glibc
import Observability
import Review
import TestSupport
import Testing

/// A line of a policy, without its columns.
private func lines(_ text: String) -> [String] {
  text.split(separator: "\n").map { $0.split(separator: " ").joined(separator: " ") }
}

@Suite(.staged) struct `sallyport check` {
  @Test(.enabled(if: access("/run/sallyport/api.sock", F_OK) != 0, "this machine runs an API there"))
  func `--running compares the addresses of a process that has no API, and says that none was asked`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let daemon = try await Sallyport.start(scene, configuration("server { listen 127.0.0.1:\(port); return 204; }"))
    func ask() async throws -> ToolResult {
      try await scene.run(Sallyport.binary(), ["check", "--running", scene.path("sallyport.conf")])
    }
    let same = try await ask()
    #expect(same.status == 0 && same.text.contains("no API was asked"), "\(same.everything)")
    try daemon.rewrite(configuration("server { listen 127.0.0.1:\(port); listen 127.0.0.2:\(port); return 204; }"))
    let other = try await ask()
    #expect(other.status == 1 && other.text.contains("127.0.0.2:\(port)"), "\(other.everything)")
  }

  /// Copies an example into the scene and makes every file that it names.
  private func stage(_ example: String, _ scene: Scene, _ authority: TestAuthority) async throws -> ToolResult {
    let text = try String(contentsOfFile: "\(checkout)/config/\(example).conf", encoding: .utf8)
    let server = try authority.server(names: ["localhost", "example.com"])
    let client = try authority.client(commonName: "proxy")
    let key = try server.key.pem.withUnsafeBytes { Array($0) }
    func chain(_ certified: CertifiedKey) -> String { certified.certificate.pem }
    try scene.makeFolder("credentials")
    try scene.makeFolder("appliances")
    try scene.write("appliances/one.pem", text: chain(server))
    for name in ["server.pass", "client.pass", "credentials/tls-passwords", "credentials/client-password"] {
      try scene.write(name, text: IdentityFiles.password + "\n")
    }
    for name in ["server.cer", "tls.crt"] { try scene.write(name, text: chain(server)) }
    for name in ["server.key.pem", "tls.key"] { try scene.write(name, key) }
    for name in ["ca.cer", "ca.crt", "old-ca.cer", "upstream-ca.cer", "backend-ca.cer"] {
      try scene.write(name, text: authority.root.certificate.pem)
    }
    try scene.pkcs12("server", server)
    try scene.pkcs12("client", client)
    for list in ["ca.crl", "old-ca.crl", "upstream-ca.crl"] {
      try scene.write(list, text: RevocationListBuilder(revoking: []).pem(signedBy: authority.root))
    }
    try await scene.succeed(
      "openssl", "genpkey", "-genparam", "-algorithm", "DH", "-pkeyopt", "group:ffdhe2048", "-out", "dh.pem")
    try scene.makeFolder("envelope")
    for key in ["new", "old"] {
      for kind in ["key", "mac"] {
        try scene.write("envelope/\(key).\(kind)", text: String(repeating: "5a", count: 32))
      }
    }
    try scene.write("users", text: "cn=alice al:secret\n")
    try scene.write("htpasswd", text: "alice:{PLAIN}wonderland\n")
    let made = try await scene.sallyport("ca", "init", scene.path("ca"))
    try #require(made.status == 0, "\(made.everything)")
    for key in ["ticket.key", "ticket-before.key"] { try scene.write(key, [UInt8](repeating: 7, count: 80)) }
    try await scene.succeed(
      "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "server-rsa.key.pem", "-out",
      "server-rsa.cer", "-subj", "/CN=rsa.example", "-days", "2")
    return try await scene.sallyport(
      "check", "--offline", "--config", scene.write("\(example).conf", text: Sallyport.withUser(text)),
      environment: ["CREDENTIALS_DIRECTORY": scene.path("credentials")])
  }

  @Test(arguments: [
    (
      "nginx-block",
      [
        "server localhost", "clients only with a certificate of these CAs (ssl_verify_client on)",
        "upstream http://127.0.0.1:8080",
      ]
    ),
    (
      "sidecar",
      [
        "clients only with a certificate of these CAs (ssl_verify_client on)", "depth 2",
        "upstream http://application: unix:/run/application/http.sock",
      ]
    ),
    (
      "legacy-backend",
      [
        "server legacy.example.com", "upstream https://backend.internal:8443",
        "chain must verify, depth 1", "name must be backend.internal",
        "pin sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
      ]
    ),
    (
      "full",
      [
        "server example.com *.example.com", "handshake rejected (ssl_reject_handshake)",
        "chain must verify, depth 2", "name must be api.internal", "location /api/",
        "pin chain sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "pinned the upstream's own certificate, whatever its chain", "presents what callers/",
        "answers a 401 by digest, ntlm, basic, as one of 1 users of users;", "in https://api, realm \"intranet\"",
      ]
    ),
  ])
  func `every example is valid, and its policy is told`(example: String, expected: [String]) async throws {
    let scene = try Scene.ofTest(), authority = try TestAuthority()
    let result = try await stage(example, scene, authority)
    #expect(result.status == 0, "\(result.everything)")
    let said = lines(result.text)
    for line in expected { #expect(said.contains { $0.hasPrefix(line) }, "\(line) in \(result.text)") }
    #expect(said.last?.hasPrefix("configuration \(scene.path("\(example).conf")) is valid") == true)
    #expect(!said.contains { $0.contains("error:") })
    if example == "legacy-backend" { #expect(said.contains { $0.hasPrefix("presents") && $0.contains("CN=proxy") }) }
    if example == "nginx-block" { #expect(said.contains { $0.contains("warning:") && $0.contains("\"ssl\"") }) }
  }

  @Test func `warnings are errors where --strict says so`() async throws {
    let scene = try Scene.ofTest(), authority = try TestAuthority()
    #expect(try await stage("nginx-block", scene, authority).status == 0)
    let strict = try await scene.sallyport(
      "check", "--offline", "--strict", "--config", scene.path("nginx-block.conf"))
    #expect(strict.status == 1 && strict.text.contains("is not valid: 1 error"), "\(strict.text)")
  }

  @Test func `an error of the configuration is told on standard output, and by a start on standard error`() async throws
  {
    let scene = try Scene.ofTest()
    let path = try scene.write("bad.conf", text: "events {} http { server { proxy_pas http://127.0.0.1:1; } }")
    let check = try await scene.sallyport("check", "--config", path)
    let told = check.text.split(separator: "\n")
    #expect(
      check.status == 1 && check.errors.isEmpty && told.last?.contains("is not valid: 1 error") == true, "\(told)")
    // A start refuses the same things in the same words.
    let start = try await scene.sallyport("run", "--config", path)
    #expect(start.status == 78 && start.text.isEmpty && start.errors.contains(told[0]), "\(start.everything)")
  }

  @Test func `what run refuses, check refuses in the same words, unless it judges the files alone`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    func text(_ main: String = "", listen: String? = nil, http: String = "", pass: String = "127.0.0.1:9") -> String {
      "\(main) events {} http { \(http) server { listen \(listen ?? "127.0.0.1:\(port)"); "
        + "location / { proxy_pass http://\(pass); } } }"
    }
    for (text, words) in [
      (text(pass: "nosuch.invalid"), "host not found in upstream \"nosuch.invalid:80\""),
      (text(http: "resolver nosuch.invalid;"), "host not found in resolver \"nosuch.invalid\""),
      (text(http: "set_real_ip_from nosuch.invalid;"), "nosuch.invalid"),
      (text(listen: "192.0.2.1:\(port)"), "bind() to 192.0.2.1:\(port) failed (99: "),
      (text(listen: "unix:\(scene.path("nowhere/a.sock"))"), "nowhere/a.sock failed (2: "),
      (text("pid nowhere/a.pid;"), "nowhere/a.pid\" failed (2: "),
      (text("error_log nowhere/a.log;"), "nowhere/a.log: No such"),
      (text(http: "access_log nowhere/a.log;"), "nowhere/a.log: No such"),
    ] {
      let path = try scene.write("check.conf", text: Sallyport.withUser(text))
      let check = Check(path, .thisMachine(trial: DryStart.trial)).report(isStrict: false)
      #expect(!check.isValid && check.lines(isColoured: false).contains { $0.contains(words) }, "\(text): \(check)")
      let start = try await scene.sallyport("run", "--config", path)
      #expect(start.status != 0 && start.errors.contains(words), "\(text): \(start.everything)")
      #expect(Check(path, .files).count(.error) == 0, "\(text)")
    }
    // Nothing was made, and nothing listens.
    for name in ["nowhere", "a.pid", "a.log"] { #expect(access(scene.path(name), F_OK) != 0, "\(name)") }
  }

  /// A container can let everybody have every port.
  private static let hasPrivilegedPorts =
    (try? String(contentsOfFile: "/proc/sys/net/ipv4/ip_unprivileged_port_start", encoding: .utf8))?.hasPrefix("1024")
    ?? false

  @Test(
    .enabled(if: geteuid() == 0, "root does not run the tests"),
    .enabled(if: hasPrivilegedPorts, "every user may have port 443 here"))
  func `a port that the user may not have is an error, and one that another process has a warning`() async throws {
    let scene = try Scene.ofTest()
    chmod(scene.folder, 0o755)
    let other = try QuietListener(scene)
    let path = try scene.write(
      "ports.conf",
      text: "events {} http { server { listen 127.0.0.1:\(other.port); listen 127.0.0.1:443; return 204; } }")
    chmod(path, 0o644)
    let nobody = try #require(getpwnam("nobody")?.pointee)
    let result = try await scene.run(
      "setpriv",
      [
        "--reuid=\(nobody.pw_uid)", "--regid=\(nobody.pw_gid)", "--clear-groups", "--bounding-set=-all",
        Sallyport.binary(), "check", "--config", path,
      ])
    #expect(result.status == 1 && result.text.contains("bind() to 127.0.0.1:443 failed (13: "), "\(result.everything)")
    let ours = try await scene.sallyport("check", "--config", path)
    #expect(ours.status == 0, "\(ours.everything)")
    #expect(
      ours.text.contains("warning: 127.0.0.1:\(other.port) is in use, so a start would be refused now"), "\(ours.text)")
    #expect(ours.text.hasSuffix("is valid, 1 warning\n"), "\(ours.text)")
  }

  @Test func `--json has the policy by server and location, the steps of --explain and the changes of --diff`()
    async throws
  {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    func json(_ options: String...) async throws -> (status: Int32, object: [String: Any]) {
      let result = try await scene.run(
        Sallyport.binary(), ["check", "--json", "--config", scene.path("new.conf")] + options)
      let object = try JSONSerialization.jsonObject(with: Data(result.text.utf8)) as? [String: Any]
      return (result.status, try #require(object, "\(result.everything)"))
    }
    let port = try scene.port()
    let locations = "location /a { return 204; } location /b { proxy_pass http://127.0.0.1:9; }"
    let server = "listen 127.0.0.1:\(port) ssl; \(Cast.tls) \(locations)"
    try scene.write("old.conf", text: "events {} http { server { \(server) } }")
    try scene.write("new.conf", text: "events {} http { server { \(server.replacing(" on;", with: " optional;")) } }")
    let (status, checked) = try await json()
    let servers = try #require(checked["servers"] as? [[String: Any]])
    let rules = try #require(servers.first?["rules"] as? [[String: Any]])
    #expect(status == 0 && servers.first?["line"] as? Int == 1)
    #expect(
      rules.contains { $0["label"] as? String == "clients" && ($0["text"] as? String ?? "").contains("optional") })
    let judged = try #require(servers.first?["locations"] as? [[String: Any]])
    #expect(judged.map { $0["name"] as? String } == ["/b"])
    let told = try await json("--explain", "GET https://127.0.0.1:\(port)/a")
    #expect(told.status == 0 && told.object["status"] as? Int == 204, "\(told.object)")
    let steps = try #require(told.object["steps"] as? [[String: Any]])
    #expect(steps.contains { $0["label"] as? String == "location" }, "\(steps)")
    let changed = try await json("--diff", scene.path("old.conf"))
    let changes = try #require(changed.object["changes"] as? [[String: Any]])
    #expect(changed.status == 1 && changes.contains { $0["effect"] as? String == "opens" }, "\(changes)")
    try scene.write("new.conf", text: "events {} http { nonsense; }")
    for options in [["--explain", "GET https://127.0.0.1/"], ["--diff", scene.path("old.conf")], []] {
      let result = try await scene.run(Sallyport.binary(), ["check", "--json", scene.path("new.conf")] + options)
      let object = try JSONSerialization.jsonObject(with: Data(result.text.utf8)) as? [String: Any]
      let messages = try #require(object?["diagnostics"] as? [[String: Any]], "\(result.everything)")
      #expect(result.status != 0 && messages.first?["code"] as? String == "unknown-directive", "\(messages)")
      #expect(messages.first?["column"] as? Int == 18 && result.errors.isEmpty, "\(result.everything)")
    }
  }

  @Test(arguments: [
    (["rnu"], "rnu", "\"run\""), (["rnu", "-c", "x"], "rnu", "\"run\""), (["help", "chekc"], "chekc", "\"check\""),
    (["ca", "isue", "x"], "isue", "\"issue\""), (["demo", "trsut"], "trsut", "\"trust\""),
    (["envelope", "xyzzy"], "xyzzy", "seal, open"), (["-"], "-", "Unexpected"), ([""], "\"\"", "run"),
  ]) func `a mistyped command is named, and the nearest one`(words: [String], name: String, hint: String) async throws {
    let scene = try Scene.ofTest()
    let result = try await scene.run(Sallyport.binary(), words)
    #expect(result.status == 64 && result.errors.contains(name) && result.errors.contains(hint), "\(result.everything)")
  }

  /// `bwrap` needs no root where users may have namespaces of their own.
  private static let withoutProc = ["--die-with-parent", "--dev-bind", "/", "/", "--tmpfs", "/proc"]

  /// A sanitizer's runtime reads /proc/self/maps, and ends without it.
  @Test(
    .enabled("bwrap can't take /proc away here") { await Scene.succeeds("bwrap", withoutProc + ["true"]) },
    .disabled(if: ProcessInfo.processInfo.environment["SALLYPORT_SANITIZER"] != nil, "a sanitizer needs /proc"))
  func `the command line counts where /proc is not mounted`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let binary = try Sallyport.binary()
    func run(_ words: String...) async throws -> ToolResult {
      try await scene.run("bwrap", Self.withoutProc + [binary] + words)
    }
    #expect(try await run("--version").text.hasPrefix("sallyport "))
    #expect(try await run("rnu").status == 64)
    let path = try scene.write("bad.conf", text: "events {} http { bogus; }")
    let bad = try await run("check", "--config", path)
    #expect(bad.status == 1 && bad.text.contains("unknown directive \"bogus\""), "\(bad.everything)")
    // It serves too.
    let port = try scene.port()
    let daemon = try Sallyport(
      scene, configuration("server { listen 127.0.0.1:\(port); location / { return 200 served; } }"),
      launcher: ["bwrap"] + Self.withoutProc)
    try await until("an answer") { try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "served" }
    daemon.signal(SIGTERM)
    _ = try await daemon.process.ended()
  }

  @Test func `the version is the product's`() async throws {
    let scene = try Scene.ofTest()
    let result = try await scene.sallyport("--version")
    #expect(result.status == 0)
    #expect(result.text.wholeMatch(of: /sallyport \d+\.\d+\.\d+\n/) != nil, "\(result.text)")
  }

  @Test func `the nginx block runs as it stands, but for its ports`() async throws {
    let scene = try Scene.ofTest(), authority = try TestAuthority()
    _ = try await stage("nginx-block", scene, authority)
    let upstream = try ScriptedUpstream.echo(scene)
    let (http, https) = try (scene.port(), scene.port())
    let daemon = try Sallyport(
      scene,
      "pid sallyport.pid; "
        + scene.text("nginx-block.conf").replacing("listen 80;", with: "listen 127.0.0.1:\(http);")
        .replacing("listen 443;", with: "listen 127.0.0.1:\(https);")
        .replacing("127.0.0.1:8080", with: "127.0.0.1:\(upstream.port)"))
    try await daemon.untilReady()
    let redirect = try await scene.curl(["-H", "Host: localhost", "http://127.0.0.1:\(http)/a?b=c"])
    #expect(redirect.status == 301 && redirect["Location"] == "https://localhost/a?b=c")
    let client = try scene.identity("client", authority.client(commonName: "bob"))
    let reach = ["--cacert", scene.path("ca.cer"), "--connect-to", "::127.0.0.1:\(https)", "https://localhost/head"]
    let known = try await scene.curl(client.curl + reach)
    #expect(known.status == 200 && known.text.contains("X-Client-DN: CN=bob,"), "\(known.errors)")
    #expect(try await scene.curl(reach).status == 400)
    let stranger = try scene.identity("stranger", TestAuthority("Other").client())
    #expect(try await scene.curl(stranger.curl + reach).status == 400)
  }
}

@Suite(.staged) struct `sallyport pin` {
  /// Whether this directive, pasted, lets the proxy speak with an upstream of that key.
  private func trusts(_ directive: String, _ scene: Scene, upstream: UInt16, name: String) async throws -> Int {
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        server { listen 127.0.0.1:\(port); location / { proxy_pass https://127.0.0.1:\(upstream);
          proxy_ssl_name up.test; proxy_ssl_trusted_certificate anchors.pem; \(directive) } }
        """
      ).replacing("pid sallyport.pid", with: "pid \(name).pid"), name: name)
    let status = try await scene.curl(["http://127.0.0.1:\(port)/"]).status
    daemon.signal(SIGTERM)
    _ = try await daemon.process.ended()
    return status
  }

  @Test func `the directive for any file of the key, or for the server itself, works when pasted`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let certified = try authority.server(names: ["up.test"])
    let files = try scene.identity("up", certified)
    try scene.write("up.der", certified.certificate.der)
    try scene.pkcs12("up", certified)
    try scene.write("password", text: IdentityFiles.password + "\n")
    try await scene.succeed("openssl", "pkey", "-in", "up.key", "-pubout", "-out", "up.pub")
    try await scene.succeed("openssl", "pkey", "-in", "up.key", "-outform", "DER", "-out", "up.key.der")
    try await scene.succeed(
      "openssl", "pkey", "-in", "up.key", "-aes256", "-passout", "pass:\(IdentityFiles.password)", "-out", "locked.key")
    let server = try await OpenSSLServer.start(scene, files, "-www")
    let expected = "proxy_ssl_pin \(Pin.spelling(publicKeyDigest: certified.certificate.spkiSHA256));\n"
    let locked = ["--password-file", scene.path("password")]
    for source in ["up.pem", "up.der", "up.key", "up.key.der", "up.pub"].map(scene.path)
      + ["127.0.0.1:\(server.port)", "localhost:\(server.port)"]
    {
      let result = try await scene.run(Sallyport.binary(), ["pin", source])
      #expect(result.status == 0 && result.text == expected, "\(source): \(result.everything)")
    }
    for source in ["up.p12", "locked.key"].map(scene.path) {
      let result = try await scene.run(Sallyport.binary(), ["pin", source] + locked)
      #expect(result.status == 0 && result.text == expected, "\(source): \(result.everything)")
      let without = try await scene.run(Sallyport.binary(), ["pin", source])
      #expect(without.status == 1 && without.text.isEmpty && without.errors.contains("pass"), "\(without.everything)")
    }
    #expect(try await trusts(expected, scene, upstream: server.port, name: "pasted") == 200)
    let other = try Pin.spelling(publicKeyDigest: authority.server().certificate.spkiSHA256)
    #expect(try await trusts("proxy_ssl_pin \(other);", scene, upstream: server.port, name: "wrong") == 502)
  }

  @Test func `what can't be pinned is an error, and prints no directive`() async throws {
    let scene = try Scene.ofTest()
    try scene.write("noise", text: "neither PEM nor DER\n")
    let silent = try scene.port()
    let plain = try ScriptedUpstream(scene) { wire, _ in try wire.answer("no TLS", closing: true) }
    for source in [
      scene.path("noise"), scene.path("missing.pem"), scene.folder, "127.0.0.1:\(silent)", "127.0.0.1:\(plain.port)",
      "no-such-host.invalid:443", "127.0.0.1:0", "127.0.0.1:99999",
    ] {
      let result = try await scene.run(Sallyport.binary(), ["pin", source])
      #expect(result.status == 1 && result.text.isEmpty && result.errors.hasPrefix("error: "), "\(source): \(result)")
    }
  }
}
