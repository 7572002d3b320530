import Bytes
import ConfigurationSupport
import Crypto
import Foundation
import Language
import TestSupport
import Testing

@testable import Review

/// The policy files beside the examples of config/.
@Suite struct `The policy of an example` {
  private static let names = [
    "behind-load-balancer", "blue-green", "full", "grpc", "ldap", "legacy-backend", "legacy-rewrite", "load-balancing",
    "maintenance", "multi-tenant", "nginx-block", "oauth2-proxy", "php", "postgresql", "proof", "rate-limited-api",
    "redis",
    "sidecar", "sni-router", "static-site", "websocket",
  ]

  /// Copies an example into the scene, and makes the files that it names: each CA is another one.
  private func stage(_ example: String, _ scene: Scene) throws -> String {
    let text = try String(contentsOfFile: "\(checkout)/config/\(example).conf", encoding: .utf8)
    let servers = try TestAuthority("Servers")
    let server = try servers.server(names: ["localhost"]), client = try servers.client(commonName: "proxy")
    for (certificate, key) in [
      ("server.pem", "server.key"), ("server.cer", "server.key.pem"), ("tls.crt", "tls.key"),
      ("server-rsa.cer", "server-rsa.key.pem"), ("red.pem", "red.key"), ("blue.pem", "blue.key"),
      ("shared.pem", "shared.key"), ("client.pem", "client.key"),
    ] where text.contains(certificate) {
      let pair = certificate == "client.pem" ? client : server
      try scene.write(certificate, text: pair.certificate.pem)
      try scene.write(key, pair.key.pem.withUnsafeBytes { Array($0) })
    }
    for file in [
      "ca.pem", "ca.cer", "ca.crt", "old-ca.cer", "red-ca.pem", "blue-ca.pem", "shared-ca.pem", "upstream-ca.cer",
      "backend-ca.cer", "service-ca.pem",
    ] where text.contains(file) {
      let authority = try TestAuthority(file)
      try scene.write(file, text: authority.root.certificate.pem)
      let list = "\(file.prefix { $0 != "." }).crl"
      if text.contains(list) {
        try scene.write(list, text: RevocationListBuilder(revoking: []).pem(signedBy: authority.root))
      }
    }
    try scene.pkcs12("server", server)
    try scene.pkcs12("client", client)
    for name in ["server.pass", "client.pass"] { try scene.write(name, text: IdentityFiles.password + "\n") }
    if example == "proof" {
      for name in ["identity.pem", "audit.key"] {
        try scene.write(name, PrivateKey.generate(.ed25519).pem.withUnsafeBytes { Array($0) })
      }
      try scene.write("keys.json", text: "{\"keys\":[\(JSONWebKey(.generate(.ed25519)).publicText)]}")
    }
    if example == "full" { try stageFull(scene, server) }
    // Files are found beside the configuration, and no credentials of systemd are at hand.
    let own = text.replacing("credential:tls-passwords", with: "server.pass")
      .replacing("credential:client-password", with: "client.pass")
      .replacing("    ssl_stapling on;\n", with: "").replacing("  ssl_dhparam dh.pem;\n", with: "")
      // No local authority is at hand either.
      .replacing("enrolment on;", with: "proxy_pass https://api;").replacing(#/ *enrolment_[a-z_0-9]+ .*\n/#, with: "")
    return try scene.write("\(example).conf", text: Sallyport.withUser(own))
  }

  private func stageFull(_ scene: Scene, _ server: CertifiedKey) throws {
    for folder in ["appliances", "envelope"] { try scene.makeFolder(folder) }
    try scene.write("appliances/one.pem", text: server.certificate.pem)
    for name in ["new.key", "new.mac", "old.key", "old.mac"] {
      try scene.write("envelope/\(name)", text: String(repeating: "5a", count: 32))
    }
    try scene.write("users", text: "cn=alice al:secret\n")
    try scene.write("htpasswd", text: "alice:{PLAIN}wonderland\n")
    for key in ["ticket.key", "ticket-before.key"] { try scene.write(key, [UInt8](repeating: 7, count: 80)) }
  }

  /// The longest example takes minutes in a build for tests.
  @Test(arguments: names.filter { $0 != "full" || getenv("SALLYPORT_COVERAGE") != nil })
  func `holds, and misses each rule that could be gone`(example: String) throws {
    try withScene { scene in
      let path = try stage(example, scene)
      do throws(AccessReport.Refusal) {
        let report = try AccessReport(
          of: ["\(checkout)/config/policy/\(example).policy"], configuration: path, withCoverage: true)
        #expect(report.isFine, "\(report.lines.joined(separator: "\n"))")
      } catch {
        Issue.record("\(error.text) \(error.diagnostics)")
      }
    }
  }

  @Test func `stands beside each example`() throws {
    let examples = try FileManager.default.contentsOfDirectory(atPath: "\(checkout)/config")
      .filter { $0.hasSuffix(".conf") }.map { String($0.dropLast(".conf".count)) }
    #expect(Set(examples) == Set(Self.names))
  }
}
