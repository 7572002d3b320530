import Bytes
import Crypto
import Foundation
import TestSupport
import Testing

/// Whatever is in a file, reading it ends in an object or an error: never a crash, never an entry left in OpenSSL's
/// queue, where the next handshake of this thread would find it.
struct DamagedInputTests {
  enum Form: CaseIterable {
    case certificatePEM, certificateDER, keyPEM, keyDER, sealedKey, pkcs12, oldPKCS12, publicKey
  }

  let scratch: Scratch
  let server: CertifiedKey

  init() throws {
    scratch = try Scratch()
    server = try Fixtures.shared.get().server
  }

  private func whole(_ form: Form) throws -> [UInt8] {
    let key = try scratch.file("key", server.key.pem.bytes)
    let out = try scratch.file("out")
    switch form {
    case .certificatePEM: return Array((server.certificate.pem + server.chain.map(\.pem).joined()).utf8)
    case .certificateDER: return server.certificate.der
    case .keyPEM: return try server.key.pem.bytes
    case .keyDER: try OpenSSLCommand.run("pkey", "-in", key, "-outform", "der", "-out", out)
    case .sealedKey:
      try OpenSSLCommand.run(
        "pkcs8", "-topk8", "-iter", "1", "-in", key, "-outform", "der", "-passout", "pass:x", "-out", out)
    case .pkcs12, .oldPKCS12:
      // With one round of the key derivation: a real one costs thousands each time that the file is read.
      let chain = try scratch.file("chain", text: (server.certificate.pem + server.chain.map(\.pem).joined()))
      var arguments = [
        "pkcs12", "-export", "-iter", "1", "-in", chain, "-inkey", key, "-name", "x", "-passout", "pass:x",
      ]
      if form == .oldPKCS12 { arguments.append("-legacy") }
      let made = try OpenSSLCommand.attempt(arguments + ["-out", out])
      try #require(made.status == 0, "\(made.errors)")
    case .publicKey: return server.certificate.publicKey.subjectPublicKeyInfo
    }
    return try scratch.bytes("out")
  }

  /// Through every door that a file has; what comes out is looked at, so that lazily parsed parts are parsed.
  @discardableResult
  private func read(_ bytes: [UInt8]) throws -> Bool {
    let reference = MaterialReference(path: try scratch.file("damaged", bytes))
    let passwords = [SecretBytes(text: "x")]
    var succeeded = false
    do {
      for certificate in try Certificate.loadAll(reference, passwords: passwords) {
        _ = (certificate.subject.rfc2253, certificate.issuer.legacy, certificate.serial, certificate.notAfterText)
        _ = (certificate.notBefore, certificate.pem, certificate.subjectAltNames.all.map(\.description))
        _ = (certificate.spkiSHA256, certificate.subject.commonName, certificate.isSelfIssued)
        _ = try? TrustAnchors(.certificates([certificate]))
      }
      succeeded = true
    } catch let error { #expect(!error.description.isEmpty) }
    do {
      _ = try CertifiedKey.load(
        certificate: reference, key: nil, passwords: passwords, tokens: TokenRefusals())
      succeeded = true
    } catch let error { #expect(!error.description.isEmpty) }
    do {
      _ = try Pin.publicKey(in: reference, passwords: passwords)
      succeeded = true
    } catch let error { #expect(!error.description.isEmpty) }
    #expect(OpenSSLError.drain().codes.isEmpty)
    return succeeded
  }

  @Test(arguments: Form.allCases)
  func `a truncated file is an error`(form: Form) throws {
    let whole = try whole(form)
    #expect(try read(whole))
    let step = max(1, whole.count / 60)
    // A PEM may lose what stands behind its last dash.
    let slack = form == .certificatePEM || form == .keyPEM ? 2 : 0
    for count in stride(from: 1, to: whole.count - slack, by: step) {
      let succeeded = try read(Array(whole.prefix(count)))
      if form != .certificatePEM { #expect(!succeeded, "\(count) of \(whole.count) bytes") }
    }
  }

  @Test(arguments: Form.allCases)
  func `a damaged file never crashes`(form: Form) throws {
    let whole = try whole(form)
    var numbers = SeededNumbers(seed: 42)
    for _ in 0..<150 {
      var damaged = whole
      for _ in 0..<Int.random(in: 1...4, using: &numbers) {
        let place = Int.random(in: 0..<damaged.count, using: &numbers)
        switch Int.random(in: 0..<4, using: &numbers) {
        case 0: damaged[place] ^= 1 << UInt8.random(in: 0..<8, using: &numbers)
        case 1: damaged[place] = UInt8.random(in: .min ... .max, using: &numbers)
        case 2: damaged.remove(at: place)
        default: damaged.insert(UInt8.random(in: .min ... .max, using: &numbers), at: place)
        }
      }
      try read(damaged)
    }
  }

  @Test func `noise is an error`() throws {
    var numbers = SeededNumbers(seed: 7)
    for count in [1, 2, 3, 10, 100, 5000] {
      var noise = (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &numbers) }
      #expect(try !read(noise))
      noise[0] = 0x30
      #expect(try !read(noise))
    }
    #expect(try !read(Array("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n".utf8)))
    #expect(try !read(Array("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".utf8)))
    #expect(try !read(Array("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n".utf8)))
  }
}
