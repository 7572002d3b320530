import Foundation
import Glibc
import TestSupport
import Testing

@Suite(.staged, .enabled(if: Pebble.isThere)) struct `Certificates by ACME` {
  /// Servers for the names of pebble's VA: a plain one that redirects, and one with TLS.
  private func servers(_ pebble: Pebble, _ line: String, more: String = "") -> String {
    """
    server { listen 127.0.0.1:\(pebble.httpPort); return 301 https://$host$request_uri; }
    server { listen 127.0.0.1:\(pebble.tlsPort) ssl; server_name a.test b.test; \(line)
      ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; \(more)
      return 200 "served\\n"; }
    """
  }

  /// What the server shows under this name: the serial number of its certificate; nil if the handshake fails.
  private func serial(_ scene: Scene, _ port: UInt16, name: String = "a.test", _ more: [String] = []) async throws
    -> String?
  {
    let seen = try await scene.run(
      "openssl", ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", name] + more)
    guard seen.text.contains("BEGIN CERTIFICATE") else { return nil }
    let shown = try await scene.run("openssl", ["x509", "-noout", "-serial"], input: Array(seen.text.utf8))
    return shown.text
  }

  private func served(_ scene: Scene, _ pebble: Pebble, name: String = "a.test", _ more: [String] = []) async throws {
    let trust = try await pebble.trust()
    let answer = try await scene.curl(
      trust + more + ["--connect-to", "\(name):443:127.0.0.1:\(pebble.tlsPort)", "https://\(name)/"])
    #expect(answer.text == "served\n", "\(answer.errors)")
  }

  @Test func `http-01: the first certificate comes by itself, and a renewal loses no connection`() async throws {
    let scene = try Scene.ofTest(), pebble = try await Pebble(scene)
    let daemon = try await Sallyport.start(
      scene, configuration("\(pebble.issuer()) \(servers(pebble, "acme_certificate pebble;"))", level: "info"))
    try await daemon.logged("a certificate was issued")
    try await until("the certificate") { try await serial(scene, pebble.tlsPort) != nil }
    try await served(scene, pebble)
    try await served(scene, pebble, name: "b.test")
    let first = try await serial(scene, pebble.tlsPort)
    for name in try FileManager.default.contentsOfDirectory(atPath: scene.path("state-pebble")) {
      let mode = try FileManager.default.attributesOfItem(atPath: scene.path("state-pebble/\(name)"))[.posixPermissions]
      #expect(mode as? Int == 0o600, "\(name)")
    }
    let status = try await scene.sallyport("acme", "status", "--config", scene.path("sallyport.conf"))
    #expect(status.status == 0 && status.text.contains("pebble: a.test, b.test: valid and"), "\(status.everything)")
    // A connection from before the renewal goes on after it.
    let held = try OpenSSLClient(scene, port: pebble.tlsPort, name: "a.test")
    let wire = held.wire
    let renewed = try await scene.sallyport("acme", "renew", "--config", scene.path("sallyport.conf"))
    #expect(renewed.status == 0, "\(renewed.everything)")
    try await until("the new certificate") {
      let now = try await serial(scene, pebble.tlsPort)
      return now != nil && now != first
    }
    let text = try await offPool {
      try wire.write("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
      return String(decoding: try wire.readToEnd(), as: UTF8.self)
    }
    #expect(text.contains("served"), "\(text)")
    // A new process has the certificate without an order.
    daemon.process.stop()
    let orders = daemon.errorLog.components(separatedBy: "a certificate is asked for").count
    let second = try await Sallyport.start(
      scene, configuration("\(pebble.issuer()) \(servers(pebble, "acme_certificate pebble;"))", level: "info"))
    try await until("the same certificate") { try await serial(scene, pebble.tlsPort) != nil }
    #expect(second.errorLog.components(separatedBy: "a certificate is asked for").count == orders)
  }

  @Test func `tls-alpn-01 asks for no client certificate and serves nothing, and other handshakes stay as they are`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    // The VA takes a while, so that the challenge can be looked at.
    let pebble = try await Pebble(scene, environment: ["PEBBLE_VA_NOSLEEP": "0", "PEBBLE_VA_SLEEPTIME": "6"])
    let clients = "ssl_client_certificate ca.pem; ssl_verify_client on; ssl_verify_reject handshake;"
    let daemon = try await Sallyport.serve(
      scene,
      pebble.issuer("pebble", "challenge tls-alpn-01;")
        + servers(pebble, "acme_certificate pebble a.test key=rsa:2048;", more: clients), level: "info")
    let alpn = ["-alpn", "acme-tls/1"]
    let challenge = try await waiting(for: "the challenge", within: .seconds(20)) {
      let seen = try await scene.run(
        "openssl", ["s_client", "-connect", "127.0.0.1:\(pebble.tlsPort)", "-servername", "a.test"] + alpn,
        input: Array("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".utf8))
      return seen.text.contains("ALPN protocol: acme-tls/1") ? seen.text : nil
    }
    #expect(challenge.contains("No client certificate CA names sent") && !challenge.contains("served"))
    #expect(!challenge.contains("HTTP/1.1"))
    // Another name, another protocol beside it, or none: no certificate is there yet.
    #expect(try await serial(scene, pebble.tlsPort, name: "b.test", alpn) == nil)
    #expect(try await serial(scene, pebble.tlsPort, ["-alpn", "acme-tls/1,http/1.1"]) == nil)
    #expect(try await serial(scene, pebble.tlsPort) == nil)
    try await daemon.logged("answered a tls-alpn-01 challenge for \"a.test\"")
    try await daemon.logged("there is no certificate yet")
    try await daemon.logged("a certificate was issued", within: .seconds(60))
    try await until("the certificate") { try await serial(scene, pebble.tlsPort, cast.alice.openssl) != nil }
    try await served(scene, pebble, cast.alice.curl)
    // Without an order, the protocol is none.
    #expect(try await serial(scene, pebble.tlsPort, alpn) == nil)
  }

  @Test func `an IP address has a certificate by both challenges`() async throws {
    let scene = try Scene.ofTest(), pebble = try await Pebble(scene)
    let daemon = try await Sallyport.serve(
      scene,
      """
      \(pebble.issuer()) \(pebble.issuer("alpn", "challenge tls-alpn-01;"))
      server { listen 127.0.0.1:\(pebble.httpPort); return 404; }
      server { listen 127.0.0.1:\(pebble.tlsPort) ssl; acme_certificate alpn 127.0.0.1; ssl_certificate $acme_certificate;
        return 200 "served\\n"; }
      server { listen 127.0.0.1:\(pebble.tlsPort) ssl; server_name other.test; acme_certificate pebble 127.0.0.1 other.test;
        ssl_certificate $acme_certificate; return 200 "served\\n"; }
      """, level: "info")
    try await daemon.logged("acme_issuer alpn: 127.0.0.1: a certificate was issued")
    try await daemon.logged("acme_issuer pebble: 127.0.0.1, other.test: a certificate was issued")
    try await until("the certificate") { try await serial(scene, pebble.tlsPort, name: "other.test") != nil }
    let trust = try await pebble.trust()
    let answer = try await scene.curl(trust + ["https://127.0.0.1:\(pebble.tlsPort)/"])
    #expect(answer.text == "served\n", "\(answer.errors)")
  }

  @Test func `dns-01: a program sets the records of a wildcard and of its own name, and removes them`() async throws {
    let scene = try Scene.ofTest(), pebble = try await Pebble(scene)
    let hook = try pebble.hook("readlink /proc/$$/fd/* > '\(scene.path("open"))'; env > '\(scene.path("environment"))'")
    let daemon = try await Sallyport.serve(
      scene,
      pebble.issuer("pebble", "challenge dns-01 \(hook);")
        + """
        server { listen 127.0.0.1:\(pebble.tlsPort) ssl; server_name *.a.test; acme_certificate pebble a.test *.a.test;
          ssl_certificate $acme_certificate; return 200 "served\\n"; }
        """, level: "info")
    try await daemon.logged("acme_issuer pebble: a.test, *.a.test: a certificate was issued")
    try await until("the certificate") { try await serial(scene, pebble.tlsPort, name: "x.a.test") != nil }
    try await served(scene, pebble, name: "x.a.test")
    let runs = scene.text("hook.log").split(separator: "\n").map { $0.split(separator: " ") }
    #expect(runs.map { $0.first } == ["present", "present", "cleanup", "cleanup"])
    #expect(runs.allSatisfy { $0.count == 3 && $0[1] == "_acme-challenge.a.test." && $0[2].count == 43 })
    #expect(Set(runs.prefix(2)) != [runs[0]] && Set(runs.map { $0[2] }).count == 2)
    // It has none of the daemon's files and sockets.
    let open = scene.text("open")
    #expect(open.contains("/dev/null") && !open.contains("socket:") && !open.contains("sallyport.conf"), "\(open)")
    #expect(!scene.text("environment").contains("NOTIFY_SOCKET"))
    // A reload can't have the program run for another name.
    try daemon.rewrite(
      try String(contentsOfFile: scene.path("sallyport.conf"), encoding: .utf8).replacing(
        "a.test *.a.test", with: "a.test c.test"))
    daemon.signal(SIGHUP)
    try await daemon.logged("for c.test was not in the configuration of the start")
    try await served(scene, pebble, name: "x.a.test")
  }

  @Test func `a program that fails is told with its words, and the record is removed`() async throws {
    let scene = try Scene.ofTest(), pebble = try await Pebble(scene)
    let hook = try pebble.hook("if [ $1 = present ]; then echo 'the DNS server said no' >&2; exit 3; fi")
    let daemon = try await Sallyport.serve(
      scene,
      pebble.issuer("pebble", "challenge dns-01 \(hook);")
        + "server { listen 127.0.0.1:\(pebble.httpPort); acme_certificate pebble a.test; return 404; }", level: "info"
    )
    try await daemon.logged("no certificate was issued", "exit status 3: the DNS server said no")
    try await until("the removal") { scene.text("hook.log").contains("cleanup _acme-challenge.a.test. ") }
    let status = try await scene.sallyport("acme", "status", "--config", scene.path("sallyport.conf"))
    #expect(status.status == 1 && status.text.contains("the DNS server said no"), "\(status.everything)")
  }

  @Test func `an authorisation that fails is told with the server's words`() async throws {
    let scene = try Scene.ofTest(), pebble = try await Pebble(scene)
    // It says that it has set the record, and has not.
    let hook = try pebble.hook("exit 0")
    let daemon = try await Sallyport.serve(
      scene,
      pebble.issuer("pebble", "challenge dns-01 \(hook);")
        + "server { listen 127.0.0.1:\(pebble.httpPort); acme_certificate pebble a.test; return 404; }", level: "info"
    )
    try await daemon.logged("no certificate was issued", "the server could not see that a.test is ours", "TXT")
    #expect(scene.text("hook.log").split(separator: "\n").map { $0.prefix(7) } == ["present", "cleanup"])
  }

  @Test(arguments: [
    ("missing", "No such file"), ("folder", "it is no file"), ("text", "nobody may execute it"),
  ])
  func `check reports a program that can't be run`(what: String, words: String) async throws {
    let scene = try Scene.ofTest()
    try scene.write("text", text: "#!/bin/sh\n")
    mkdir(scene.path("folder"), 0o755)
    try scene.write(
      "sallyport.conf",
      text: configuration(
        "acme_issuer ca { uri https://ca.test/; state_path \(scene.path("s")); challenge dns-01 \(scene.path(what)); }"
          + "server { listen 127.0.0.1:\(try scene.port()); acme_certificate ca a.test; return 404; }"))
    let checked = try await scene.sallyport("check", "--config", scene.path("sallyport.conf"))
    #expect(checked.status != 0 && checked.everything.contains(words), "\(checked.everything)")
  }

  @Test func `the certificate is like the one that lego gets, and a renewal may reuse what was proved`() async throws {
    let scene = try Scene.ofTest(), pebble = try await Pebble(scene, environment: ["PEBBLE_AUTHZREUSE": "100"])
    let lego = try await scene.run(
      "lego",
      [
        "--server", "https://localhost:\(pebble.port)/dir", "--accept-tos", "--email", "a@a.test", "--path",
        scene.path("lego"), "--key-type", "ec256", "--http", "--http.port", "127.0.0.1:\(pebble.httpPort)", "--domains",
        "a.test", "--domains", "b.test", "run",
      ], environment: ["LEGO_CA_CERTIFICATES": scene.path("pebble-ca.pem")])
    #expect(lego.status == 0, "\(lego.everything)")
    let daemon = try await Sallyport.start(
      scene, configuration("\(pebble.issuer()) \(servers(pebble, "acme_certificate pebble;"))", level: "info"))
    try await daemon.logged("a certificate was issued")
    try await until("the certificate") { try await serial(scene, pebble.tlsPort) != nil }
    func facts(_ path: String) async throws -> [String] {
      let text = try await scene.run("openssl", ["x509", "-in", path, "-noout", "-text"]).text
      return text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.filter {
        $0.hasPrefix("DNS:") || $0.hasPrefix("Public Key Algorithm") || $0.hasPrefix("ASN1 OID")
          || $0.hasPrefix("TLS Web")
      }
    }
    let own = try #require(
      FileManager.default.contentsOfDirectory(atPath: scene.path("state-pebble")).first {
        $0.hasSuffix(".pem") && $0.hasPrefix("a.test")
      })
    let theirs = try await facts(scene.path("lego/certificates/a.test.crt"))
    #expect(try await facts(scene.path("state-pebble/\(own)")) == theirs && theirs.count == 4, "\(theirs)")
    // Both have the chain, the leaf first.
    for path in ["lego/certificates/a.test.crt", "state-pebble/\(own)"] {
      #expect(scene.text(path).components(separatedBy: "BEGIN CERTIFICATE").count == 3, "\(path)")
    }
    let first = try await serial(scene, pebble.tlsPort)
    let renewed = try await scene.sallyport("acme", "renew", "--config", scene.path("sallyport.conf"))
    #expect(renewed.status == 0, "\(renewed.everything)")
    try await until("the new certificate") { try await serial(scene, pebble.tlsPort) != first }
  }

  @Test func `an external account is bound, and without it the log says what to do`() async throws {
    let scene = try Scene.ofTest()
    let pebble = try await Pebble(
      scene,
      settings: """
        "externalAccountBindingRequired": true, "externalAccountMACKeys":
        {"kid-1": "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"}
        """)
    try scene.write("eab.key", text: "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W\n")
    let daemon = try await Sallyport.serve(
      scene,
      pebble.issuer("none") + pebble.issuer("bound", "external_account_key kid-1 eab.key; account_key rsa:2048;")
        + """
        server { listen 127.0.0.1:\(pebble.httpPort); acme_certificate bound a.test; return 404; }
        server { listen 127.0.0.1:\(pebble.httpPort); server_name b.test; acme_certificate none b.test; return 404; }
        """, level: "info")
    try await daemon.logged("acme_issuer bound: a.test: a certificate was issued")
    try await daemon.logged("acme_issuer none: b.test: no certificate was issued", "external_account_key")
    let status = try await scene.sallyport("acme", "status", "none", "--config", scene.path("sallyport.conf"))
    #expect(status.status == 1 && status.text.contains("external_account_key"), "\(status.everything)")
  }

  @Test func `an outage leaves the certificate, is told everywhere, and ends`() async throws {
    let scene = try Scene.ofTest(), pebble = try await Pebble(scene)
    let status = try scene.port()
    let text = configuration(
      pebble.issuer() + servers(pebble, "acme_certificate pebble a.test;")
        + "server { listen 127.0.0.1:\(status); location = /s { status; } location = /m { metrics; } }",
      level: "info")
    let daemon = try await Sallyport.start(scene, text)
    try await until("the certificate") { try await serial(scene, pebble.tlsPort) != nil }
    let first = try await serial(scene, pebble.tlsPort)
    let trusted = try await pebble.trust()
    // The port of another server that says nothing of ACME.
    try daemon.rewrite(text.replacing("localhost:\(pebble.port)/dir", with: "localhost:\(status)/dir"))
    daemon.signal(SIGHUP)
    try await until("the reload") {
      let parts = daemon.errorLog.components(separatedBy: "reconfiguring")
      return parts.count == 2 && parts[1].contains("reconfigured: generation")
    }
    let renew = try await scene.sallyport("acme", "renew", "--config", scene.path("sallyport.conf"))
    #expect(renew.status == 1 && renew.everything.contains("1 attempt failed"), "\(renew.everything)")
    try await daemon.logged("no certificate was issued, the next attempt is in")
    #expect(try await serial(scene, pebble.tlsPort) == first)
    let page = try await scene.curl(["http://127.0.0.1:\(status)/s"])
    #expect(page.text.contains("could not be renewed, 1 attempt so far"), "\(page.text)")
    let metrics = try await scene.curl(["http://127.0.0.1:\(status)/m"])
    #expect(metrics.text.contains("sallyport_acme_failures{issuer=\"pebble\",names=\"a.test\"} 1"))
    #expect(
      metrics.text.contains("sallyport_acme_certificate_end_timestamp_seconds{issuer=\"pebble\",names=\"a.test\"} 1"))
    let health = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    #expect(health.status == 3 && health.text.contains("could not be renewed"), "\(health.everything)")
    try daemon.rewrite(text)
    daemon.signal(SIGHUP)
    try await until("the reload") {
      let parts = daemon.errorLog.components(separatedBy: "reconfiguring")
      return parts.count == 3 && parts[2].contains("reconfigured: generation")
    }
    let again = try await scene.sallyport("acme", "renew", "--config", scene.path("sallyport.conf"))
    #expect(again.status == 0, "\(again.everything)")
    try await until("the new certificate") { try await serial(scene, pebble.tlsPort) != first }
    let answer = try await scene.curl(
      trusted + ["--connect-to", "a.test:443:127.0.0.1:\(pebble.tlsPort)", "https://a.test/"])
    #expect(answer.text == "served\n", "\(answer.errors)")
  }

  @Test func `USR2 during orders: one process orders at a time, and the new one serves the certificate`() async throws {
    let scene = try Scene.ofTest(), pebble = try await Pebble(scene)
    let daemon = try await Sallyport.start(
      scene, configuration(pebble.issuer() + servers(pebble, "acme_certificate pebble a.test;"), level: "info"))
    try await until("the certificate") { try await serial(scene, pebble.tlsPort) != nil }
    daemon.signal(SIGUSR2)
    try await daemon.logged("of the new binary serves: this one drains")
    #expect(try await serial(scene, pebble.tlsPort) != nil)
    let renew = try await scene.sallyport("acme", "renew", "--config", scene.path("sallyport.conf"))
    #expect(renew.status == 0, "\(renew.everything)")
    if let process = Int32(scene.text("sallyport.pid").trimmingCharacters(in: .whitespacesAndNewlines)) {
      scene.atEnd { kill(process, SIGTERM) }
    }
  }
}

@Suite(.staged) struct `ACME servers that say when to renew` {
  private func start(_ scene: Scene, _ server: RenewingACME, _ lines: String = "") async throws -> Sallyport {
    try await Sallyport.serve(
      scene,
      server.issuer(lines)
        + "server { listen 127.0.0.1:\(try scene.port()); acme_certificate own a.test b.test; return 404; }",
      level: "info")
  }

  private func issued(_ scene: Scene) -> Int {
    scene.text("error.log").components(separatedBy: "a certificate was issued").count - 1
  }

  /// The files of the folder with this ending, but for the account's.
  private func files(_ scene: Scene, _ ending: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: scene.path("state")).filter {
      $0.hasSuffix(ending) && !$0.hasPrefix("account")
    }.map { scene.path("state/\($0)") }
  }

  /// Has the next start ask the server, whatever was asked before.
  private func forget(_ scene: Scene) throws { for file in try files(scene, ".json") { unlink(file) } }

  @Test func `a window in the past renews at once, names the old certificate, and goes without if that is refused`()
    async throws
  {
    let scene = try Scene.ofTest(), server = try await RenewingACME(scene)
    var daemon = try await start(scene, server)
    try await daemon.logged("a certificate was issued")
    #expect(server.asked("order").count == 1 && !server.asked("order")[0].contains("replaces"))
    daemon.process.stop()
    // It has no such answers yet, so nothing is due.
    daemon = try await start(scene, server)
    try await until("the question") { server.asked("renewal").count == 1 }
    try await daemon.logged("the server does not tell when to renew")
    daemon.process.stop()
    let files = try files(scene, ".pem")
    let file = try #require(files.first)
    let old = try Data(contentsOf: URL(fileURLWithPath: file))
    try server.suggest("now() - delta(hours=2)", "now() - delta(hours=1)")
    try forget(scene)
    daemon = try await start(scene, server)
    try await until("the successor") { issued(scene) == 2 }
    let asked = server.asked("renewal")
    #expect(Set(asked).count == 1 && asked[0].split(separator: ".").count == 2, "\(asked)")
    #expect(server.asked("order").last?.contains("\"replaces\": \"\(asked[0])\"") ?? false)
    daemon.process.stop()
    // The CA has a successor of the old certificate already.
    try old.write(to: URL(fileURLWithPath: file))
    try forget(scene)
    daemon = try await start(scene, server)
    try await until("the successor") { issued(scene) == 3 }
    try await daemon.logged("the server takes no successor of the old certificate", "the order goes without")
    #expect(server.asked("order").count == 4 && !server.asked("order")[3].contains("replaces"))
  }

  @Test(arguments: [
    ("now() + delta(days=3000)", "now() + delta(days=3001)"), ("now() + delta(days=2)", "now() - delta(days=2)"),
    ("now() + delta(days=20)", "now() + delta(days=21)"),
  ])
  func `a window that is none, or too late, leaves the certificate its renewal`(start: String, end: String) async throws
  {
    let scene = try Scene.ofTest(), server = try await RenewingACME(scene)
    var daemon = try await self.start(scene, server)
    try await daemon.logged("a certificate was issued")
    daemon.process.stop()
    try server.suggest(start, end)
    daemon = try await self.start(scene, server)
    try await until("the question") { server.asked("renewal").count == 1 }
    try await until("the status") {
      let status = try await scene.sallyport("acme", "status", "--config", scene.path("sallyport.conf"))
      return status.status == 0 && status.text.contains("valid and")
    }
    #expect(issued(scene) == 1 && server.asked("order").count == 1)
  }

  @Test func `a profile is asked for, and one that is required and missing lets nothing be ordered`() async throws {
    let scene = try Scene.ofTest(), server = try await RenewingACME(scene)
    var daemon = try await start(scene, server, "profile short require;")
    try await daemon.logged("a certificate was issued")
    #expect(server.asked("order").count == 1 && server.asked("order")[0].contains("\"profile\": \"short\""))
    daemon.process.stop()
    daemon = try await start(scene, server, "profile tiny; account_key rsa:2048;")
    let renew = try await scene.sallyport("acme", "renew", "--config", scene.path("sallyport.conf"))
    #expect(renew.status == 0, "\(renew.everything)")
    try await daemon.logged("the server has no profile \"tiny\": its own is used")
    daemon.process.stop()
    daemon = try await start(scene, server, "profile tiny require;")
    let refused = try await scene.sallyport("acme", "renew", "--config", scene.path("sallyport.conf"))
    #expect(refused.status == 1 && refused.everything.contains("it has long, short"), "\(refused.everything)")
    #expect(server.asked("order").count == 2)
  }

  @Test func `two processes with one folder order once, and both serve what came`() async throws {
    let scene = try Scene.ofTest(), server = try await RenewingACME(scene)
    func make(_ name: String) throws -> (Sallyport, UInt16) {
      let port = try scene.port()
      return (
        try Sallyport(
          scene,
          configuration(
            server.issuer()
              + "server { listen 127.0.0.1:\(port) ssl; acme_certificate own a.test; ssl_certificate $acme_certificate; return 200; }",
            level: "info"), name: name), port
      )
    }
    let one = try make("one"), two = try make("two")
    for (_, port) in [one, two] {
      try await until("the certificate") {
        try await scene.run("openssl", ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", "a.test"]).text
          .contains("BEGIN CERTIFICATE")
      }
    }
    #expect(server.asked("order").count == 1)
  }
}

private let canMount = geteuid() == 0 && ProgramRun.succeeds("unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt")

@Suite(.staged) struct `A folder of ACME that fails` {
  private func text(_ server: RenewingACME, _ port: UInt16, _ state: String) -> String {
    configuration(
      server.issuer().replacing("state_path state;", with: "state_path \(state);")
        + "server { listen 127.0.0.1:\(port) ssl; acme_certificate own a.test; ssl_certificate $acme_certificate; return 200; }",
      level: "info")
  }

  /// The certificates that the server shows; empty if the handshake fails.
  private func shown(_ scene: Scene, _ port: UInt16) async throws -> [String] {
    let seen = try await scene.run(
      "openssl", ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", "a.test", "-showcerts"])
    return seen.text.matches(of: /-----BEGIN CERTIFICATE-----[^-]*/).map { String($0.output) }
  }

  private func end(_ daemon: Sallyport) async throws {
    daemon.signal(SIGTERM)
    _ = try await daemon.process.ended()
  }

  @Test(.enabled(if: canMount, "unshare -m and a mount are not permitted here"))
  func `a full disk asks the CA for nothing, and room on it brings the certificate`() async throws {
    let scene = try Scene.ofTest(), server = try await RenewingACME(scene), port = try scene.port()
    let state = try scene.makeFolder("state")
    let fill = "mount -t tmpfs -o size=1m,mode=700 none '\(state)' && { cat /dev/zero > '\(state)/fill'; exec \"$@\"; }"
    let daemon = try Sallyport(
      scene, text(server, port, state), launcher: ["unshare", "-m", "sh", "-c", fill, "sh"])
    try await daemon.untilReady()
    try await daemon.logged("no certificate was issued, the next attempt is in", "No space left on device")
    #expect(server.asked("order").isEmpty)
    let process = scene.text("sallyport.pid").trimmingCharacters(in: .whitespacesAndNewlines)
    let inside = "/proc/\(process)/root\(state)"
    try FileManager.default.removeItem(atPath: "\(inside)/fill")
    try "*".write(toFile: "\(inside)/renew", atomically: false, encoding: .utf8)
    try await until("the certificate") { try await shown(scene, port).count == 2 }
    #expect(server.asked("order").count == 1)
  }

  @Test func `a certificate that can't be written serves from memory, and is written as soon as it can be`()
    async throws
  {
    let scene = try Scene.ofTest(), server = try await RenewingACME(scene), port = try scene.port()
    let text = text(server, port, "state")
    var daemon = try await Sallyport.start(scene, text)
    try await until("the certificate") { try await shown(scene, port).count == 2 }
    try await end(daemon)
    let name = try #require(
      FileManager.default.contentsOfDirectory(atPath: scene.path("state")).first { $0.hasSuffix(".pem") })
    unlink(scene.path("state/\(name)"))
    // Nothing can take the place of a folder.
    try scene.makeFolder("state/\(name)/full")
    daemon = try await Sallyport.start(scene, text)
    try await daemon.logged("the certificate can't be written, so it serves from memory")
    try await until("the certificate") { try await shown(scene, port).count == 2 }
    let served = try await shown(scene, port)
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation")
    #expect(try await shown(scene, port) == served)
    let health = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    #expect(health.status == 3 && health.text.contains("is in memory alone"), "\(health.everything)")
    try await end(daemon)
    try await daemon.logged(
      "[warn]", "forgotten with this process, no state keeps it: the certificate that could not be written to")
    daemon = try await Sallyport.start(scene, text)
    try await until("another certificate") {
      let now = try await shown(scene, port)
      return now.count == 2 && now != served
    }
    let last = try await shown(scene, port)
    try FileManager.default.removeItem(atPath: scene.path("state/\(name)"))
    try await daemon.logged("the certificate is written now")
    #expect(server.asked("order").count == 3)
    try await end(daemon)
    _ = try await Sallyport.start(scene, text)
    #expect(try await shown(scene, port) == last)
    #expect(server.asked("order").count == 3)
  }

  @Test(arguments: ["empty", "key", "leaf", "chain", "garbage"])
  func `a damaged certificate stops no start, is told, and is issued anew`(damage: String) async throws {
    let scene = try Scene.ofTest(), server = try await RenewingACME(scene), port = try scene.port()
    let text = text(server, port, "state")
    var daemon = try await Sallyport.start(scene, text)
    try await until("the certificate") { try await shown(scene, port).count == 2 }
    let first = try await shown(scene, port)
    try await end(daemon)
    let name = try #require(
      FileManager.default.contentsOfDirectory(atPath: scene.path("state")).first { $0.hasSuffix(".pem") })
    let whole = scene.text("state/\(name)")
    func cut(behind mark: String, _ more: Int) throws -> String {
      String(whole[..<(whole.index(try #require(whole.range(of: mark)).upperBound, offsetBy: more))])
    }
    let damaged =
      switch damage {
      case "key": try cut(behind: "BEGIN PRIVATE KEY-----", 20)
      case "leaf": try cut(behind: "BEGIN CERTIFICATE-----", 20)
      // Behind the leaf: the rest is a file like any other.
      case "chain": try cut(behind: "END CERTIFICATE-----", 1)
      case "garbage": "\0\0\0\0"
      default: ""
      }
    try scene.write("state/\(name)", text: damaged)
    try scene.write("state/account.key", text: "")
    let check = try await scene.sallyport("check", "--config", scene.path("sallyport.conf"))
    #expect(check.status == 0, "\(check.everything)")
    #expect(check.everything.contains("\(name)\" is damaged") && check.everything.contains("key of the account"))
    daemon = try await Sallyport.start(scene, text)
    try await daemon.logged("is damaged, so a new one is ordered")
    try await daemon.logged("the key of the account is damaged, so a new account is made")
    try await until("the new certificate") {
      let now = try await shown(scene, port)
      return now.count == 2 && now != first
    }
    #expect(server.asked("order").count == 2)
  }
}

@Suite(.staged) struct `ACME servers that lie` {
  private func start(_ scene: Scene, _ server: HostileACME, plain: UInt16) async throws -> Sallyport {
    try await Sallyport.serve(
      scene,
      "\(server.issuer) server { listen 127.0.0.1:\(plain); server_name a.test; acme_certificate hostile a.test; return 200 own; }",
      level: "info")
  }

  @Test(arguments: [
    ("redirect", "follows no redirect"), ("huge", "larger than 1048576 bytes"),
    ("endless", "larger than 1048576 bytes"),
    ("elsewhere", "leads to another server"), ("names", "for other names than those that were asked for"),
    ("token", "token for a.test is none"),
  ])
  func `what breaks the rules is refused in words`(how: String, words: String) async throws {
    let scene = try Scene.ofTest(), server = try await HostileACME(scene, how: how)
    let daemon = try await start(scene, server, plain: scene.port())
    try await daemon.logged("no certificate was issued", words)
    #expect(server.asked.filter { $0.hasPrefix("GET /dir") }.count == 1)
    #expect(!server.asked.contains { $0.contains("elsewhere") })
    if how == "names" || how == "token" { #expect(!server.asked.contains { $0.contains("/challenge") }) }
  }

  @Test(arguments: [SIGTERM, SIGKILL])
  func `a record of dns-01 is removed although the process ends in the middle`(signal: Int32) async throws {
    let scene = try Scene.ofTest(), server = try await HostileACME(scene, how: "pending")
    try scene.write("hook", text: "#!/bin/sh\necho \"$@\" >> '\(scene.path("hook.log"))'\n")
    chmod(scene.path("hook"), 0o755)
    let daemon = try await Sallyport.serve(
      scene,
      server.issuer.replacing(
        "acme_issuer hostile {", with: "acme_issuer hostile { challenge dns-01 \(scene.path("hook"));")
        + "server { listen 127.0.0.1:\(try scene.port()); acme_certificate hostile a.test; return 404; }",
      level: "info")
    try await daemon.logged("has set the record of a.test")
    #expect(!scene.text("hook.log").contains("cleanup"))
    daemon.signal(signal)
    try await until("the removal") { scene.text("hook.log").contains("cleanup _acme-challenge.a.test. ") }
  }

  @Test func `a server that says nothing stops no request and no end of the process`() async throws {
    let scene = try Scene.ofTest(), server = try await HostileACME(scene, how: "silent")
    let port = try scene.port()
    let daemon = try await start(scene, server, plain: port)
    try await until("the question") { server.asked.contains("GET /dir") }
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "own")
    daemon.signal(SIGTERM)
    _ = try await daemon.process.ended(within: .seconds(20))
  }

  @Test func `only the token of an open order is answered, for its own name, before every rule`() async throws {
    let scene = try Scene.ofTest(), server = try await HostileACME(scene, how: "pending")
    let port = try scene.port()
    let daemon = try await start(scene, server, plain: port)
    func ask(_ path: String, host: String = "a.test", _ more: [String] = []) async throws -> CurlResult {
      try await scene.curl(more + ["--path-as-is", "-H", "Host: \(host)", "http://127.0.0.1:\(port)\(path)"])
    }
    let place = "/.well-known/acme-challenge/"
    try await until("the answer") { try await ask(place + "t0ken-1").text.hasPrefix("t0ken-1.") }
    let answer = try await ask(place + "t0ken-1", host: "A.TEST:\(port)")
    #expect(
      answer.status == 200 && answer.text.hasPrefix("t0ken-1.") && answer["Content-Type"] == "application/octet-stream")
    for (path, host) in [
      (place + "t0ken-1", "b.test"), (place + "t0ken-1/", "a.test"), (place + "x/../t0ken-1", "a.test"),
      (place + "other", "a.test"), (place, "a.test"),
    ] {
      #expect(try await ask(path, host: host).status == 404, "\(path) \(host)")
    }
    // A name without an order keeps its locations, and so does another method.
    #expect(try await ask(place + "other", host: "c.test").text == "own")
    #expect(try await ask(place + "t0ken-1", ["-X", "POST"]).text == "own")
    #expect(try await ask("/").text == "own")
    _ = daemon
  }
}
