import Bytes
import Crypto
import Foundation
import TestSupport
import Testing

struct PrivateKeyTests {
  let scratch: Scratch
  let rsa: PrivateKey
  let plain: String

  init() throws {
    scratch = try Scratch()
    rsa = try Fixtures.shared.get().client.key
    plain = try scratch.file("plain.pem", rsa.pem.bytes)
  }

  private func text(_ name: String) throws -> String { String(decoding: try scratch.bytes(name), as: UTF8.self) }

  @Test func `openssl reads what was written and has the same public key`() throws {
    let spki = try scratch.file("spki.der")
    try OpenSSLCommand.run("pkey", "-in", plain, "-pubout", "-outform", "der", "-out", spki)
    #expect(try scratch.bytes("spki.der") == rsa.publicKey.subjectPublicKeyInfo)
  }

  @Test(arguments: [
    ["rsa", "-traditional"], ["pkey"], ["pkey", "-outform", "der"], ["rsa", "-traditional", "-outform", "der"],
  ])
  func `plain keys open in every form`(how: [String]) throws {
    let file = try scratch.file("key")
    let outcome = try OpenSSLCommand.attempt(how + ["-in", plain, "-out", file])
    try #require(outcome.status == 0, "\(outcome.errors)")
    let certificate = try Fixtures.shared.get().client.certificate
    let pem = try scratch.file("c.pem", text: certificate.pem)
    let pair = try CertifiedKey.load(
      certificate: MaterialReference(path: pem), key: MaterialReference(path: file), tokens: TokenRefusals())
    #expect(pair.key.spkiSHA256 == rsa.spkiSHA256)
  }

  @Test(arguments: [
    ["pkcs8", "-topk8", "-v2", "aes-256-cbc"], ["pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES"],
    ["pkcs8", "-topk8", "-v1", "PBE-MD5-DES", "-provider", "legacy", "-provider", "default"],
    ["pkcs8", "-topk8", "-outform", "der"], ["rsa", "-traditional", "-aes128"], ["rsa", "-traditional", "-des3"],
  ])
  func `encrypted keys open with the pass phrase that fits`(how: [String]) throws {
    let file = try scratch.file("key")
    let outcome = try OpenSSLCommand.attempt(how + ["-in", plain, "-passout", "pass:correct horse", "-out", file])
    try #require(outcome.status == 0, "\(outcome.errors)")
    let reference = MaterialReference(path: file)
    func open(_ passwords: String...) throws -> Pin {
      try Pin.publicKey(in: reference, passwords: passwords.map { SecretBytes(text: $0) })
    }
    #expect(try open("wrong", "", "correct horse").publicKeyDigest == rsa.spkiSHA256)
    let wrong = #expect(throws: MaterialError.self) { try open("wrong", "correct horse ") }
    #expect(wrong?.message.contains("none of the given pass phrases") == true)
    let none = #expect(throws: MaterialError.self) { try open() }
    #expect(none?.message.contains("no pass phrase was given") == true)
  }

  @Test func `an EC key with its parameters opens`() throws {
    let pem = try OpenSSLCommand.run("ecparam", "-name", "prime256v1", "-genkey")
    #expect(pem.contains("BEGIN EC PARAMETERS"))
    let file = try scratch.file("ec.pem", text: pem)
    let expected = try OpenSSLCommand.run("pkey", "-in", file, "-pubout")
    let key = try PrivateKey(pem: pem)
    #expect(
      expected.split(separator: "\n").dropFirst().dropLast().joined()
        == Base64.encode(key.publicKey.subjectPublicKeyInfo))
  }

  @Test func `a key matches its own certificate only`() throws {
    let fixtures = try Fixtures.shared.get()
    #expect(fixtures.client.key.matches(fixtures.client.certificate))
    #expect(!fixtures.client.key.matches(fixtures.server.certificate))
    #expect(CertifiedKey(certificate: fixtures.server.certificate, key: fixtures.client.key) == nil)
  }

  @Test func `a key is not printed`() {
    #expect("\(rsa)" == "(private key)")
  }

  @Test func `a pass phrase longer than OpenSSL has room for is merely wrong`() throws {
    let file = try scratch.file("key")
    try OpenSSLCommand.run("rsa", "-traditional", "-aes128", "-in", plain, "-passout", "pass:right", "-out", file)
    #expect(throws: CryptoError.wrongPassword) {
      try PrivateKey(pem: text("key"), passwords: [SecretBytes([UInt8](repeating: 65, count: 5000))])
    }
  }
}
