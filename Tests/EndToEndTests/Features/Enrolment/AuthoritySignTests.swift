import Foundation
import TestSupport
import Testing

@Suite(.staged) struct `sallyport ca sign` {
  /// Makes a request NAME.csr with a new key NAME.key.
  private func request(
    _ cast: AuthorityCast, _ name: String, key: [String] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
    subject: String? = nil, _ more: String...
  ) async throws {
    try await cast.succeed(
      "openssl",
      ["req", "-new"] + key
        + [
          "-nodes", "-keyout", "\(name).key", "-out", "\(name).csr", "-utf8", "-subj", subject ?? "/CN=\(name)",
        ] + more)
  }

  @Test(arguments: ["rsa:2048", "rsa:3072", "P-256", "P-384", "P-521", "ed25519"])
  func `certifies a key that stays with its owner`(kind: String) async throws {
    let scene = try Scene.ofTest(), cast = try await AuthorityCast(scene)
    let key =
      kind.hasPrefix("P-") ? ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:\(kind)"] : ["-newkey", kind]
    try await request(cast, "bob", key: key)
    let signed = try await cast.ca("sign", scene.path("bob.csr"), "--out", scene.path("bob.crt"))
    #expect(signed.status == 0 && signed.errors.contains("common name  bob"), "\(signed.everything)")
    try await cast.openssl("verify", "-purpose", "sslclient", "-CAfile", "ca/ca.crt", "bob.crt")
    let theirs = try await cast.openssl("pkey", "-in", "bob.key", "-pubout")
    #expect(try await cast.openssl("x509", "-in", "bob.crt", "-noout", "-pubkey") == theirs)
    #expect(try await cast.ca("list").text.contains("CN=bob"))
    #expect(try await cast.ca("revoke", "bob").status == 0)
    let refused = try await scene.run(
      "openssl", ["verify", "-crl_check", "-CRLfile", "ca/crl.pem", "-CAfile", "ca/ca.crt", "bob.crt"])
    #expect(refused.everything.contains("certificate revoked"))
  }

  @Test func `takes names, and no extension or organization, from a request`() async throws {
    let scene = try Scene.ofTest(), cast = try await AuthorityCast(scene)
    try await request(
      cast, "evil", subject: "/O=Admins/OU=root/CN=evil", "-addext", "basicConstraints=critical,CA:TRUE", "-addext",
      "keyUsage=keyCertSign", "-addext", "extendedKeyUsage=serverAuth,codeSigning", "-addext",
      "subjectAltName=DNS:evil.test,IP:10.0.0.1,URI:urn:x:y,email:e@x.test")
    let signed = try await cast.ca("sign", scene.path("evil.csr"), "--out", scene.path("evil.crt"))
    #expect(signed.status == 0 && signed.errors.contains("left out     the extension basicConstraints"))
    let text = try await cast.openssl("x509", "-in", "evil.crt", "-noout", "-text")
    #expect(text.contains("CA:FALSE") && !text.contains("CA:TRUE") && !text.contains("Certificate Sign"))
    #expect(text.contains("TLS Web Client Authentication\n") && !text.contains("Code Signing"))
    #expect(text.withPlainNames.contains("Subject: CN=evil\n"), "\(text)")
    #expect(text.contains("DNS:evil.test, IP Address:10.0.0.1, URI:urn:x:y, email:e@x.test"))
    let renamed = try await cast.ca(
      "sign", "-", "--profile", "server", "--name", "api", "--san", "DNS:api.test", "--days", "5", "--out",
      scene.path("api.crt"), input: scene.bytes("evil.csr"))
    #expect(renamed.status == 0, "\(renamed.everything)")
    try await cast.openssl(
      "verify", "-purpose", "sslserver", "-verify_hostname", "api.test", "-CAfile", "ca/ca.crt", "api.crt")
    let page = try await cast.openssl("x509", "-in", "api.crt", "-noout", "-subject", "-ext", "subjectAltName")
    #expect(page.withPlainNames.contains("CN=api") && !page.contains("evil"), "\(page)")
    #expect(try await scene.run("openssl", ["x509", "-in", "api.crt", "-checkend", "\(6 * 86_400)"]).status == 1)
    let again = try await cast.ca("sign", scene.path("evil.csr"), "--out", scene.path("api.crt"))
    #expect(again.status == 1 && again.errors.contains("is there already"))
    #expect(try await cast.ca("list").text.split(separator: "\n").count == 2)
  }

  @Test func `refuses every request that proves nothing or asks for nonsense`() async throws {
    let scene = try Scene.ofTest(), cast = try await AuthorityCast(scene)
    func refused(_ file: String, _ reason: String, _ more: String...) async throws {
      let path = scene.path(file)
      let result = try await scene.run(
        Sallyport.binary(), ["ca", "sign", scene.path("ca"), path, "--out", scene.path("never.crt")] + more)
      #expect(result.status == 1 && result.errors.contains(reason), "\(file): \(result.everything)")
    }
    try await request(cast, "good")
    try await request(cast, "weak", key: ["-newkey", "rsa:1024"])
    try await refused("weak.csr", "the request's key is RSA, 1024 bits")
    try await request(cast, "curve", key: ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp256k1"])
    try await refused("curve.csr", "the request's key is ECDSA secp256k1")
    for digest in ["md5", "sha1"] {
      try await request(cast, digest, key: ["-newkey", "rsa:2048"], "-\(digest)")
      try await refused("\(digest).csr", "whose hash is too weak")
    }
    try await cast.openssl("req", "-in", "good.csr", "-outform", "DER", "-out", "good.der")
    let der = scene.bytes("good.der")
    try scene.write("trailing.der", der + [0])
    try await refused("trailing.der", "expected one certificate signing request")
    var broken = der
    broken[broken.count - 1] ^= 1
    try scene.write("broken.der", broken)
    try await refused("broken.der", "the request's signature is not of its key")
    // The name within the signed part: "good" becomes "root".
    try scene.write("renamed.der", Array(der.map { $0 }).replacing(Array("good".utf8), with: Array("root".utf8)))
    try await refused("renamed.der", "the request's signature is not of its key")
    try scene.write("two.csr", scene.bytes("good.csr") + scene.bytes("good.csr"))
    try await refused("two.csr", "holds 2 objects")
    try scene.write("with-key.csr", scene.bytes("good.csr") + scene.bytes("good.key"))
    try await refused("with-key.csr", "holds 2 objects")
    try await refused("good.key", "holds no signing request but PEM of private key")
    try await refused("ca/ca.crt", "holds no signing request but PEM of certificate")
    try await request(cast, "many", subject: "/CN=a/CN=b")
    try await refused("many.csr", "common name is not one plain text")
    try await request(cast, "control", subject: "/CN=a\u{1B}[2J")
    try await refused("control.csr", "common name is not one plain text")
    try await request(cast, "slash", subject: "/CN=..\\/..\\/etc")
    try await refused("slash.csr", "can't be a certificate's name")
    try await request(cast, "other", "-addext", "subjectAltName=otherName:1.2.3.4;UTF8:x")
    try await refused("other.csr", "no DNS name, IP address, URI or email address")
    try await request(cast, "odd", "-addext", "subjectAltName=DNS:a b.test")
    try await refused("odd.csr", "is no name for a certificate")
    let names = (0..<10_000).map { "DNS.\($0)=a\($0).test" }.joined(separator: "\n")
    try scene.write(
      "many.cnf",
      text: "[req]\ndistinguished_name=dn\nreq_extensions=e\nprompt=no\n[dn]\nCN=x\n[e]\nsubjectAltName=@n\n[n]\n"
        + names)
    try await cast.openssl("req", "-new", "-config", "many.cnf", "-key", "good.key", "-out", "names.csr")
    try await refused("names.csr", "10000 alternative names; expected at most 100")
    try await cast.openssl("req", "-new", "-key", "ca/private/ca.key", "-out", "own.csr", "-subj", "/CN=own")
    try await refused("own.csr", "the key is the authority's own")
    #expect(try await cast.ca("list").text == "no certificate issued yet\n")
    #expect(access(scene.path("never.crt"), F_OK) != 0)
  }
}
