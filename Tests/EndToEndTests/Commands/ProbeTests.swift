import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `sallyport probe` {
  private static let answer = "location / { return 200 ok; }"

  private struct Report: Decodable {
    struct Sent: Decodable {
      var subject: String
      var pin: String
      var names: [String]
    }
    struct Step: Decodable { var message: String }
    var `protocol`: String
    var handshake: [Step]
    var certificate_request: [String]?
    var certificates: [Sent]
    var stapled_ocsp: String
    var trusted: Bool
    var trust_reason: String?
    var accepted: Bool
    var acceptance: String
    var acceptance_reason: String?
    var status: Int?
  }

  private func probe(_ scene: Scene, _ arguments: [String]) async throws -> (Report, status: Int32) {
    let result = try await scene.run(Sallyport.binary(), ["probe", "--json"] + arguments)
    let report = try JSONDecoder().decode(Report.self, from: Data(result.output))
    return (report, result.status)
  }

  private func server(_ scene: Scene, _ more: String = "", tls: String = Cast.tls) async throws -> UInt16 {
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      "server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(tls) \(more) \(Self.answer) }")
    return port
  }

  @Test(arguments: ["TLSv1.2", "TLSv1.3"]) func `both answers are yes for a server and a client that know each other`(
    version: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try await server(scene, "ssl_protocols \(version);")
    let (report, status) = try await probe(
      scene,
      [
        "--cafile", scene.path("ca.pem"), "--cert", cast.alice.certificate, "--key", cast.alice.key,
        "https://localhost:\(port)/",
      ])
    #expect(status == 0)
    #expect(report.trusted && report.accepted && report.acceptance == "accepted" && report.status == 200)
    #expect(report.protocol == version)
    #expect(report.certificate_request == ["CN=Test Root"])
    #expect(report.certificates.first?.names.contains("localhost") == true)
    #expect(report.handshake.contains { $0.message == "CertificateRequest" })
    // The pin that it shows is the one that `pin` prints.
    let pin = try await scene.sallyport("pin", scene.path("server.pem"))
    #expect(pin.text.contains(report.certificates.first?.pin ?? "none"))
  }

  @Test func `who is not taken in hears why, and the status says so`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try await server(scene)
    let stranger = try scene.identity("stranger", TestAuthority("Other").client())
    let trust = ["--cafile", scene.path("ca.pem"), "localhost:\(port)"]
    let (none, noneStatus) = try await probe(scene, trust)
    #expect(noneStatus == 2 && none.trusted && none.acceptance == "refused")
    #expect(none.acceptance_reason?.contains("No required SSL certificate was sent") == true)
    let (other, otherStatus) = try await probe(
      scene, trust + ["--cert", stranger.certificate, "--key", stranger.key])
    #expect(otherStatus == 2 && other.acceptance_reason?.contains("The SSL certificate error") == true)
    _ = cast
  }

  @Test func `an error_page of nginx that refuses is a refusal, and a 403 tells nothing`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let revoked = try scene.identity("revoked", TestAuthority("Other").client())
    let port = try scene.port()
    _ = try await NginxUpstream.start(
      scene, name: "nginx", ports: [port],
      """
      server { listen 127.0.0.1:\(port) ssl; ssl_certificate \(scene.path("server.pem"));
      ssl_certificate_key \(scene.path("server.key"));
      ssl_client_certificate \(scene.path("ca.pem")); ssl_verify_client on;
      error_page 495 =495 /own; error_page 496 =496 /own; location /own { return 200 own; }
      location / { return 403; } location = /open { return 200; } }
      """)
    for (identity, path, acceptance, exit) in [
      (nil, "/", "refused", 2), (revoked, "/", "refused", 2), (cast.alice, "/", "unknown", 5),
      (cast.alice, "/open", "accepted", 0),
    ] as [(IdentityFiles?, String, String, Int32)] {
      let shown = identity.map { ["--cert", $0.certificate, "--key", $0.key] } ?? []
      let (report, status) = try await probe(
        scene, ["--cafile", scene.path("ca.pem")] + shown + ["https://localhost:\(port)\(path)"])
      #expect(report.acceptance == acceptance && status == exit, "\(path) \(report)")
    }
  }

  @Test func `pins of keys and of certificates are judged as proxy_ssl_pin has them`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try await server(scene, tls: Cast.tls(verify: "off"))
    let other = try cast.authority.server().certificate
    let own = try Certificate.loadAll(MaterialReference(path: scene.path("server.pem")))[0]
    func hash(_ certificate: Certificate) -> String { Pin.spelling(certificateDigest: certificate.sha256) }
    func key(_ certificate: Certificate) -> String { Pin.spelling(publicKeyDigest: certificate.spkiSHA256) }
    for (pins, isTrusted) in [
      ([hash(own)], true), ([hash(other), hash(own)], true), ([key(own)], true), ([key(other), key(own)], true),
      ([hash(other)], false), ([key(other)], false),
      // A certificate of the verified chain counts, as its hash; the CA's key does not.
      ([hash(cast.authority.root.certificate)], true), ([key(cast.authority.root.certificate)], false),
    ] {
      let (report, status) = try await probe(
        scene, ["--cafile", scene.path("ca.pem"), "localhost:\(port)"] + pins.flatMap { ["--pin", $0] })
      #expect(report.trusted == isTrusted && (status == 0) == isTrusted, "\(pins)")
      #expect(report.trust_reason?.hasPrefix("pin: ") == (isTrusted ? nil : true), "\(report.trust_reason ?? "none")")
    }
  }

  @Test(arguments: ["-tls1_2", "-tls1_3"]) func `a server that refuses in the handshake is understood`(version: String)
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try await OpenSSLServer.start(
      scene, try scene.identity("up", cast.authority.server()), "-Verify", "2", "-verify_return_error", "-CAfile",
      scene.path("ca.pem"), version)
    let (report, status) = try await probe(scene, ["--cafile", scene.path("ca.pem"), "localhost:\(server.port)"])
    #expect(status == 2 && report.trusted && report.acceptance == "refused")
    #expect(report.acceptance_reason?.contains("alert") == true)
  }

  @Test func `a server that we don't trust is shown whole, with the reason`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try await server(scene, tls: "ssl_certificate server.pem; ssl_certificate_key server.key;")
    let (system, systemStatus) = try await probe(scene, ["localhost:\(port)"])
    #expect(systemStatus == 1 && !system.trusted && system.trust_reason?.hasPrefix("chain:") == true)
    #expect(system.acceptance == "not-asked" && system.status == 200 && system.certificates.count == 1)
    let (name, nameStatus) = try await probe(
      scene, ["--cafile", scene.path("ca.pem"), "--name", "elsewhere.test", "localhost:\(port)"])
    #expect(nameStatus == 1 && name.trust_reason?.hasPrefix("name:") == true)
    let (pin, pinStatus) = try await probe(
      scene,
      [
        "--cafile", scene.path("ca.pem"), "--pin", "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "localhost:\(port)",
      ])
    #expect(pinStatus == 1 && pin.trust_reason?.hasPrefix("pin:") == true)
    _ = cast
  }

  @Test func `a configuration's policy judges as the proxy would`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let port = try await server(scene)
    func check(_ trust: String) async throws -> Int32 {
      let path = try scene.write(
        "proxy.conf",
        text:
          "events {} http { server { listen 127.0.0.1:1; server_name front.test; location / { proxy_pass https://localhost:\(port); \(trust) } } }"
      )
      return try await probe(scene, ["--config", path, "--server", "front.test"]).status
    }
    let identity = "proxy_ssl_certificate alice.pem; proxy_ssl_certificate_key alice.key;"
    #expect(try await check("proxy_ssl_trusted_certificate ca.pem; \(identity)") == 0)
    #expect(try await check("proxy_ssl_trusted_certificate ca.pem;") == 2)
    try scene.anchors("other", TestAuthority("Other"))
    #expect(try await check("proxy_ssl_trusted_certificate other.pem; \(identity)") == 1)
    let missing = try await scene.sallyport("probe", "--config", scene.path("proxy.conf"), "--server", "nobody.test")
    #expect(missing.status == 3 && missing.errors.contains("there are: front.test"))
  }

  @Test func `what is no TLS server, or nobody, is told`() async throws {
    let scene = try Scene.ofTest()
    let plain = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.readSome()
      try wire.write("HTTP/1.1 400 Bad Request\r\n\r\n")
    }
    let noTLS = try await scene.sallyport("probe", "localhost:\(plain.port)")
    #expect(noTLS.status == 3 && noTLS.text.contains("failed: TLS handshake"))
    let nobody = try await scene.sallyport("probe", "localhost:\(scene.port())")
    #expect(nobody.status == 3 && nobody.errors.contains("Connection refused"))
    for url in ["http://localhost", "https://", "localhost:0", "localhost:99999", "https://a@b/", "https://[::1", ""] {
      #expect(try await scene.sallyport("probe", url).status == 3)
    }
  }

  /// A line of the text, by its label.
  private func line(_ label: String, _ text: String) -> String? {
    text.split(separator: "\n").first { $0.hasPrefix(label) }?.dropFirst(label.count)
      .trimmingCharacters(in: .whitespaces)
  }

  @Test func `where nothing is verified there is no yes, and the status is 4`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try await server(scene, tls: Cast.tls(verify: "off"))
    let other = try Pin.spelling(publicKeyDigest: cast.authority.server().certificate.spkiSHA256)
    let own = try Pin.spelling(
      publicKeyDigest: Certificate.loadAll(MaterialReference(path: scene.path("server.pem")))[0].spkiSHA256)
    func ask(_ trust: String) async throws -> (Report, status: Int32, text: String) {
      let path = try scene.write(
        "proxy.conf",
        text:
          "events {} http { server { listen 127.0.0.1:1; server_name front.test; location / { proxy_pass https://localhost:\(port); \(trust) } } }"
      )
      let arguments = ["--config", path, "--server", "front.test"]
      let (report, status) = try await probe(scene, arguments)
      return (report, status, try await scene.run(Sallyport.binary(), ["probe"] + arguments).text)
    }
    let nothing = try await ask("proxy_ssl_verify off;")
    #expect(nothing.status == 4 && !nothing.0.trusted)
    #expect(nothing.0.trust_reason == "no policy: nothing is verified")
    #expect(
      line("Do we trust the server?", nothing.text)?.hasPrefix("no policy: nothing is verified") == true)
    // Alone, a pin is a policy.
    let pinned = try await ask("proxy_ssl_verify off; proxy_ssl_pin \(own);")
    #expect(pinned.status == 0 && pinned.0.trusted && line("Do we trust the server?", pinned.text) == "yes")
    #expect(try await ask("proxy_ssl_verify off; proxy_ssl_pin \(other);").status == 1)
    // What is only reported is told.
    let reported = try await ask(
      "proxy_ssl_trusted_certificate ca.pem; proxy_ssl_pin \(other); proxy_ssl_pin_report_only on;")
    #expect(reported.status == 0 && reported.0.trusted && reported.0.trust_reason?.hasPrefix("report-only") == true)
    #expect(line("Do we trust the server?", reported.text)?.hasPrefix("yes, though report-only-mismatch") == true)
  }

  @Test func `the demo's own configuration is looked at, group, socket and name`() async throws {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene)
    let arguments = ["--config", demo.file("sallyport.conf"), "--server", "localhost"]
    let (report, status) = try await probe(scene, arguments)
    #expect(status == 0 && report.trusted && report.accepted && report.status == 200)
    #expect(report.certificates.first?.names == ["echo.demo.internal"])
    // By the group's name, and by the server's own.
    for url in ["https://upstream/", "unix:\(demo.folder)/run/echo.sock"] {
      #expect(try await probe(scene, arguments + [url]).status == 0, "\(url)")
    }
  }

  @Test func `every server of a group is looked at, or the one that is asked for`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try await server(scene, tls: Cast.tls(verify: "off"))
    let foreign = try await OpenSSLServer.start(
      scene, try scene.identity("foreign", TestAuthority("Other").server()), "-www")
    let silent = try scene.port()
    let path = try scene.write(
      "proxy.conf",
      text: """
        events {} http { upstream behind { server 127.0.0.1:\(port); server 127.0.0.1:\(foreign.port);
        server 127.0.0.1:\(silent); server 127.0.0.1:1 down; }
        server { listen 127.0.0.1:1; server_name front.test; location / { proxy_pass https://behind;
        proxy_ssl_name localhost; proxy_ssl_trusted_certificate ca.pem; } } }
        """)
    let arguments = ["probe", "--json", "--config", path, "--server", "front.test"]
    let all = try await scene.run(Sallyport.binary(), arguments)
    let reports = try all.text.split(separator: "\n").map {
      try JSONDecoder().decode(Report.self, from: Data($0.utf8))
    }
    #expect(all.status == 1 && reports.map(\.trusted) == [true, false, false], "\(all.everything)")
    #expect(all.errors.contains("127.0.0.1:\(silent): connect() failed") && !all.errors.contains("host not found"))
    for (url, status) in [
      ("127.0.0.1:\(port)", 0), ("127.0.0.1:\(foreign.port)", 1), ("127.0.0.1:\(silent)", 3),
    ] {
      let one = try await scene.run(Sallyport.binary(), arguments + [url])
      #expect(one.status == status, "\(url): \(one.everything)")
    }
    _ = cast
  }

  @Test func `the protocol is the one that was negotiated, or none`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let plain = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.readSome()
      try wire.write("HTTP/1.1 400 Bad Request\r\n\r\n")
    }
    let old = try await OpenSSLServer.start(
      scene, try scene.identity("old", cast.authority.server()), "-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
    for port in [plain.port, old.port] {
      let (report, status) = try await probe(scene, ["localhost:\(port)"])
      #expect(status == 3 && report.protocol == "none", "\(report.protocol)")
      let text = try await scene.sallyport("probe", "localhost:\(port)").text
      #expect(line("protocol", text) == "none", "\(text)")
    }
    // One that fails after its ServerHello has negotiated it.
    let port = try await server(scene, "ssl_protocols TLSv1.2;")
    #expect(try await probe(scene, ["localhost:\(port)"]).0.protocol == "TLSv1.2")
  }

  @Test func `plain HTTP, another protocol and an old TLS are named as what they are`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    func greeter(_ greeting: String) throws -> UInt16 {
      try ScriptedUpstream(scene) { wire, _ in
        _ = try wire.readSome()
        try wire.write(greeting)
      }.port
    }
    let old = try await OpenSSLServer.start(
      scene, try scene.identity("old", cast.authority.server()), "-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
    for (port, words, advice) in [
      (try greeter("HTTP/1.1 400 Bad Request\r\n\r\n"), "the server answers plain HTTP, not TLS", "http://"),
      (try greeter("SSH-2.0-x\r\n"), "not answer with TLS but with \"SSH-2.0-x\"", "the port of the TLS server"),
      (old.port, "its newest is TLSv1.1", "proxy_ssl_protocols TLSv1.1;"),
    ] {
      let result = try await scene.sallyport("probe", "localhost:\(port)")
      #expect(result.status == 3, "\(result.everything)")
      #expect(line("Do we trust the server?", result.text)?.contains(words) == true, "\(result.everything)")
      #expect(line("What to do:", result.text)?.contains(advice) == true, "\(result.everything)")
    }
    let pin = try await scene.sallyport("pin", "localhost:\(greeter("HTTP/1.1 400 Bad Request\r\n\r\n"))")
    #expect(pin.errors.contains("the server answers plain HTTP, not TLS"), "\(pin.everything)")
  }

  @Test func `an option that would change nothing is refused`() async throws {
    let scene = try Scene.ofTest()
    let path = try scene.write("any.conf", text: "events {} http { server { listen 127.0.0.1:1; server_name a; } }")
    for (arguments, words) in [
      (["--server", "a", "localhost:1"], "--config"), (["--key", "k.pem", "localhost:1"], "--cert"),
      (["--config", path, "--server", "a", "--pin", "sha256//x"], "--pin can't be combined with --config"),
      (["--config", path, "--server", "a", "--cafile", "x"], "--cafile can't be combined with --config"),
      (["--config", path, "--server", "a", "--cert", "x"], "--cert can't be combined with --config"),
    ] {
      let result = try await scene.run(Sallyport.binary(), ["probe"] + arguments)
      #expect(result.status == 3 && result.errors.contains(words), "\(arguments): \(result.everything)")
    }
  }

  @Test func `what is wrong with an option is told once, in the options' own names`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    try scene.pkcs12("client", cast.authority.client())
    try scene.makeFolder("pins")
    try await scene.succeed("openssl", "pkey", "-in", "server.key", "-pubout", "-out", "pins/key.pub")
    let hash = String(repeating: "ab", count: 32)
    for (arguments, words) in [
      (["--cert", "alice.pem"], "--key"), (["--cert", "client.p12"], "--password-file"),
      (["--cert", "alice.pem", "--key", "server.key"], "does not belong"), (["--cert", "none.pem"], "none.pem"),
      (["--pin", "client.p12"], "--password-file"), (["--pin", "pins"], "name the key's file itself: pins/key.pub"),
      (["--pin", "cert:\(hash)", "--pin", "spki:\(hash)"], "pins of keys"), (["--pin", "sha256//x"], "sha256//x"),
      (["--cafile", "none.pem"], "none.pem"), (["--cert", "alice.pem", "--key", "store:x"], "store:"),
    ] {
      let result = try await scene.run(Sallyport.binary(), ["probe", "localhost:1"] + arguments)
      #expect(result.status == 3 && result.errors.contains(words), "\(arguments): \(result.everything)")
      #expect(result.errors.split(separator: "error:", omittingEmptySubsequences: false).count == 2, "\(result.errors)")
      #expect(!result.errors.contains("ssl_") && !result.errors.contains("command line"), "\(result.errors)")
    }
  }
}
