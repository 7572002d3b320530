import Bytes
import Crypto
import Foundation
import Observability
import Testing

struct PinTests {
  let scratch: Scratch
  let server: CertifiedKey
  let client: CertifiedKey
  let digest: [UInt8]

  init() throws {
    scratch = try Scratch()
    let fixtures = try Fixtures.shared.get()
    (server, client) = (fixtures.server, fixtures.client)
    digest = server.certificate.spkiSHA256
  }

  private func parse(_ text: String, _ passwords: String...) throws -> [Pin] {
    try Pin.parse(text, relativeTo: scratch.path, passwords: passwords.map { SecretBytes(text: $0) })
  }

  private func fault(_ text: String) -> String {
    do {
      _ = try Pin.parse(text, relativeTo: scratch.path, location: SourceLocation(file: "f", line: 1, column: 2))
      return "parsed"
    } catch { return error.description }
  }

  @Test func `every spelling of a key's hash is the same pin`() throws {
    let base64 = Base64.encode(digest)
    let hex = Hex.encode(digest)
    let colons = digest.map { Hex.encode([$0], .upper) }.joined(separator: ":")
    for text in ["sha256//\(base64)", "sha256/\(base64)", "sha256:\(base64)", "spki:\(hex)", "spki:\(colons)"] {
      let pins = try parse(text)
      #expect(pins == [Pin(.publicKey(digest))])
      #expect(pins.map(\.description) == ["sha256//\(base64)"])
      let set = try PinSet(pins, mode: .publicKey)
      #expect(set.matches(leaf: server.certificate))
      #expect(!set.matches(leaf: client.certificate))
      // A pin of the leaf says nothing of the chain.
      #expect(!set.matches(verified: server.certificate))
    }
  }

  @Test func `a hash whose Base64 begins with a slash is the same pin in every spelling`() throws {
    let digest = [0xFF] + [UInt8](repeating: 1, count: 31), base64 = Base64.encode(digest)
    #expect(base64.hasPrefix("/"))
    for prefix in ["sha256//", "sha256/", "sha256:"] {
      #expect(try parse(prefix + base64) == [Pin(.publicKey(digest))])
    }
  }

  @Test func `a hash without its kind is no missing file`() throws {
    let colons = digest.map { Hex.encode([$0], .upper) }.joined(separator: ":"), hex = Hex.encode(digest)
    for text in [hex, hex.uppercased(), colons, "sha256 Fingerprint=\(colons)", "SHA256 Fingerprint=\(colons)"] {
      let told = fault(text)
      #expect(
        told.contains("spki:\(hex)") && told.contains("cert:\(hex)") && told.contains("a hash needs its kind"),
        "\(told)")
    }
    #expect(fault(Base64.encode(digest)).contains("sha256//\(Base64.encode(digest)) for a key's"))
    #expect(fault(String(hex.prefix(40))).contains("a SHA-1 is too weak"))
    #expect(fault("missing.pem").contains("No such file"))
    // A file of such a name is one.
    try scratch.file(hex, text: server.certificate.pem)
    #expect(try parse(hex).map(\.description) == ["sha256//\(Base64.encode(digest))"])
  }

  @Test func `a certificate's hash pins no key, but the certificate`() throws {
    let pins = try parse("cert:\(Hex.encode(server.certificate.sha256))")
    #expect(pins == [Pin(.certificateDigest(server.certificate.sha256))])
    #expect(throws: PinSet.ModeError.unfit(pins[0])) { try PinSet(pins, mode: .publicKey) }
    let set = try PinSet(pins, mode: .certificate)
    #expect(set.matches(leaf: server.certificate) && set.matches(verified: server.certificate))
    #expect(!set.matches(leaf: client.certificate) && set.certificates.isEmpty)
    // The key's hash in the certificate's place is another number.
    let mistaken = try PinSet(parse("cert:\(Hex.encode(digest))"), mode: .certificate)
    #expect(!mistaken.matches(leaf: server.certificate))
    #expect(pins.map(\.description) == ["cert:\(Hex.encode(server.certificate.sha256))"])
  }

  @Test func `there is no empty set, and none with a key's hash for certificates`() throws {
    #expect(throws: PinSet.ModeError.empty) { try PinSet([], mode: .publicKey) }
    let key = Pin(.publicKey(digest))
    #expect(throws: PinSet.ModeError.unfit(key)) {
      try PinSet([Pin(.certificate(server.certificate)), key], mode: .certificate)
    }
  }

  @Test func `a certificate file is its key, or itself and an anchor, as the mode has it`() throws {
    let renewed = try CertificateBuilder(commonName: "localhost", .leaf([.serverAuth])).selfSigned(key: server.key)
    let pins = [Pin(.certificate(server.certificate))]
    let keys = try PinSet(pins, mode: .publicKey)
    #expect(keys.matches(leaf: renewed.certificate) && keys.certificates.isEmpty)
    let certificates = try PinSet(pins, mode: .certificate)
    #expect(!certificates.matches(leaf: renewed.certificate) && certificates.certificates == [server.certificate])
  }

  @Test func `only a chain pin matches another key of the verified chain`() throws {
    let set = try PinSet([Pin(.publicKey(digest), scope: .chain)], mode: .publicKey)
    #expect(set.matches(leaf: server.certificate) && set.matches(verified: server.certificate))
    #expect(!set.matches(verified: client.certificate))
  }

  @Test func `a chain pin says so`() throws {
    let pins = try Pin.parse("sha256//\(Base64.encode(digest))", scope: .chain, relativeTo: "")
    #expect(pins.first?.scope == .chain)
    #expect(pins.first?.description.hasPrefix("chain sha256//") == true)
  }

  @Test func `a file pins every certificate or public key in it, a PKCS#12 its leaf`() throws {
    try scratch.file("c.pem", text: server.certificate.pem)
    try scratch.file("c.der", server.certificate.der)
    try scratch.file("k.der", server.certificate.publicKey.subjectPublicKeyInfo)
    let publicKey = try OpenSSLCommand.run("x509", "-in", scratch.path + "/c.pem", "-noout", "-pubkey")
    try scratch.file("k.pem", text: publicKey)
    try scratch.file("s.p12", PKCS12.encode(server, name: "", password: SecretBytes(text: "x")).bytes)
    for name in ["c.pem", "c.der", "k.pem", "k.der", "s.p12", scratch.path + "/c.pem"] {
      let pins = try parse(name, "x")
      #expect(pins.count == 1)
      #expect(pins.first?.publicKeyDigest == digest)
    }
    try scratch.file("several.pem", text: client.certificate.pem + publicKey + "\n" + server.certificate.pem)
    #expect(
      try parse("several.pem") == [
        Pin(.certificate(client.certificate)), Pin(.certificate(server.certificate)), Pin(.publicKey(digest)),
      ])
  }

  @Test func `a directory pins every certificate in it, and may hold nothing else`() throws {
    try scratch.file("b.pem", text: server.certificate.pem + client.certificate.pem)
    try scratch.file("a.der", try Fixtures.shared.get().root.certificate.der)
    try scratch.file(".hidden", text: "no certificate")
    let pins = try parse(".")
    #expect(
      pins.map(\.target) == [
        .certificate(try Fixtures.shared.get().root.certificate), .certificate(server.certificate),
        .certificate(client.certificate),
      ])
    let intruder = "\(scratch.path)/d"
    let publicKey = try OpenSSLCommand.run("x509", "-in", scratch.path + "/b.pem", "-noout", "-pubkey")
    try scratch.file("d", text: publicKey)
    #expect(fault(".").contains("/d\": holds a public key; of a directory every file must be a certificate"))
    try scratch.file("d", text: "read me")
    #expect(fault(".").contains("/d\": neither PEM nor DER"))
    try FileManager.default.removeItem(atPath: intruder)
    try FileManager.default.createSymbolicLink(atPath: intruder, withDestinationPath: "nowhere")
    #expect(fault(".").contains("/d\": cannot be opened"))
    try FileManager.default.removeItem(atPath: intruder)
    try FileManager.default.createDirectory(atPath: intruder, withIntermediateDirectories: false)
    #expect(fault(".").contains("/d\": cannot be read: Is a directory"))
  }

  @Test func `an empty directory is no pin`() throws {
    #expect(fault(".").contains("empty directory"))
  }

  @Test func `a private key is no pin, but its public key can be printed as one`() throws {
    let file = try scratch.file("key.pem", server.key.pem.bytes)
    #expect(fault("key.pem").contains("holds no certificate and no public key but PEM of private key"))
    #expect(try Pin.publicKey(in: MaterialReference(path: file)).description == "sha256//\(Base64.encode(digest))")
  }

  @Test func `what is printed of a file is openssl's hash`() throws {
    let file = try scratch.file("c.pem", text: server.certificate.pem)
    let key = try scratch.file("k.pem", text: try OpenSSLCommand.run("x509", "-in", file, "-noout", "-pubkey"))
    let hash = try scratch.file("hash")
    let spki = try scratch.file("spki")
    try OpenSSLCommand.run("pkey", "-pubin", "-in", key, "-outform", "der", "-out", spki)
    try OpenSSLCommand.run("dgst", "-sha256", "-binary", "-out", hash, spki)
    let expected = "sha256//" + (try OpenSSLCommand.run("enc", "-base64", "-A", "-in", hash))
    #expect(try Pin.publicKey(in: MaterialReference(path: file)).description == expected)
    #expect(try Pin.publicKey(in: MaterialReference(path: key)).description == expected)
  }

  @Test(arguments: [
    ("sha256//AAAA", "3 bytes, but a SHA-256 has 32 (44 characters of base64)"),
    ("sha256//", "0 bytes"),
    ("sha256//47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU=", "'-' at character 13"),
    ("sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU", "multiple of 4"),
    ("sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFV=", "not canonical"),
    ("sha256//2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "looks like a SHA-1"),
    ("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "write spki:e3b0"),
    ("spki:e3b0", "4 hexadecimal digits, but a SHA-256 has 64"),
    ("cert:da39a3ee5e6b4b0d3255bfef95601890afd80709", "looks like a SHA-1"),
    ("spki:xyz", "'x' at character 1"), ("cert:", "0 hexadecimal digits"),
    ("sha1/2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "too weak"),
    ("no-such-file.pem", "No such file or directory"),
  ])
  func `a malformed pin says what is wrong, where, and how to get a right one`(text: String, expected: String) {
    let message = fault(text)
    #expect(message.hasPrefix("f:1:2: error: "))
    #expect(message.contains(expected))
    #expect(message.contains(text))
    #expect(message.contains("sallyport pin FILE") || text.hasSuffix(".pem"))
  }
}

struct TrustAnchorsTests {
  @Test func `the digest depends on the anchors alone, not on their order or repetition`() throws {
    let fixtures = try Fixtures.shared.get()
    let (root, other) = (fixtures.root.certificate, fixtures.intermediate.certificate)
    let digest = try TrustAnchors(.certificates([root, other])).digest
    #expect(digest.count == 32)
    #expect(try TrustAnchors(.certificates([other, root, other])).digest == digest)
    #expect(try TrustAnchors(.certificates([root])).digest != digest)
    #expect(try TrustAnchors(.certificatesAndSystem([root, other])).digest != digest)
    #expect(try TrustAnchors(.certificates([])).digest != TrustAnchors(.system).digest)
  }

  @Test func `the names for clients are the subjects, each once`() throws {
    let root = try Fixtures.shared.get().root.certificate
    let anchors = try TrustAnchors(.certificates([root, root]))
    #expect(anchors.subjects.map(\.rfc2253) == ["CN=Test Root"])
    #expect(anchors.certificates == [root])
  }

  @Test func `the system's anchors load, once`() throws {
    let system = try TrustAnchors.system.get()
    #expect(try TrustAnchors.system.get() === system)
    #expect(system.certificates.isEmpty)
  }
}
