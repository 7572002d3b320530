import Bytes
import Crypto
import Testing

/// `store:URI`, with the one kind of store that every OpenSSL has: its own loader of files.
struct StoredKeyTests {
  let scratch: Scratch
  let server: CertifiedKey

  init() throws {
    scratch = try Scratch()
    server = try Fixtures.shared.get().server
    try scratch.file("c.pem", text: server.certificate.pem)
    try scratch.file("k.pem", server.key.pem.bytes)
  }

  private func load(_ key: String, _ passwords: String...) throws -> CertifiedKey {
    try CertifiedKey.load(
      certificate: MaterialReference(path: "\(scratch.path)/c.pem"),
      key: MaterialReference(parsing: "store:\(key)", relativeTo: "/", isKey: true),
      passwords: passwords.map { SecretBytes(text: $0) }, tokens: TokenRefusals())
  }

  private func fault(_ key: String, _ passwords: String...) -> String {
    do {
      _ = try CertifiedKey.load(
        certificate: MaterialReference(path: "\(scratch.path)/c.pem"),
        key: MaterialReference(parsing: "store:\(key)", relativeTo: "/", isKey: true),
        passwords: passwords.map { SecretBytes(text: $0) }, tokens: TokenRefusals())
      return "loaded"
    } catch { return "\(error)" }
  }

  @Test func `a key is loaded by its URI`() throws {
    #expect(try load("file:\(scratch.path)/k.pem").key.spkiSHA256 == server.certificate.spkiSHA256)
  }

  @Test func `a PIN is the first pass phrase, and is asked of nobody`() throws {
    try OpenSSLCommand.run(
      "pkcs8", "-topk8", "-in", "\(scratch.path)/k.pem", "-out", "\(scratch.path)/sealed.pem", "-passout", "pass:1234")
    #expect(try load("file:\(scratch.path)/sealed.pem", "1234").key.spkiSHA256 == server.certificate.spkiSHA256)
    #expect(fault("file:\(scratch.path)/sealed.pem", "wrong", "1234").contains("finds no private key"))
    #expect(fault("file:\(scratch.path)/sealed.pem").contains("finds no private key"))
  }

  @Test(arguments: ["no-such-scheme:x", "file:/nowhere/k.pem"])
  func `a key that is not there is an error that names it`(uri: String) {
    #expect(fault(uri).contains("\"store:\(uri)\""))
    #expect(fault(uri).contains("OpenSSL finds no private key there"))
  }

  @Test func `a store without a key and a key of another certificate are errors`() throws {
    #expect(fault("file:\(scratch.path)/c.pem").contains("finds no private key"))
    try scratch.file("other.pem", Fixtures.shared.get().client.key.pem.bytes)
    #expect(fault("file:\(scratch.path)/other.pem").contains("does not belong to the certificate"))
  }
}
