import Crypto
import Foundation
import TestSupport
import Testing

/// Anybody can show a certificate whose notAfter is no time; nobody has to sign it.
@Suite(.staged) struct `A certificate whose end can't be read` {
  static let ends = ["notatimeXXXXZ", "20360101000000"]

  private func certificate(_ end: String, _ purpose: CertificateBuilder.Purpose) throws -> CertifiedKey {
    var builder = CertificateBuilder(commonName: "localhost", purpose, names: [.dns("localhost")])
    // From 2050 on the time is a GeneralizedTime, whose text has four digits for the year.
    if end.utf8.count == 14 { builder.notAfter = 4_102_444_800 }
    builder.rawNotAfter = Array(end.utf8)
    return try builder.selfSigned(key: .generate())
  }

  @Test(arguments: ["on", "optional_no_ca"], ends)
  func `does not end the process that logs how long it lasts`(verify: String, end: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      log_format times "$ssl_client_verify|$ssl_client_v_start|$ssl_client_v_end|$ssl_client_v_remain|";
      access_log times.log times;
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls(verify: verify))
        location / { return 200 "left=$ssl_client_v_remain;"; } }
      """)
    let broken = try scene.identity("broken", certificate(end, .leaf([.clientAuth])))
    if try await canBeShown(broken.certificate, scene) {
      let result = try await scene.curl(cast.to(port) + broken.curl + ["https://localhost/"])
      #expect(result.status == 400)
      try await until("the log line") { scene.text("times.log").contains("GMT|-|-|\n") }
      #expect(scene.text("times.log").hasPrefix("FAILED:"))
    }
    #expect(daemon.process.ending == nil)
    let good = try await scene.curl(cast.to(port) + cast.alice.curl + ["https://localhost/"])
    #expect(good.status == 200 && good.text == "left=364;" || good.text == "left=365;")
  }

  /// OpenSSL 3.5 loads no certificate whose time is in no form at all, so neither curl nor s_server can show one.
  private func canBeShown(_ certificate: String, _ scene: Scene) async throws -> Bool {
    try await scene.run("openssl", ["x509", "-in", certificate, "-noout", "-subject"]).status == 0
  }

  @Test(arguments: ends) func `is shown by probe, and not trusted`(end: String) async throws {
    let scene = try Scene.ofTest()
    let identity = try scene.identity("server", certificate(end, .leaf([.serverAuth])))
    guard try await canBeShown(identity.certificate, scene) else { return }
    let server = try await OpenSSLServer.start(scene, identity, "-www")
    let words = ["probe", "--cafile", identity.certificate, "https://localhost:\(server.port)/"]
    let text = try await scene.run(Sallyport.binary(), words)
    #expect(text.status == 1, "\(text.everything)")
    #expect(text.everything.contains("to a time that can't be read, never valid"), "\(text.everything)")
    let json = try await scene.run(Sallyport.binary(), words + ["--json"])
    #expect(json.status == 1 && json.everything.contains("\"not_after\":null"))
  }

  @Test func `is told of where it is our own, and does not stop a start`() async throws {
    let scene = try Scene.ofTest()
    _ = try scene.identity("own", certificate("notatimeXXXXZ", .leaf([.serverAuth])))
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; ssl_certificate own.pem; ssl_certificate_key own.key;
        location / { metrics; } }
      """)
    try await daemon.logged("[warn]", "expired on a time that can't be read")
    let page = try await scene.curl(["-k", "https://127.0.0.1:\(port)/"])
    #expect(page.status == 200 && page.text.contains("sallyport_generation"))
    #expect(!page.text.contains("certificate_end_timestamp_seconds{"))
  }
}
