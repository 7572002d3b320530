import Foundation
import TestSupport
import Testing

@Suite(.staged) struct `sallyport ca inspect` {
  private func inspect(_ scene: Scene, _ arguments: String..., input: [UInt8] = []) async throws -> ToolResult {
    try await scene.run(Sallyport.binary(), ["ca", "inspect"] + arguments, input: input)
  }

  @Test func `says what openssl says of a certificate, and the pin is that of sallyport pin`() async throws {
    let scene = try Scene.ofTest(), cast = try await AuthorityCast(scene)
    _ = try await cast.ca("issue", "--server", "localhost", "--san", "DNS:localhost,IP:::1", "--out", scene.folder)
    let serial = try await cast.openssl("x509", "-in", "localhost.crt", "-noout", "-serial").dropFirst(7).trimmed
    let fingerprint = try await cast.openssl("x509", "-in", "localhost.crt", "-noout", "-fingerprint", "-sha256")
      .trimmed.split(separator: "=")[1].replacing(":", with: "").lowercased()
    let pin = try await scene.sallyport("pin", scene.path("localhost.crt")).text.split(separator: " ")[1].dropLast(2)
    try await cast.openssl("x509", "-in", "localhost.crt", "-outform", "DER", "-out", "localhost.der")
    for file in ["localhost.crt", "localhost.der"] {
      let page = try await inspect(scene, scene.path(file))
      #expect(page.status == 0, "\(page.everything)")
      for part in [
        "a server's certificate", "CN=localhost", "DNS:localhost", "IP:::1", serial, fingerprint, String(pin),
        "ECDSA P-256", "authenticate a server", "ecdsa-with-SHA256",
      ] { #expect(page.text.contains(part), "\(part) in \(page.text)") }
      #expect(!page.text.contains("WARNING"))
    }
    let key = try await inspect(scene, scene.path("localhost.key"))
    #expect(key.text.contains("a private key\n") && key.text.contains(pin), "\(key.everything)")
    #expect(!key.everything.contains("BEGIN") && key.text.split(separator: "\n").count == 3)
  }

  @Test func `warns in words, and JSON has the same`() async throws {
    let scene = try Scene.ofTest(), cast = try await AuthorityCast(scene)
    try scene.write(
      "x.cnf", text: "[req]\ndistinguished_name=dn\nprompt=no\n[dn]\nCN=old\n[ca]\nbasicConstraints=CA:TRUE\n[plain]\n")
    func make(_ name: String, _ section: String, _ arguments: String...) async throws {
      try await cast.succeed(
        "openssl",
        ["req", "-x509", "-config", "x.cnf", "-extensions", section, "-nodes", "-keyout", "x.key", "-out", name]
          + arguments)
    }
    try await make("weak.crt", "plain", "-newkey", "rsa:1024", "-days", "1")
    try await make("ca.crt", "ca", "-newkey", "rsa:2048")
    let weak = try await inspect(scene, scene.path("weak.crt"))
    for part in ["the key is weak", "no DNS name or IP address", "it ends soon", "it names no purpose"] {
      #expect(weak.text.contains("WARNING: ") && weak.text.contains(part), "\(part) in \(weak.everything)")
    }
    try scene.write("ended.crt", text: AuthorityCast.endedRoot())
    let ended = try await inspect(scene, scene.path("ended.crt"))
    for part in ["it has ended", "3 days ago"] { #expect(ended.text.contains(part), "\(part) in \(ended.everything)") }
    let json = try await inspect(scene, "--json", scene.path("ca.crt"))
    let objects = try #require(
      JSONSerialization.jsonObject(with: Data(json.text.utf8)) as? [[String: Any]], "\(json.everything)")
    #expect(objects.count == 1 && objects[0]["kind"] as? String == "certificate")
    #expect(objects[0]["is_ca"] as? Bool == true && objects[0]["expired"] as? Bool == false)
    #expect((objects[0]["warnings"] as? [String])?.contains("a CA without key usage") == true)
  }

  @Test func `reads chains, requests, lists and PKCS#12`() async throws {
    let scene = try Scene.ofTest(), cast = try await AuthorityCast(scene)
    _ = try await cast.ca("issue", "--client", "alice", "--out", scene.folder)
    _ = try await cast.ca("revoke", "alice")
    let list = try await inspect(scene, scene.path("ca/crl.pem"))
    #expect(list.text.contains("a revocation list") && list.text.contains("revokes           1"), "\(list.everything)")
    try await cast.openssl("crl", "-in", "ca/crl.pem", "-outform", "DER", "-out", "crl.der")
    // The time since the list was made, and until the next one, changes between the two.
    func withoutAges(_ text: String) -> String { text.replacing(#/ \((in [^)]*|[^)]* ago)\)/#, with: "") }
    let fromDER = try await inspect(scene, scene.path("crl.der"))
    #expect(withoutAges(fromDER.text) == withoutAges(list.text))
    try await cast.openssl(
      "req", "-new", "-newkey", "ed25519", "-nodes", "-keyout", "r.key", "-out", "r.csr", "-subj", "/CN=bob")
    let request = try await inspect(scene, "-", input: scene.bytes("r.csr"))
    #expect(request.text.contains("key is proven     yes") && request.text.contains("Ed25519"), "\(request.everything)")
    try scene.write("pw", text: "secret\n")
    try await cast.openssl(
      "pkcs12", "-export", "-in", "alice.crt", "-inkey", "alice.key", "-certfile", "ca/ca.crt", "-out", "a.p12",
      "-passout", "file:pw")
    let sealed = try await inspect(scene, scene.path("a.p12"))
    #expect(sealed.status == 1 && sealed.errors.contains("--password-file"), "\(sealed.everything)")
    let opened = try await inspect(scene, scene.path("a.p12"), "--password-file", scene.path("pw"))
    #expect(
      opened.text.contains("1 of 3: a client's certificate") && opened.text.contains("3 of 3: a private key"),
      "\(opened.everything)")
    #expect(!opened.everything.contains("PRIVATE"))
  }

  @Test func `a terminal sees no control character of a file, and damaged files are refused`() async throws {
    let scene = try Scene.ofTest(), cast = try await AuthorityCast(scene)
    try await cast.openssl(
      "req", "-x509", "-newkey", "ed25519", "-nodes", "-keyout", "x.key", "-out", "x.crt", "-utf8", "-subj",
      "/CN=a\u{1B}[2Jb", "-addext", "subjectAltName=URI:urn:x\u{1B}]0;t\u{7}")
    let page = try await inspect(scene, scene.path("x.crt"))
    #expect(page.status == 0 && page.text.contains("common name is not one plain text"), "\(page.everything)")
    #expect(!page.text.utf8.contains { $0 < 0x20 && $0 != 0x0A })
    for folder in ["FuzzCertificateFacts", "FuzzCertificate"] {
      for input in FuzzInput.all(of: folder) {
        let bytes = folder == "FuzzCertificate" ? input.text : input.bytes
        try scene.write("odd", bytes)
        let odd = try await inspect(scene, scene.path("odd"))
        #expect(odd.status == 0 || odd.status == 1, "\(input.name): \(odd.status)")
        #expect(!odd.everything.utf8.contains { $0 < 0x20 && $0 != 0x0A }, "\(input.name): \(odd.everything)")
      }
    }
    let whole = scene.bytes("ca/ca.crt")
    for count in [0, 1, 30, whole.count / 2, whole.count - 30] {
      let cut = try await inspect(scene, "-", input: Array(whole.prefix(count)))
      #expect(cut.status == 1 && cut.text.isEmpty, "\(count): \(cut.everything)")
    }
    let endless = try await inspect(scene, "/dev/zero")
    #expect(endless.status == 1 && endless.errors.contains("larger than 16 MiB"), "\(endless.everything)")
  }
}

extension StringProtocol {
  fileprivate var trimmed: String { trimmingCharacters(in: .whitespacesAndNewlines) }
}
