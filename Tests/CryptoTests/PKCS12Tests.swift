import Bytes
import Crypto
import Foundation
import TestSupport
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

  @Test func `without a MAC, it isn't the pass phrase that is told as wrong`() throws {
    let file = try export(["-nomac"], password: "right")
    do {
      // A newer OpenSSL opens it by its pass phrase.
      if let opened = try? open(file, [SecretBytes(text: "right")]) { #expect(opened.leaf == client.certificate) }
      _ = try open(file, [SecretBytes(text: "no"), password])
      Issue.record("opened")
    } catch {
      #expect("\(error)".contains("a PKCS#12 without a MAC") && "\(error)".contains("-nomac"), "\(error)")
    }
  }

  /// Where OpenSSL knows no PBMAC1 (RFC 9579), it could only say that a digest is unknown.
  @Test func `a MAC of PBMAC1 is named, with what to do`() throws {
    func der(_ tag: UInt8, _ parts: [UInt8]...) -> [UInt8] { [tag, UInt8(parts.joined().count)] + parts.joined() }
    let data: [UInt8] = der(6, [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 7, 1])
    let pbmac1: [UInt8] = der(6, [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 5, 14])
    let file = der(
      0x30, der(2, [3]), der(0x30, data, der(0xA0, der(4, der(0x30)))),
      der(
        0x30, der(0x30, der(0x30, pbmac1, der(0x30)), der(4, [UInt8](repeating: 1, count: 32))), der(4, [1, 2, 3, 4]),
        der(2, [1])))
    let path = try scratch.file("new.p12", file)
    do {
      _ = try Certificate.loadAll(MaterialReference(path: path), passwords: [password])
      Issue.record("opened")
    } catch {
      let isOld =
        "\(error)".contains("its MAC is PBMAC1, for which OpenSSL 3.4 is needed")
        && "\(error)".contains("-pbmac1_pbkdf2")
      #expect(isOld || "\(error)".contains("none of the given pass phrases opens it"), "\(error)")
    }
  }

  @Test func `other entries of a Java keystore are shown to no peer, and are anchors where anchors are wanted`() throws
  {
    let stranger = try CertificateBuilder(commonName: "Another entry", .authority(pathLength: nil)).selfSigned(
      key: .generate())
    try scratch.file("chain.pem", text: stranger.certificate.pem + root.pem + client.chain.map(\.pem).joined())
    let path = try scratch.file("store.p12", export([], password: "päss word"))
    let pair = try CertifiedKey.load(
      certificate: MaterialReference(path: path), key: nil, passwords: [password], tokens: TokenRefusals())
    #expect(pair.certificate == client.certificate && pair.chain == client.chain + [root])
    let all = try Certificate.loadAll(MaterialReference(path: path), passwords: [password])
    #expect(Set(all) == Set([client.certificate, root, stranger.certificate] + client.chain))
  }

  @Test(
    arguments: [
      ([0xFE, 0xED, 0xFE, 0xED, 0, 0, 0, 2], "a Java keystore (JKS)"),
      ([0xCE, 0xCE, 0xCE, 0xCE, 0, 0, 0, 2], "a Java keystore (JKS)"),
      ([0xFF, 0xFE, 0x2D, 0], "text in UTF-16"),
    ] as [([UInt8], String)])
  func `a file of another kind is named`(bytes: [UInt8], words: String) throws {
    let path = try scratch.file("other", bytes)
    do {
      _ = try Certificate.loadAll(MaterialReference(path: path))
      Issue.record("opened")
    } catch { #expect("\(error)".contains(words), "\(error)") }
  }

  @Test func `no block of a bundle is left out in silence`() throws {
    let (one, two) = (client.certificate.pem, root.pem)
    func load(_ text: String) throws -> Int {
      try Certificate.loadAll(MaterialReference(path: scratch.file("bundle.pem", text: text))).count
    }
    #expect(try load(one + two) == 2 && load("\u{FEFF}" + one + two) == 2)
    #expect(try load(one + "# -----BEGIN CERTIFICATE-----\n" + two) == 2, "a comment")
    #expect(try load(one.replacing("\n", with: "\r\n") + two.replacing("-----\n", with: "----- \t\n")) == 2)
    let indented = two.split(separator: "\n").map { "  \($0)\n" }.joined()
    for hidden in [
      indented, "\t" + two, "\u{FEFF}" + two,
      two.replacing("-----BEGIN CERTIFICATE-----", with: "-----BEGIN CERTIFICATE----"),
      two.replacing("-----BEGIN CERTIFICATE-----", with: "-----BEGIN CERTIFICATE----- x"),
    ] {
      do {
        _ = try load(one + hidden)
        Issue.record("loaded: \(hidden.prefix(40))")
      } catch {
        #expect(
          "\(error)".contains("line \(one.split(separator: "\n").count + 1) has a BEGIN that OpenSSL would skip"),
          "\(error)")
      }
    }
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
