import Bytes
import Crypto
import Foundation
import TestSupport
import Testing

struct CertificateBuilderTests {
  let fixtures: Fixtures
  let scratch: Scratch

  init() throws {
    fixtures = try Fixtures.shared.get()
    scratch = try Scratch()
  }

  private func verify(_ pair: CertifiedKey, _ arguments: String...) throws -> ProgramRun {
    let root = try scratch.file("root.pem", text: fixtures.root.certificate.pem)
    let chain = try scratch.file("chain.pem", text: pair.chain.map(\.pem).joined())
    let leaf = try scratch.file("leaf.pem", text: pair.certificate.pem)
    let untrusted = pair.chain.isEmpty ? [] : ["-untrusted", chain]
    return try OpenSSLCommand.attempt(["verify", "-x509_strict", "-CAfile", root] + untrusted + arguments + [leaf])
  }

  @Test func `openssl verifies what was built, strictly`() throws {
    #expect(try verify(fixtures.server, "-purpose", "sslserver", "-verify_hostname", "localhost").status == 0)
    #expect(try verify(fixtures.server, "-verify_ip", "127.0.0.1").status == 0)
    #expect(try verify(fixtures.client, "-purpose", "sslclient", "-verify_email", "bob@example.org").status == 0)
    #expect(fixtures.server.chain == [fixtures.intermediate.certificate])
  }

  @Test func `a certificate for one purpose is refused for the other`() throws {
    #expect(try verify(fixtures.server, "-purpose", "sslclient").status != 0)
    #expect(try verify(fixtures.client, "-purpose", "sslserver").status != 0)
    let both = try CertificateBuilder(commonName: "both", .leaf([])).signed(by: fixtures.root, key: .generate())
    #expect(try verify(both, "-purpose", "sslclient").status == 0)
    #expect(try verify(both, "-purpose", "sslserver").status == 0)
  }

  @Test func `a path longer than the authority allows is refused`() throws {
    let below = try CertificateBuilder(commonName: "Too Deep", .authority(pathLength: nil))
      .signed(by: fixtures.intermediate, key: .generate())
    let leaf = try CertificateBuilder(commonName: "deep", .leaf([])).signed(by: below, key: .generate())
    #expect(leaf.chain.count == 2)
    #expect(try verify(leaf).output.contains("path length") || verify(leaf).errors.contains("path length"))
  }

  @Test func `dates may lie in the past`() throws {
    var builder = CertificateBuilder(commonName: "old", .leaf([]))
    builder.notBefore = 1_500_000_000
    builder.notAfter = 1_500_086_400
    let expired = try builder.signed(by: fixtures.root, key: .generate())
    #expect(try verify(expired).errors.contains("expired"))
    #expect(try verify(expired, "-no_check_time").status == 0)
  }

  @Test func `an RSA authority signs for a P-256 key`() throws {
    let authority = try CertificateBuilder(commonName: "RSA Root", .authority(pathLength: 0))
      .selfSigned(key: .generate(.rsa(bits: 2048)))
    let leaf = try CertificateBuilder(commonName: "leaf", .leaf([.clientAuth])).signed(by: authority, key: .generate())
    let root = try scratch.file("rsa.pem", text: authority.certificate.pem)
    let file = try scratch.file("leaf.pem", text: leaf.certificate.pem)
    #expect(try OpenSSLCommand.attempt(["verify", "-CAfile", root, file]).status == 0)
  }

  @Test func `serials are positive, of 128 bits at most, and differ`() throws {
    let key = try PrivateKey.generate()
    let serials = try (0..<16).map { _ in
      try CertificateBuilder(commonName: "x", .leaf([])).selfSigned(key: key).certificate.serial
    }
    #expect(Set(serials).count == serials.count)
    for serial in serials { #expect(serial.count == 32 && !serial.hasPrefix("-")) }
  }

  @Test func `an address that is none is an error`() throws {
    let key = try PrivateKey.generate()
    #expect(throws: OpenSSLError.self) {
      try CertificateBuilder(commonName: "x", .leaf([]), names: [.ip("localhost")]).selfSigned(key: key)
    }
  }
}
