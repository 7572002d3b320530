import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

/// What ends soon is told while there is time to mend it: by `check`, `health` and the page of `status`.
@Suite(.staged) struct `What ends soon` {
  private static let day: Int64 = 86_400

  /// A list of 30 days and a server's certificate of a year that end in so many days.
  private func files(_ scene: Scene, list: Int64, certificate: Int64) throws {
    let cast = try Cast(scene), now = Int64(time(nil))
    var server = CertificateBuilder(commonName: "localhost", .leaf([.serverAuth]), names: [.dns("localhost")])
    (server.notBefore, server.notAfter) = (now - 300 * Self.day, now + certificate * Self.day + 600)
    _ = try scene.identity("server", server.signed(by: cast.authority.root, key: .generate()))
    var revocations = RevocationListBuilder(revoking: [])
    (revocations.thisUpdate, revocations.nextUpdate) = (now - 28 * Self.day, now + list * Self.day + 600)
    try scene.write("crl.pem", text: revocations.pem(signedBy: cast.authority.root))
  }

  private func text(_ port: UInt16, status: UInt16, _ http: String = "") -> String {
    configuration(
      """
      \(http)
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) ssl_crl crl.pem; return 204; }
      server { listen 127.0.0.1:\(status); location = /status { status; } }
      """)
  }

  private func problems(_ scene: Scene, _ port: UInt16) async throws -> [String] {
    let page = try await scene.curl(["http://127.0.0.1:\(port)/status?format=json"])
    let object = try JSONSerialization.jsonObject(with: Data(page.body)) as? [String: Any]
    return (object?["problems"] as? [[String: Any]] ?? []).compactMap { $0["text"] as? String }
  }

  @Test func `a list and a certificate are told days before their end`() async throws {
    let scene = try Scene.ofTest()
    try files(scene, list: 2, certificate: 9)
    let (port, status) = try (scene.port(), scene.port())
    let checked = try scene.check(text(port, status: status))
    #expect(checked.isValid, "\(checked)")
    #expect(checked.contains("warning: \"crl.pem\": the revocation list of CN=Test Root ends in 2 days"))
    #expect(checked.contains("warning: \"server.pem\": CN=localhost ends in 9 days"), "\(checked)")

    let daemon = try await Sallyport.start(scene, text(port, status: status))
    let path = scene.path("sallyport.conf")
    let asked = try await scene.sallyport("health", "--config", path)
    #expect(asked.status == 3, "\(asked.everything)")
    #expect(asked.text.contains("WARN    certificate: server.pem ends in 9 days\n"), "\(asked.text)")
    #expect(asked.text.contains("WARN    revocation list: that of CN=Test Root ends in 2 days"), "\(asked.text)")
    // What a probe asks that takes a process out of service, or restarts it.
    for probe in ["--ready", "--live"] {
      #expect(try await scene.sallyport("health", "--config", path, probe).status == 0, "\(probe)")
    }
    let told = try await problems(scene, status)
    #expect(told.contains { $0.hasPrefix("A revocation list ends in ") } && told.contains { $0.contains("localhost") })
    #expect(daemon.errorLog.contains("the revocation list of CN=Test Root ends in 2 days"))
  }

  @Test func ssl_expiry_warning_says_how_many_days() async throws {
    let scene = try Scene.ofTest()
    try files(scene, list: 2, certificate: 9)
    let (port, status) = try (scene.port(), scene.port())
    let short = try scene.check(text(port, status: status, "ssl_expiry_warning 1d;"))
    #expect(short.isValid && !short.contains("warning:"), "\(short)")
    let long = try scene.check(text(port, status: status, "ssl_expiry_warning 400d;"))
    #expect(long.contains("\"ca.pem\": CN=Test Root ends in "), "\(long)")
    _ = try await Sallyport.start(scene, text(port, status: status, "ssl_expiry_warning 1d;"))
    let asked = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    #expect(asked.status == 0 && !asked.text.contains("WARN"), "\(asked.everything)")
    #expect(try await problems(scene, status).isEmpty)
  }

  /// A clock that is two hours back.
  @Test func `a list of the future is told like one that has ended, because clients are refused`() async throws {
    let scene = try Scene.ofTest()
    try files(scene, list: 20, certificate: 60)
    let cast = try Cast(scene), now = Int64(time(nil))
    var list = RevocationListBuilder(revoking: [], number: 2)
    (list.thisUpdate, list.nextUpdate) = (now + 7200, now + 30 * Self.day)
    try scene.write("crl.pem", text: list.pem(signedBy: cast.authority.root))
    let (port, status) = try (scene.port(), scene.port())
    let text = text(port, status: status)
      .replacing("location = /status { status; }", with: "location = /status { status; } location = /m { metrics; }")
    let checked = try scene.check(text)
    #expect(checked.contains("error: \"crl.pem\": the revocation list of CN=Test Root begins on "))
    #expect(checked.contains("until then every certificate of this CA is refused"), "\(checked)")
    #expect(try await scene.sallyport("check", "--strict", "--config", scene.path("check.conf")).status != 0)
    let daemon = try await Sallyport.start(scene, text)
    #expect(try await scene.curl(cast.to(port) + cast.alice.curl + ["https://localhost/"]).status == 400)
    let path = scene.path("sallyport.conf")
    let asked = try await scene.sallyport("health", "--config", path)
    #expect(asked.status == 1, "\(asked.everything)")
    #expect(
      asked.text.contains("FAILED  revocation list: that of CN=Test Root is of the future")
        && asked.text.contains("everybody of this CA is refused"), "\(asked.text)")
    #expect(try await problems(scene, status).contains { $0.hasPrefix("A revocation list is of the future") })
    func inForce() async throws -> Bool? {
      let page = try await scene.curl(["http://127.0.0.1:\(status)/m"]).text
      let line = page.split(separator: "\n").first { $0.hasPrefix("sallyport_crl_in_force{") }
      return line.map { $0.hasSuffix(" 1") }
    }
    #expect(try await inForce() == false)
    #expect(daemon.errorLog.contains("[crit]") && daemon.errorLog.contains("begins on "))
    // The CA's present list serves, and the next one of the future waits beside it.
    list.thisUpdate = now - 60
    try scene.write("crl.pem", text: list.pem(signedBy: cast.authority.root))
    try await until("the present list") {
      try await scene.curl(cast.to(port) + cast.alice.curl + ["https://localhost/"]).status == 204
    }
    (list.thisUpdate, list.number) = (now + 7200, 3)
    try scene.write("crl.pem", text: list.pem(signedBy: cast.authority.root))
    try await daemon.logged("or from the future: the one before", "stays in use")
    #expect(try await scene.curl(cast.to(port) + cast.alice.curl + ["https://localhost/"]).status == 204)
    let waiting = try await scene.sallyport("health", "--config", path)
    #expect(
      waiting.status == 3 && waiting.text.contains("WARN    revocation list: that of CN=Test Root is of the future"),
      "\(waiting.everything)")
    #expect(try await inForce() == true)
  }

  @Test func `health fails where a list has ended, because clients are refused`() async throws {
    let scene = try Scene.ofTest()
    try files(scene, list: -1, certificate: 60)
    let (port, status) = try (scene.port(), scene.port())
    _ = try await Sallyport.start(scene, text(port, status: status))
    let path = scene.path("sallyport.conf")
    let asked = try await scene.sallyport("health", "--config", path)
    #expect(asked.status == 1, "\(asked.everything)")
    #expect(
      asked.text.contains("FAILED  revocation list: that of CN=Test Root has ended: everybody of this CA is refused"))
    #expect(try await scene.sallyport("health", "--config", path, "--live").status == 0)
  }

  @Test func `health warns of a refused reload, by a status of its own`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port); return 204; }"))
    try daemon.rewrite("bogus;")
    daemon.signal(SIGHUP)
    try await daemon.logged("the new configuration is refused")
    let path = scene.path("sallyport.conf")
    let asked = try await scene.sallyport("health", "--config", path)
    #expect(
      asked.status == 3 && asked.text.contains("WARN    reload: the last one was refused: "), "\(asked.everything)")
    let json = try await scene.sallyport("health", "--config", path, "--json")
    #expect(json.status == 3 && json.text.contains(#""healthy":true"#) && json.text.contains(#""state":"warning""#))
    for probe in ["--ready", "--live"] {
      #expect(try await scene.sallyport("health", "--config", path, probe).status == 0, "\(probe)")
    }
  }
}
