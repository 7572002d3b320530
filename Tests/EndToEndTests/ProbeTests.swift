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
    _ = try await Sallyport.start(
      scene,
      configuration(
        "server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(tls) \(more) \(Self.answer) }"))
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
}
