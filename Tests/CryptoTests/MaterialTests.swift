import Bytes
import Crypto
import Foundation
import Observability
import Testing

struct MaterialReferenceTests {
  @Test func `a relative path stands in the folder of the configuration`() throws {
    #expect(try MaterialReference(parsing: "a/b.pem", relativeTo: "/etc/x").spelling == .path("/etc/x/a/b.pem"))
    #expect(try MaterialReference(parsing: "/b.pem", relativeTo: "/etc/x").spelling == .path("/b.pem"))
    #expect(try MaterialReference(parsing: "b.pem", relativeTo: "").spelling == .path("b.pem"))
    #expect(try MaterialReference(parsing: "b.pem", relativeTo: "/etc/x").description == "b.pem")
  }

  @Test func `a credential is a single name`() throws {
    #expect(try MaterialReference(parsing: "credential:key", relativeTo: "/x").spelling == .credential("key"))
    #expect(try MaterialReference(parsing: "credential:..key", relativeTo: "/x").spelling == .credential("..key"))
  }

  @Test(arguments: [
    "credential:", "credential:.", "credential:..", "credential:a/b", "credential:../a", "credential:/a", "", "a\0b",
  ])
  func `what names no file is refused with its place`(text: String) {
    let place = SourceLocation(file: "x.conf", line: 3, column: 9)
    let error = #expect(throws: MaterialError.self) {
      try MaterialReference(parsing: text, relativeTo: "/x", location: place)
    }
    #expect(error?.diagnostic.location == place)
    #expect(error?.diagnostic.severity == .error)
    #expect(error?.hint?.isEmpty == false)
  }

  @Test func `data is the content itself, which no message shows`() throws {
    let reference = try MaterialReference(parsing: "data:-----BEGIN x", relativeTo: "/x", isKey: true)
    #expect(reference.spelling == .text("-----BEGIN x") && reference.description == "data:…")
    let content = try reference.read(expecting: .privateKey).withUnsafeBytes { Array($0) }
    #expect(content == Array("-----BEGIN x".utf8))
    let error = #expect(throws: MaterialError.self) { try reference.resolvedPath(expecting: .privateKey) }
    #expect(error?.message.contains("BEGIN") == false && error?.hint?.isEmpty == false)
    #expect(throws: MaterialError.self) { try MaterialReference(parsing: "data:", relativeTo: "/x") }
  }

  @Test func `a store or a token names a key, and nothing else`() throws {
    for (text, name) in [
      ("store:pkcs11:object=x", MaterialReference.KeyName.store("pkcs11:object=x")),
      ("engine:pkcs11:pkcs11:object=x", .engine("pkcs11:object=x")),
      ("engine:pkcs11:slot_0-id_01", .engine("slot_0-id_01")),
    ] {
      let reference = try MaterialReference(parsing: text, relativeTo: "/x", isKey: true)
      #expect(reference.spelling == .key(name) && reference.description == text)
      #expect(throws: MaterialError.self) { try reference.read(expecting: .certificate) }
      let error = #expect(throws: MaterialError.self) { try MaterialReference(parsing: text, relativeTo: "") }
      #expect(error?.message.contains("\"\(text)\"") == true)
      #expect(error?.message.contains("names a private key, which is not what is wanted here") == true)
    }
  }

  @Test(arguments: ["store:", "engine:", "engine:pkcs11:", "engine:pkcs11", "engine:gost:x", "store:a\0b"])
  func `what names no key, and other engines than PKCS#11's, are refused`(text: String) throws {
    let error = #expect(throws: MaterialError.self) {
      try MaterialReference(parsing: text, relativeTo: "", isKey: true)
    }
    #expect(error?.message.contains(text) == true && error?.hint?.isEmpty == false)
  }

  @Test(arguments: [
    ("store:pkcs11:token=t;pin-value=12;object=x", "store:pkcs11:token=t;pin-value=…;object=x"),
    (
      "engine:pkcs11:pkcs11:object=x?pin-value=12&module-name=y",
      "engine:pkcs11:pkcs11:object=x?pin-value=…&module-name=y"
    ),
    ("store:pkcs11:pin-value=12", "store:pkcs11:pin-value=…"),
    ("store:pkcs11:pin-value=1;pin-value=2", "store:pkcs11:pin-value=…;pin-value=…"),
  ])
  func `a PIN in a URI is used and not shown`(text: String, shown: String) throws {
    let reference = try MaterialReference(parsing: text, relativeTo: "", isKey: true)
    #expect(reference.description == shown)
    #expect("\(reference.spelling)".contains("pin-value=1"))
    let error = #expect(throws: MaterialError.self) { try MaterialReference(parsing: text, relativeTo: "") }
    #expect(error?.culprit == shown && error?.message.contains("pin-value=1") == false)
  }
}

struct MaterialFileTests {
  let scratch: Scratch

  init() throws { scratch = try Scratch() }

  private func fault(_ path: String) -> String {
    do {
      _ = try MaterialReference(path: path).read(expecting: .certificate)
      return "read"
    } catch { return error.message }
  }

  @Test func `every byte is read`() throws {
    for count in [1, 4095, 4096, 4097, 300_000] {
      let contents = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
      let file = try scratch.file("f", contents)
      #expect(try MaterialReference(path: file).read(expecting: .anchors).bytes == contents)
    }
  }

  @Test func `a missing, an empty and an unusable file say so and what was expected`() throws {
    let missing = "\(scratch.path)/none.pem"
    #expect(fault(missing).contains("\"\(missing)\": cannot be opened: No such file or directory"))
    #expect(fault(missing).contains("expected a certificate as PEM, DER or PKCS#12"))
    #expect(fault(try scratch.file("empty", [])).contains("empty"))
    #expect(fault(scratch.path).contains("Is a directory"))
  }

  @Test func `a pipe that nobody writes to is empty and does not block`() throws {
    let pipe = "\(scratch.path)/pipe"
    #expect(mkfifo(pipe, 0o600) == 0)
    #expect(fault(pipe).contains("empty"))
  }

  @Test func `what never ends is refused at the bound`() {
    #expect(fault("/dev/zero").contains("larger than 16 MiB"))
  }

  @Test func `a credential comes from the directory that systemd names, and only from there`() throws {
    let reference = try MaterialReference(parsing: "credential:key", relativeTo: "/nowhere")
    let error = #expect(throws: MaterialError.self) {
      try reference.read(expecting: .privateKey, credentialsDirectory: nil)
    }
    #expect(error?.message.contains("$CREDENTIALS_DIRECTORY is not set") == true)
    #expect(error?.hint?.contains("LoadCredential=key:PATH") == true)
    try scratch.file("key", text: "secret")
    let contents = try reference.read(expecting: .privateKey, credentialsDirectory: scratch.path)
    #expect(contents.bytes == Array("secret".utf8))
  }

  @Test func `pass phrases are lines, tried in order`() throws {
    let file = MaterialReference(path: try scratch.file("p", text: "one\r\n\n two \nthree"))
    #expect(try PasswordFile.load(file).map(\.bytes) == ["one", " two ", "three"].map { Array($0.utf8) })
  }

  @Test(arguments: ["\n\n", "a\nb\0c\n", String(repeating: "x", count: 1025)])
  func `a password file without a usable line is refused`(text: String) throws {
    let file = MaterialReference(path: try scratch.file("p", text: text))
    #expect(throws: MaterialError.self) { try PasswordFile.load(file) }
  }
}

struct CertifiedKeyTests {
  let scratch: Scratch
  let server: CertifiedKey
  let bundle: String
  let keyText: String

  init() throws {
    scratch = try Scratch()
    server = try Fixtures.shared.get().server
    bundle = ([server.certificate] + server.chain).map(\.pem).joined()
    keyText = String(decoding: try server.key.pem.bytes, as: UTF8.self)
  }

  private func load(_ certificate: String, _ key: String? = nil, _ passwords: String...) throws -> CertifiedKey {
    try CertifiedKey.load(
      certificate: MaterialReference(path: certificate), key: key.map { MaterialReference(path: $0) },
      passwords: passwords.map { SecretBytes(text: $0) }, tokens: TokenRefusals())
  }

  private func fault(_ certificate: String, _ key: String? = nil, _ passwords: String...) -> String {
    do {
      _ = try CertifiedKey.load(
        certificate: MaterialReference(path: certificate), key: key.map { MaterialReference(path: $0) },
        passwords: passwords.map { SecretBytes(text: $0) }, tokens: TokenRefusals())
      return "loaded"
    } catch { return error.description }
  }

  @Test func `a PEM bundle's first certificate is the leaf, the rest its chain as it stands`() throws {
    let pair = try load(scratch.file("c", text: bundle), scratch.file("k", text: keyText))
    #expect(pair.certificate == server.certificate)
    #expect(pair.chain == server.chain)
  }

  @Test func `the key may be in the certificate's file, before or after it`() throws {
    for text in [bundle + keyText, keyText + bundle] {
      #expect(try load(scratch.file("both", text: text)).certificate == server.certificate)
    }
  }

  @Test func `content decides, whatever the name`() throws {
    let der = try scratch.file("server.pem", server.certificate.der)
    let key = try scratch.file("key.der", text: keyText)
    #expect(try load(der, key).certificate == server.certificate)
    let password = SecretBytes(text: "x")
    let p12 = try scratch.file("store.cer", PKCS12.encode(server, name: "", password: password).bytes)
    #expect(try load(p12, nil, "x").chain == server.chain)
    #expect(try load(p12, p12, "y", "x").certificate == server.certificate)
    #expect(try load(scratch.file("c", text: bundle), p12, "x").certificate == server.certificate)
  }

  @Test func `a key of another certificate is refused, both files named`() throws {
    let other = try PrivateKey.generate()
    let certificate = try scratch.file("c", text: bundle)
    let key = try scratch.file("k", other.pem.bytes)
    let message = fault(certificate, key)
    #expect(message.contains(certificate) && message.contains(key) && message.contains("does not belong"))
  }

  @Test func `a key where the certificate should be, and the other way round, is said`() throws {
    let certificate = try scratch.file("c", text: bundle)
    let key = try scratch.file("k", text: keyText)
    #expect(fault(key, certificate).contains("the two files are swapped"))
    #expect(fault(key, key).contains("holds no certificate but PEM of private key"))
    #expect(fault(certificate, certificate).contains("holds no private key but PEM of certificate"))
    // By the word that says it there: an option, or a directive.
    #expect(fault(certificate).contains("--key FILE") && !fault(certificate).contains("ssl_"))
    let place = SourceLocation(file: "x.conf", line: 1, column: 1)
    #expect {
      try CertifiedKey.load(
        certificate: MaterialReference(path: certificate, location: place), key: nil, tokens: TokenRefusals())
    } throws: {
      "\($0)".contains("(ssl_certificate_key, proxy_ssl_certificate_key)")
    }
  }

  @Test func `neither PEM nor DER is said`() throws {
    let text = try scratch.file("c", text: "hello\n")
    #expect(fault(text).contains("neither PEM nor DER nor PKCS#12; expected a certificate"))
  }

  @Test func `a pass phrase that is missing or wrong is said`() throws {
    let p12 = try scratch.file("c", PKCS12.encode(server, name: "", password: SecretBytes(text: "x")).bytes)
    #expect(fault(p12).contains("no pass phrase was given"))
    #expect(fault(p12, nil, "y").contains("none of the given pass phrases"))
    let plain = try scratch.file("plain", text: keyText)
    let sealed = try scratch.file("sealed")
    try OpenSSLCommand.run("pkcs8", "-topk8", "-in", plain, "-passout", "pass:x", "-out", sealed)
    let certificate = try scratch.file("cert", text: bundle)
    #expect(fault(certificate, sealed).contains("\"\(sealed)\": the private key is encrypted, and no pass phrase"))
    #expect(fault(certificate, sealed, "y").contains("none of the given"))
    #expect(try load(certificate, sealed, "y", "x").certificate == server.certificate)
  }

  @Test func `CA files are bundles, DER or PKCS#12 and never empty of certificates`() throws {
    let all = [server.certificate] + server.chain
    func loadAll(_ bytes: [UInt8]) throws -> [Certificate] {
      try Certificate.loadAll(MaterialReference(path: scratch.file("ca", bytes)))
    }
    #expect(try loadAll(Array(bundle.utf8)) == all)
    #expect(try loadAll(server.certificate.der) == [server.certificate])
    #expect(try loadAll(PKCS12.encode(server, name: "", password: SecretBytes([])).bytes) == all)
    let error = #expect(throws: MaterialError.self) { try loadAll(Array(keyText.utf8)) }
    #expect(error?.message.contains("expected CA certificates") == true)
  }

  @Test func `a bundle cut short is damaged, not shorter`() throws {
    let cut = String(bundle.dropLast(40))
    let error = #expect(throws: MaterialError.self) {
      try Certificate.loadAll(MaterialReference(path: scratch.file("ca", text: cut)))
    }
    #expect(error?.message.contains("damaged PEM after 1 whole blocks") == true)
  }
}
