import Foundation
import TestSupport
import Testing

@Suite(.staged) struct `sallyport probe --starttls` {
  private struct Report: Decodable {
    var url: String
    var locations: [String]
    var starttls: String?
    var handshake: [Step]
    var trusted: Bool
    var trust_reason: String?
    var accepted: Bool
    var acceptance: String
    var acceptance_reason: String?
    var failure: String?
    var fault: String?
    var advice: String?
    var certificates: [Sent]
    var alpn: String?
    struct Sent: Decodable { var pin: String }
    struct Step: Decodable { var message: String }
  }

  private func reports(_ scene: Scene, _ arguments: [String]) async throws -> (all: [Report], status: Int32) {
    let result = try await scene.run(Sallyport.binary(), ["probe", "--json"] + arguments)
    let all = try result.text.split(separator: "\n").map {
      try JSONDecoder().decode(Report.self, from: Data($0.utf8))
    }
    return (all, result.status)
  }

  private func probe(_ scene: Scene, _ arguments: [String]) async throws -> (Report, status: Int32) {
    let (all, status) = try await reports(scene, arguments)
    return (try #require(all.first), status)
  }

  static let kinds = ["postgres", "smtp", "imap", "pop3", "ldap"]
  /// What the server hears inside TLS.
  static let questions = [
    "postgres": #"b'\x00\x00\x00\t\x00\x03\x00\x00\x00'"#, "smtp": #"b'QUIT\r\n'"#, "imap": #"b'a2 LOGOUT\r\n'"#,
    "pop3": #"b'QUIT\r\n'"#, "ldap": #"b'0\x1e\x02\x01\x02w\x19\x80\x171.3.6.1.4.1.4203.1.11.3'"#,
  ]

  @Test(arguments: kinds) func `both answers are yes behind the words of the protocol`(kind: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try await StartTLSServer.start(scene, kind, "server", "mutual")
    let arguments = ["--starttls", kind, "--cafile", scene.path("ca.pem"), "localhost:\(server.port)"]
    let (report, status) = try await probe(
      scene, arguments + ["--cert", cast.alice.certificate, "--key", cast.alice.key])
    #expect(status == 0 && report.trusted && report.acceptance == "accepted", "\(report)")
    #expect(report.starttls == kind && report.url == "\(kind)://localhost:\(server.port)" && report.alpn == "")
    #expect(server.lines("peer") == ["alice"] && server.lines("inside") == [Self.questions[kind] ?? ""])
    // Without a certificate, with another name, and with another CA.
    let (none, noneStatus) = try await probe(scene, arguments)
    #expect(noneStatus == 2 && none.trusted && none.acceptance == "refused", "\(none)")
    let (name, nameStatus) = try await probe(scene, arguments + ["--name", "elsewhere.test"])
    #expect(nameStatus == 1 && name.trust_reason?.hasPrefix("name:") == true, "\(name)")
    // The pin of the server, as `pin` shows it.
    let pin = try await scene.sallyport("pin", "--starttls", kind, "localhost:\(server.port)")
    #expect(pin.text == "proxy_ssl_pin \(report.certificates.first?.pin ?? "none");\n", "\(pin.everything)")
    let text = try await scene.run(Sallyport.binary(), ["probe"] + arguments)
    #expect(text.text.contains("before TLS      it agreed to TLS, asked in the words of"), "\(text.everything)")
  }

  @Test(arguments: kinds) func `a server that refuses is told with its words, and gets no ClientHello`(kind: String)
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try await StartTLSServer.start(scene, kind, "server", "refuse")
    let (report, status) = try await probe(
      scene, ["--starttls", kind, "--cafile", scene.path("ca.pem"), "localhost:\(server.port)"])
    #expect(status == 3 && report.fault == "starttls-refused" && !report.trusted && !report.accepted, "\(report)")
    #expect(report.handshake.isEmpty && report.starttls == nil && report.advice != nil)
    let failure = try #require(report.failure)
    #expect(failure.contains(kind == "postgres" ? "doesn't offer TLS" : "today"), "\(failure)")
    #expect(!failure.contains("upstream") && server.lines("error").isEmpty)
    let pin = try await scene.sallyport("pin", "--starttls", kind, "localhost:\(server.port)")
    #expect(pin.status == 1 && pin.text.isEmpty && pin.errors.contains("hint: "), "\(pin.everything)")
    _ = cast
  }

  @Test(arguments: kinds) func `bytes behind the agreement are told as an attack`(kind: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try await StartTLSServer.start(scene, kind, "server", "inject")
    let (report, status) = try await probe(
      scene, ["--starttls", kind, "--cafile", scene.path("ca.pem"), "localhost:\(server.port)"])
    #expect(status == 3 && report.fault == "starttls-injection" && !report.trusted, "\(report)")
    #expect(report.failure?.contains("sent bytes in clear behind its agreement to TLS") == true, "\(report)")
    #expect(report.advice?.contains("somebody on the way") == true)
    _ = cast
  }

  @Test func `a server of another protocol, a silent one and one that closes are no agreement`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let mail = try await StartTLSServer.start(scene, "imap")
    let (other, otherStatus) = try await probe(scene, ["--starttls", "smtp", "localhost:\(mail.port)"])
    #expect(otherStatus == 3 && other.fault == "starttls-refused", "\(other)")
    #expect(other.failure?.contains("\"* OK ready\"") == true, "\(other)")
    let closing = try ScriptedUpstream(scene) { _, _ in }
    let (closed, closedStatus) = try await probe(scene, ["--starttls", "postgres", "localhost:\(closing.port)"])
    #expect(closedStatus == 3 && closed.fault == "closed", "\(closed)")
  }

  /// Without the option, the server's own words give it away.
  @Test(arguments: ["smtp", "imap", "pop3"]) func `a port that greets in clear is told with the option`(kind: String)
    async throws
  {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let server = try await StartTLSServer.start(scene, kind)
    let (report, status) = try await probe(scene, ["localhost:\(server.port)"])
    #expect(status == 3 && report.fault == "other-protocol", "\(report)")
    #expect(report.advice?.contains("--starttls \(kind), and proxy_starttls \(kind)") == true, "\(report)")
    let pin = try await scene.sallyport("pin", "localhost:\(server.port)")
    #expect(pin.status == 1 && pin.errors.contains("--starttls \(kind)"), "\(pin.everything)")
  }

  @Test func `a mistyped protocol, a URL and a configuration's own words are refused`() async throws {
    let scene = try Scene.ofTest()
    for (arguments, words) in [
      (["--starttls", "ftp", "a:1"], "--starttls"), (["--starttls", "smtp", "https://a:1/"], "HOST[:PORT]"),
      (["--starttls", "smtp"], "HOST:PORT"),
      (["--starttls", "smtp", "--config", "x.conf"], "--starttls can't be combined"),
      (["tls://a"], "tls://HOST:PORT"), (["tls://a:1/path"], "tls://HOST:PORT"),
      (["postgres://a:1"], "tls://HOST:PORT"),
    ] {
      let result = try await scene.run(Sallyport.binary(), ["probe"] + arguments)
      #expect(result.status != 0 && result.errors.contains(words), "\(arguments): \(result.everything)")
    }
  }

  @Test func `a server of an unknown protocol gets no byte inside TLS`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try await StartTLSServer.start(scene, "postgres", "server", "tls", "mutual")
    let trust = ["--cafile", scene.path("ca.pem"), "tls://localhost:\(server.port)"]
    let (report, status) = try await probe(
      scene, trust + ["--cert", cast.alice.certificate, "--key", cast.alice.key])
    #expect(status == 0 && report.trusted && report.acceptance == "accepted", "\(report)")
    #expect(report.url == "tls://localhost:\(server.port)" && report.alpn == "" && report.starttls == nil)
    let (none, noneStatus) = try await probe(scene, trust)
    #expect(noneStatus == 2 && none.acceptance == "refused", "\(none)")
    #expect(server.lines("inside").isEmpty)
  }

  @Test func `servers of stream are looked at as their proxy_pass would`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let mail = try await StartTLSServer.start(scene, "smtp", "server", "mutual", "header")
    let data = try await StartTLSServer.start(scene, "postgres")
    let refusing = try await StartTLSServer.start(scene, "ldap", "server", "refuse")
    let direct = try await StartTLSServer.start(scene, "imap", "server", "tls")
    let path = try scene.write(
      "proxy.conf",
      text: """
        events {} stream { proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name localhost;
        upstream data { server 127.0.0.1:\(data.port); }
        server { listen 127.0.0.1:1; server_name mail.test; proxy_pass 127.0.0.1:\(mail.port); proxy_ssl on;
          proxy_starttls smtp; proxy_protocol on; proxy_ssl_certificate alice.pem; proxy_ssl_certificate_key alice.key; }
        server { listen 127.0.0.1:2; proxy_pass data; proxy_ssl on; proxy_starttls postgres; }
        server { listen 127.0.0.1:3; proxy_pass 127.0.0.1:\(refusing.port); proxy_ssl on; proxy_starttls ldap; }
        server { listen 127.0.0.1:4; proxy_pass 127.0.0.1:\(direct.port); proxy_ssl on; }
        server { listen 127.0.0.1:5; proxy_pass 127.0.0.1:1; }
        map $remote_addr $where { default 127.0.0.1:1; }
        server { listen 127.0.0.1:6; proxy_pass $where; proxy_ssl on; } }
        """)
    let result = try await scene.run(Sallyport.binary(), ["probe", "--json", "--config", path])
    let rows = result.text.split(separator: "\n")
    let reports = try rows.filter { !$0.contains("\"skipped\"") }.map {
      try JSONDecoder().decode(Report.self, from: Data($0.utf8))
    }
    #expect(result.status == 3 && rows.contains { $0.contains("tls://$where") }, "\(result.everything)")
    #expect(
      reports.map(\.url) == [
        "smtp://127.0.0.1:\(mail.port)", "postgres://data", "ldap://127.0.0.1:\(refusing.port)",
        "tls://127.0.0.1:\(direct.port)",
      ], "\(reports.map(\.url))")
    #expect(reports.map(\.trusted) == [true, true, false, true], "\(reports)")
    #expect(reports.map(\.starttls) == ["smtp", "postgres", nil, nil])
    #expect(reports[0].locations.first?.hasPrefix("mail.test stream, ") == true && reports[0].acceptance == "accepted")
    #expect(mail.lines("header") == [#"b'PROXY UNKNOWN\r\n'"#] && mail.lines("peer") == ["alice"])
    #expect(reports[2].fault == "starttls-refused" && direct.lines("inside").isEmpty)
    let (one, status) = try await self.reports(scene, ["--config", path, "--server", "mail.test"])
    #expect(status == 0 && one.map(\.starttls) == ["smtp"], "\(one)")
    // One of them, by the group's name or the server's.
    for (name, wanted) in [("data", 0), ("127.0.0.1:\(data.port)", 0), ("127.0.0.1:\(refusing.port)", 3)] {
      let (found, status) = try await self.reports(scene, ["--config", path, name])
      #expect(found.count == 1 && status == Int32(wanted), "\(name): \(found)")
    }
    _ = cast
  }
}
