import Bytes
import Crypto
import Foundation
import TestSupport
import Testing

struct CertificateTests {
  let client: CertifiedKey
  let server: CertifiedKey
  let root: CertifiedKey

  init() throws {
    let fixtures = try Fixtures.shared.get()
    (client, server, root) = (fixtures.client, fixtures.server, fixtures.root)
  }

  private func openssl(_ arguments: String..., of certificate: Certificate) throws -> String {
    let outcome = try OpenSSLCommand.attempt(
      ["x509", "-noout"] + arguments, input: Array(certificate.pem.utf8))
    try #require(outcome.status == 0, "\(outcome.errors)")
    return outcome.output.trimmingCharacters(in: .newlines)
  }

  @Test func `names are as openssl prints them in RFC 2253`() throws {
    for certificate in [client.certificate, server.certificate, root.certificate] {
      #expect(
        try openssl("-subject", "-nameopt", "RFC2253", of: certificate) == "subject=\(certificate.subject.rfc2253)")
      #expect(try openssl("-issuer", "-nameopt", "RFC2253", of: certificate) == "issuer=\(certificate.issuer.rfc2253)")
    }
    #expect(
      client.certificate.subject.rfc2253
        == #"CN=\C3\86r\C3\B8sk\C3\B8bing\, \"Bob\",OU=Two,OU=One,O=Example \+ Sons,C=SE"#)
  }

  @Test func `names have nginx's legacy form`() throws {
    #expect(
      client.certificate.subject.legacy
        == #"/C=SE/O=Example \+ Sons/OU=One/OU=Two/CN=\xC3\x86r\xC3\xB8sk\xC3\xB8bing, "Bob""#)
    #expect(
      try openssl("-subject", "-nameopt", "compat", of: server.certificate)
        == "subject=\(server.certificate.subject.legacy)")
  }

  @Test func `attributes are UTF-8 in the order of the certificate`() {
    let subject = client.certificate.subject
    #expect(subject.commonName == .one(Array("Ærøskøbing, \"Bob\"".utf8)))
    #expect(subject.organizations == [Array("Example + Sons".utf8)])
    #expect(subject.organizationalUnits == [Array("One".utf8), Array("Two".utf8)])
    #expect(server.certificate.subject.organizations.isEmpty)
  }

  @Test func `serial and fingerprints are openssl's`() throws {
    let certificate = client.certificate
    #expect(try openssl("-serial", of: certificate) == "serial=\(certificate.serial)")
    let sha1 = try openssl("-fingerprint", "-sha1", of: certificate).split(separator: "=")[1]
    #expect(try Hex.encode(Hex.decode(String(sha1))) == certificate.sha1Fingerprint)
    let sha256 = try openssl("-fingerprint", "-sha256", of: certificate).split(separator: "=")[1]
    #expect(try Hex.decode(String(sha256)) == certificate.sha256)
  }

  @Test func `dates are openssl's, as text and in seconds`() throws {
    let certificate = client.certificate
    #expect(
      try openssl("-dates", of: certificate)
        == "notBefore=\(certificate.notBeforeText)\nnotAfter=\(certificate.notAfterText)")
    let begin = try #require(certificate.notBefore.seconds), end = try #require(certificate.notAfter.seconds)
    #expect(end - begin == 365 * 86_400 + 3600)
    #expect(abs(begin + 3600 - Int64(Date().timeIntervalSince1970)) < 600)
  }

  @Test func `a fixed date is printed as nginx prints it, after 2049 too`() throws {
    var builder = CertificateBuilder(commonName: "dated", .leaf([]))
    builder.notBefore = 1_767_225_600
    builder.notAfter = 4_102_444_800
    let certificate = try builder.selfSigned(key: .generate()).certificate
    #expect(certificate.notBeforeText == "Jan  1 00:00:00 2026 GMT")
    #expect(certificate.notAfterText == "Jan  1 00:00:00 2100 GMT")
    #expect(certificate.notBefore == .at(1_767_225_600) && certificate.notAfter == .at(4_102_444_800))
  }

  @Test func `the key hash is that of openssl's one-liner`() throws {
    let scratch = try Scratch()
    for certificate in [client.certificate, server.certificate] {
      let file = try scratch.file("c.pem", text: certificate.pem)
      let key = try OpenSSLCommand.run("x509", "-in", file, "-noout", "-pubkey")
      let spki = try scratch.file("spki.der")
      try OpenSSLCommand.run("pkey", "-pubin", "-outform", "der", "-out", spki, input: Array(key.utf8))
      let digest = try scratch.file("digest")
      try OpenSSLCommand.run("dgst", "-sha256", "-binary", "-out", digest, spki)
      #expect(try scratch.bytes("digest") == certificate.spkiSHA256)
      #expect(try scratch.bytes("spki.der") == certificate.publicKey.subjectPublicKeyInfo)
      #expect(try OpenSSLCommand.run("enc", "-base64", "-A", "-in", digest) == Base64.encode(certificate.spkiSHA256))
    }
  }

  @Test func `PEM and DER are openssl's byte for byte and read back the same`() throws {
    let certificate = client.certificate
    let scratch = try Scratch()
    let der = try scratch.file("c.der", certificate.der)
    #expect(try OpenSSLCommand.run("x509", "-inform", "der", "-in", der) + "\n" == certificate.pem)
    #expect(try Certificate(der: certificate.der) == certificate)
    #expect(try Certificate.first(inPEM: certificate.pem) == certificate)
    #expect(certificate != server.certificate)
  }

  @Test func `a bundle is read whole, its other blocks passed over`() throws {
    let key = String(decoding: try client.key.pem.bytes, as: UTF8.self)
    let text = "comment\n" + client.certificate.pem + key + server.certificate.pem + "trailer\n"
    #expect(try Certificate.all(inPEM: text) == [client.certificate, server.certificate])
    #expect(try Certificate.all(inPEM: "nothing here") == [])
    #expect(throws: CryptoError.self) { try Certificate.first(inPEM: key) }
  }

  @Test func `a trusted certificate is read as openssl writes it`() throws {
    let scratch = try Scratch()
    let file = try scratch.file("c.pem", text: root.certificate.pem)
    let trusted = try OpenSSLCommand.run("x509", "-in", file, "-trustout", "-addtrust", "clientAuth")
    #expect(trusted.contains("BEGIN TRUSTED CERTIFICATE"))
    #expect(try Certificate.all(inPEM: trusted) == [root.certificate])
  }

  @Test func `a byte after a DER certificate makes it none`() {
    #expect(throws: CryptoError.self) { try Certificate(der: client.certificate.der + [0]) }
    #expect(throws: CryptoError.self) { try Certificate(der: []) }
  }

  @Test func `alternative names are read by kind`() throws {
    let names = client.certificate.subjectAltNames
    #expect(names.emails.map(\.description) == ["bob@example.org"])
    #expect(names.uris.map(\.description) == ["spiffe://prod/ns/a/sa/b"])
    #expect(names.dns.map(\.bytes) == [Array("bob.example.org".utf8)])
    #expect(names.ips.isEmpty && !names.isMalformed && names.all.allSatisfy(\.isWellFormed))
    let addresses = server.certificate.subjectAltNames.ips
    #expect(addresses.map(\.description) == ["127.0.0.1", "::1"])
    #expect(addresses.map(\.bytes.count) == [4, 16])
    #expect(root.certificate.subjectAltNames.all.isEmpty && !root.certificate.subjectAltNames.isMalformed)
  }

  @Test func `a NUL in an alternative name is kept and flagged, never cut off`() throws {
    let evil = Array("good.example\0.evil.example".utf8)
    let certificate = try CertificateBuilder(
      commonName: "x", .leaf([]),
      names: [.raw(.dns, evil), .raw(.uri, [0x61, 0x0A]), .raw(.ip, [1, 2, 3]), .dns("fine.example")]
    ).selfSigned(key: .generate()).certificate
    let names = certificate.subjectAltNames.all
    #expect(names.map(\.isWellFormed) == [false, false, false, true])
    #expect(names[0].bytes == evil)
    #expect(names[0].description == #"good.example\x00.evil.example"#)
    #expect(names[1].description == #"a\x0A"#)
  }

  @Test func `an unreadable subjectAltName is malformed, not absent`() throws {
    // The extension's outer SEQUENCE (30 xx, in an OCTET STRING after the OID 2.5.29.17) becomes a SET.
    var der = server.certificate.der
    let identifier: [UInt8] = [0x06, 0x03, 0x55, 0x1D, 0x11]
    let place = try #require(
      (0..<der.count - 5).first { Array(der[$0..<$0 + 5]) == identifier })
    #expect(der[place + 5] == 0x04 && der[place + 7] == 0x30)
    der[place + 7] = 0x31
    let names = try Certificate(der: der).subjectAltNames
    #expect(names.isMalformed && names.all.isEmpty)
  }

  @Test func `self-issued is told from issued`() {
    #expect(root.certificate.isSelfIssued)
    #expect(!client.certificate.isSelfIssued)
  }

  @Test func `a reference of one's own outlives the first owner`() throws {
    var first: Certificate? = try Certificate(der: client.certificate.der)
    let second = Certificate(retaining: try #require(first).handle)
    first = nil
    #expect(second == client.certificate)
  }
}
