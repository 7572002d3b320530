import Crypto
import Foundation
import TestSupport
import Testing

/// What a scanner finds at a listener of which nothing is said but whom it lets in.
@Suite(.staged) struct `A TLS scan` {
  /// A certificate of some months, so that its end is no finding.
  private func start(_ scene: Scene) async throws -> UInt16 {
    let cast = try Cast(scene)
    var builder = CertificateBuilder(commonName: "localhost", .leaf([.serverAuth]), names: [.dns("localhost")])
    builder.notAfter = Int64(Date().timeIntervalSince1970) + 90 * 86_400
    _ = try scene.identity("server", builder.signed(by: cast.authority.root, key: .generate()))
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) return 200 "in"; }
      """)
    return port
  }

  @Test(arguments: ["-tls1_2", "-tls1_3"]) func `shows that clients are asked for a certificate, and of whom`(
    version: String
  ) async throws {
    let scene = try Scene.ofTest()
    let result = try await scene.run(
      "openssl", ["s_client", "-connect", "127.0.0.1:\(try await start(scene))", version], input: [])
    #expect(result.text.withPlainNames.contains("Acceptable client certificate CA names\nCN=Test Root\n"))
  }

  private struct Finding: Decodable, CustomStringConvertible {
    let id: String
    let severity: String
    let finding: String
    var description: String { "\(id) \(severity): \(finding)" }
  }

  /// What comes of the test's own CA: nobody knows it, and its certificates say nowhere who has revoked them.
  private static let ofOwnCA: Set<String> = ["cert_chain_of_trust", "cert_revocation"]

  /// Takes a minute and more: only where SALLYPORT_TEST_TLS_SCAN asks for it.
  @Test(
    .enabled(
      if: ProcessInfo.processInfo.environment["SALLYPORT_TEST_TLS_SCAN"] != nil, "SALLYPORT_TEST_TLS_SCAN is not set"))
  func `by testssl.sh finds TLS 1.2 and 1.3, no vulnerability, and nothing grave`() async throws {
    let scene = try Scene.ofTest()
    let port = try await start(scene)
    let result = try await scene.run(
      "testssl",
      [
        "--quiet", "--color", "0", "--warnings", "off", "--nodns", "none", "--ip", "127.0.0.1", "--jsonfile",
        scene.path("scan.json"), "-p", "-S", "-U", "localhost:\(port)",
      ], within: .seconds(400))
    let findings = try JSONDecoder().decode([Finding].self, from: Data(scene.bytes("scan.json")))
    let found = Dictionary(findings.map { ($0.id, $0) }) { first, _ in first }
    for old in ["SSLv2", "SSLv3", "TLS1", "TLS1_1"] {
      #expect(found[old]?.finding.contains("not offered") == true, "\(old): \(result.everything.suffix(2000))")
    }
    #expect(found["TLS1_2"]?.finding == "offered")
    #expect(found["TLS1_3"]?.finding.hasPrefix("offered") == true)
    // It came to its end: this is the last of what it looks for.
    #expect(found["RC4"]?.finding == "not vulnerable" || found["RC4"]?.severity == "OK")
    let grave = findings.filter {
      ["MEDIUM", "HIGH", "CRITICAL", "FATAL"].contains($0.severity) && !Self.ofOwnCA.contains($0.id)
    }
    #expect(grave.isEmpty)
  }
}
