import Bytes
import Crypto
import Foundation
import Testing

struct PKCS12Tests {
  let scratch: Scratch
  let client: CertifiedKey
  let root: Certificate
  let password = SecretBytes(text: "päss word")

  init() throws {
    scratch = try Scratch()
    let fixtures = try Fixtures.shared.get()
    client = fixtures.client
    root = fixtures.root.certificate
    try scratch.file("key.pem", client.key.pem.bytes)
    try scratch.file("leaf.pem", text: client.certificate.pem)
    // The wrong order on purpose: a chain is put right by its links.
    try scratch.file("chain.pem", text: root.pem + client.chain.map(\.pem).joined())
  }

  private func export(_ arguments: [String], password: String) throws -> [UInt8] {
    let outcome = try OpenSSLCommand.attempt(
      [
        "pkcs12", "-export", "-inkey", "\(scratch.path)/key.pem", "-in", "\(scratch.path)/leaf.pem", "-certfile",
        "\(scratch.path)/chain.pem", "-passout", "pass:\(password)", "-out", "\(scratch.path)/made.p12",
      ] + arguments)
    try #require(outcome.status == 0, "\(outcome.errors)")
    return try scratch.bytes("made.p12")
  }

  private func open(_ file: [UInt8], _ passwords: [SecretBytes] = []) throws -> PKCS12 {
    try SecretBytes(file).withUnsafeBytes { try PKCS12(der: $0, passwords: passwords) }
  }

  @Test(arguments: [[], ["-legacy"], ["-certpbe", "NONE", "-keypbe", "NONE"], ["-descert", "-legacy"]])
  func `what openssl exports opens`(how: [String]) throws {
    let file = try export(how, password: "päss word")
    let opened = try open(file, [SecretBytes(text: "no"), password])
    #expect(opened.leaf == client.certificate)
    #expect(opened.chain == client.chain + [root])
    #expect(opened.key?.spkiSHA256 == client.key.spkiSHA256)
  }

  @Test(arguments: [[], ["-legacy"], ["-nomac", "-certpbe", "NONE", "-keypbe", "NONE"]])
  func `an empty pass phrase opens without one being given`(how: [String]) throws {
    let file = try export(how, password: "")
    #expect(try open(file).leaf == client.certificate)
    #expect(try open(file, [password]).leaf == client.certificate)
  }

  @Test func `a wrong pass phrase and none are told apart`() throws {
    let file = try export([], password: "right")
    #expect(throws: CryptoError.passwordRequired) { try open(file) }
    #expect(throws: CryptoError.wrongPassword) { try open(file, [password]) }
    #expect(throws: CryptoError.wrongPassword) { try open(file, [SecretBytes(text: "right\0more")]) }
  }

  @Test(arguments: [PKCS12.Strength.modern, .legacy])
  func `openssl opens what was written`(strength: PKCS12.Strength) throws {
    let file = try PKCS12.encode(client, name: "bob", password: password, strength: strength)
    let path = try scratch.file("ours.p12", file.bytes)
    let arguments = ["pkcs12", "-in", path, "-passin", "pass:päss word", "-nodes"]
    let outcome = try OpenSSLCommand.attempt(arguments + (strength == .legacy ? ["-legacy"] : []))
    try #require(outcome.status == 0, "\(outcome.errors)")
    #expect(try Certificate.all(inPEM: outcome.output) == [client.certificate] + client.chain)
    #expect(try PrivateKey(pem: outcome.output).spkiSHA256 == client.key.spkiSHA256)
    #expect(outcome.output.contains("friendlyName: bob"))
    let description = try OpenSSLCommand.attempt(
      ["pkcs12", "-in", path, "-passin", "pass:päss word", "-noout", "-info"] + (strength == .legacy ? ["-legacy"] : [])
    ).errors
    switch strength {
    case .modern:
      #expect(description.contains("MAC: sha256"))
      #expect(description.contains("PBES2, PBKDF2, AES-256-CBC, Iteration 2048, PRF hmacWithSHA256"))
      #expect(!description.contains("pbeWithSHA1"))
    case .legacy:
      #expect(description.contains("MAC: sha1"))
      #expect(
        description.contains("pbeWithSHA1And40BitRC2-CBC") && description.contains("pbeWithSHA1And3-KeyTripleDES-CBC"))
    }
    #expect(try open(file.bytes, [password]).leaf == client.certificate)
  }

  @Test func `a file of certificates alone gives them, and no key`() throws {
    let path = try scratch.file("anchors.p12")
    try OpenSSLCommand.run(
      "pkcs12", "-export", "-nokeys", "-in", "\(scratch.path)/chain.pem", "-passout", "pass:x", "-out", path)
    let anchors = try Certificate.loadAll(MaterialReference(path: path), passwords: [SecretBytes(text: "x")])
    #expect(Set(anchors) == Set([root] + client.chain))
    #expect(try open(scratch.bytes("anchors.p12"), [SecretBytes(text: "x")]).key == nil)
  }
}
