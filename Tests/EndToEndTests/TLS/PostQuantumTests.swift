import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

/// Whether the system's OpenSSL has ML-DSA and SLH-DSA: 3.5 and later.
private let hasPostQuantumSignatures = PostQuantumSignature.allCases.allSatisfy(\.isAvailable)

@discardableResult
private func ca(_ scene: Scene, _ arguments: String...) async throws -> String {
  let result = try await scene.run(Sallyport.binary(), ["ca"] + arguments)
  guard result.status == 0 else { throw ToolFailed(description: "\(arguments): \(result.everything)") }
  return result.text
}

@Suite(.staged, .enabled(if: hasPostQuantumSignatures, "ML-DSA and SLH-DSA need OpenSSL 3.5"))
struct `ML-DSA and SLH-DSA` {
  @Test(arguments: ["ml-dsa-44", "ml-dsa-65", "ml-dsa-87"])
  func `an authority with such a key serves, verifies, revokes and pins`(kind: String) async throws {
    let scene = try Scene.ofTest()
    let algorithm = kind.uppercased()
    try await ca(scene, "init", scene.path("ca"), "--key", kind)
    for (role, name) in [("--server", "localhost"), ("--client", "alice"), ("--client", "mallory")] {
      try await ca(scene, "issue", scene.path("ca"), role, name, "--key", kind, "--out", scene.folder)
    }
    try await ca(scene, "revoke", scene.path("ca"), "mallory")
    try await scene.succeed(
      "openssl", "verify", "-x509_strict", "-purpose", "sslclient", "-crl_check", "-CRLfile", "ca/crl.pem", "-CAfile",
      "ca/ca.crt", "alice.crt")
    let shown = try await ca(scene, "inspect", scene.path("alice.crt"))
    #expect(shown.contains("\(algorithm)\n") && !shown.contains("WARNING"), "\(shown)")

    let pin = try await scene.sallyport("pin", scene.path("localhost.crt")).text
    let (port, inner) = (try scene.port(), try scene.port())
    let pair = "ssl_certificate localhost.crt; ssl_certificate_key localhost.key;"
    let trust =
      "proxy_ssl_verify on; proxy_ssl_name localhost; proxy_ssl_trusted_certificate ca/ca.crt; proxy_ssl_session_reuse off;"
    _ = try await Sallyport.serve(
      scene,
      """
      server {
        listen 127.0.0.1:\(inner) ssl; \(pair) ssl_client_certificate ca/ca.crt; ssl_crl ca/crl.pem; ssl_verify_client on;
        return 200 "$ssl_sigalg $ssl_client_sigalg $ssl_client_s_dn";
      }
      server {
        listen 127.0.0.1:\(port) ssl; \(pair) ssl_client_certificate ca/ca.crt; ssl_crl ca/crl.pem; ssl_verify_client on;
        location / {
          proxy_pass https://127.0.0.1:\(inner); \(trust) \(pin)
          proxy_ssl_certificate alice.crt; proxy_ssl_certificate_key alice.key;
        }
        location /wrong { proxy_pass https://127.0.0.1:\(inner); \(trust) proxy_ssl_pin alice.crt; }
      }
      """)
    func ask(_ client: String, _ path: String) async throws -> (status: Int, text: String) {
      let answer = try await scene.curl([
        "--cacert", scene.path("ca/ca.crt"), "--cert", scene.path("\(client).crt"), "--key",
        scene.path("\(client).key"),
        "--connect-to", "::127.0.0.1:\(port)", "https://localhost\(path)",
      ])
      return (answer.status, answer.text)
    }
    let scheme = algorithm.lowercased().filter { $0 != "-" }
    #expect(try await ask("alice", "/") == (200, "\(scheme) \(scheme) CN=alice"))
    #expect(try await ask("alice", "/wrong").status == 502)
    #expect(try await ask("mallory", "/").status == 400)

    let probe = try await scene.sallyport(
      "probe", "https://127.0.0.1:\(port)/", "--name", "localhost", "--cafile", scene.path("ca/ca.crt"), "--cert",
      scene.path("alice.crt"), "--key", scene.path("alice.key"))
    #expect(probe.text.contains(algorithm), "\(probe.everything)")
  }

  @Test func `a server with keys of both kinds shows each client what it can verify`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    try await ca(scene, "init", scene.path("ca"), "--key", "ml-dsa-65")
    for (role, name) in [("--server", "localhost"), ("--client", "bob")] {
      try await ca(scene, "issue", scene.path("ca"), role, name, "--key", "ml-dsa-65", "--out", scene.folder)
    }
    try scene.write("both.pem", text: scene.text("ca.pem") + scene.text("ca/ca.crt"))
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server {
        listen 127.0.0.1:\(port) ssl; server_name localhost; ssl_verify_client on; ssl_client_certificate both.pem;
        ssl_certificate server.pem; ssl_certificate_key server.key;
        ssl_certificate localhost.crt; ssl_certificate_key localhost.key;
        return 200 "$ssl_sigalg $ssl_client_sigalg";
      }
      """)
    let bob = ["--cert", scene.path("bob.crt"), "--key", scene.path("bob.key")]
    let to = ["--cacert", scene.path("both.pem"), "--connect-to", "::127.0.0.1:\(port)", "https://localhost/"]
    #expect(try await scene.curl(bob + to).text == "mldsa65 mldsa65")
    #expect(try await scene.curl(cast.alice.curl + to).text == "mldsa65 ecdsa_secp256r1_sha256")
    let old = try await scene.run(
      "openssl",
      ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", "localhost", "-sigalgs", "ECDSA+SHA256"]
        + cast.alice.openssl)
    #expect(old.text.contains("Peer signature type: ecdsa_secp256r1_sha256"), "\(old.text)")
  }

  @Test func `an authority of SLH-DSA signs for other keys; one for TLS is refused with the reason`() async throws {
    let scene = try Scene.ofTest()
    try await ca(scene, "init", scene.path("root"), "--root", "--key", "slh-dsa-sha2-128s", "--name", "Root")
    try await ca(scene, "init", scene.path("ca"), "--intermediate-of", scene.path("root"), "--key", "ml-dsa-65")
    try await ca(scene, "issue", scene.path("ca"), "--server", "localhost", "--out", scene.folder)
    let refused = try await scene.sallyport(
      "ca", "issue", scene.path("ca"), "--client", "bob", "--key", "slh-dsa-sha2-128s", "--out", scene.folder)
    #expect(refused.status != 0 && refused.errors.contains("only for the key of a CA"), "\(refused.everything)")

    // Who has such a certificate from elsewhere.
    try await scene.succeed(
      "bash", "-c",
      """
      openssl req -x509 -newkey slh-dsa-sha2-128f -nodes -keyout slh.key -out slh.crt -subj /CN=localhost -days 9
      openssl req -new -newkey slh-dsa-sha2-128f -nodes -keyout other.key -out other.csr -subj /CN=bob
      """)
    let signing = try await scene.sallyport("ca", "sign", scene.path("ca"), scene.path("other.csr"), "--yes")
    #expect(signing.status != 0 && signing.errors.contains("the request's key is SLH-DSA-SHA2-128f"))
    let port = try scene.port()
    let check = try scene.check(
      configuration("server { listen 127.0.0.1:\(port) ssl; ssl_certificate slh.crt; ssl_certificate_key slh.key; }"))
    #expect(!check.isValid && check.contains("TLS has no signatures of SLH-DSA"), "\(check)")

    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; ssl_certificate localhost.crt; ssl_certificate_key localhost.key;
        return 200 served; }
      """)
    let answer = try await scene.curl([
      "--cacert", scene.path("ca/root.crt"), "--connect-to", "::127.0.0.1:\(port)", "https://localhost/",
    ])
    #expect(answer.text == "served", "\(answer.errors)")
  }

  @Test func `a request with such a key is signed, and a renewal with a new key keeps its kind`() async throws {
    let scene = try Scene.ofTest()
    try await ca(scene, "init", scene.path("ca"), "--key", "ml-dsa-44")
    try await scene.succeed(
      "openssl", "req", "-new", "-newkey", "ML-DSA-65", "-nodes", "-keyout", "bob.key", "-out", "bob.csr", "-subj",
      "/CN=bob")
    try await ca(
      scene, "sign", scene.path("ca"), scene.path("bob.csr"), "--yes", "--out", scene.path("bob.crt"))
    try await ca(scene, "renew", scene.path("ca"), "bob", "--new-key", "--out", scene.folder)
    #expect(try await ca(scene, "inspect", scene.path("bob.key")).contains("ML-DSA-65"))
    try await scene.succeed("openssl", "verify", "-x509_strict", "-CAfile", "ca/ca.crt", "bob.crt")
    // As the folder's own openssl.cnf has it.
    try await scene.succeed(
      "bash", "-c",
      """
      cd ca && openssl ca -config openssl.cnf -gencrl -out crl.pem
      openssl req -new -newkey ML-DSA-44 -nodes -keyout ../eve.key -out ../eve.csr -subj /CN=eve
      openssl ca -config openssl.cnf -batch -in ../eve.csr -notext -out ../eve.crt
      openssl verify -crl_check -CRLfile crl.pem -CAfile ca.crt ../eve.crt
      """)
    #expect(try await ca(scene, "list", scene.path("ca")).contains("eve"))
  }

  @Test func `a responder whose answers have such a signature is believed`() async throws {
    let scene = try Scene.ofTest()
    let authority = try CertificateBuilder(commonName: "CA", .authority(pathLength: nil)).selfSigned(
      key: .generate(.postQuantum(.mlDSA65)))
    func leaf(_ name: String) throws -> CertifiedKey {
      try CertificateBuilder(commonName: name, .leaf([.clientAuth, .serverAuth]), names: [.dns("localhost")]).signed(
        by: authority, key: .generate(.postQuantum(.mlDSA44)))
    }
    let (good, bad) = (try leaf("good"), try leaf("bad"))
    _ = try scene.write("ca.pem", text: authority.certificate.pem)
    for (name, pair) in [("good", good), ("bad", bad)] { _ = try scene.identity(name, pair) }
    let responder = try await OCSPResponder(scene, authority, [(good.certificate, .good), (bad.certificate, .revoked)])
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      server {
        listen 127.0.0.1:\(port) ssl; ssl_certificate good.pem; ssl_certificate_key good.key;
        ssl_stapling on; ssl_stapling_responder \(responder.url); ssl_trusted_certificate ca.pem;
        ssl_client_certificate ca.pem; ssl_verify_client on; ssl_ocsp leaf; ssl_ocsp_responder \(responder.url);
        return 200 $ssl_client_s_dn;
      }
      """)
    try await daemon.logged("OCSP for", "stapled")
    for (name, status) in [("good", 200), ("bad", 400)] {
      let answer = try await scene.curl([
        "--cacert", scene.path("ca.pem"), "--connect-to", "::127.0.0.1:\(port)", "--cert",
        scene.path("\(name).pem"), "--key", scene.path("\(name).key"), "https://localhost/",
      ])
      #expect(answer.status == status, "\(name): \(answer.text) \(answer.errors)")
    }
    let stapled = try await scene.run(
      "openssl", ["s_client", "-status", "-connect", "127.0.0.1:\(port)", "-servername", "localhost"])
    #expect(stapled.text.contains("Cert Status: good"), "\(stapled.everything)")
  }
}

/// What OpenSSL 3.0 can't read has a sentence that says so. The files are made octet by octet, because it can't make them.
@Suite(.staged, .disabled(if: hasPostQuantumSignatures, "this OpenSSL has ML-DSA and SLH-DSA"))
struct `ML-DSA and SLH-DSA, which this OpenSSL lacks` {
  private static let sentence = "OpenSSL 3.5 and later have it"

  private static func der(_ tag: UInt8, _ contents: [UInt8]) -> [UInt8] {
    let count = contents.count
    let length: [UInt8] =
      count < 128
      ? [UInt8(truncatingIfNeeded: count)]
      : [0x82, UInt8(truncatingIfNeeded: count >> 8), UInt8(truncatingIfNeeded: count)]
    return [tag] + length + contents
  }

  /// id-ml-dsa-65, 2.16.840.1.101.3.4.3.18, without parameters.
  private static let algorithm = der(0x30, der(0x06, [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, 0x12]))
  private static let privateKey = der(
    0x30, der(0x02, [0]) + algorithm + der(0x04, der(0x80, [UInt8](repeating: 7, count: 32))))
  private static let publicKey = der(0x30, algorithm + der(0x03, [0] + [UInt8](repeating: 7, count: 1952)))

  /// A CA's certificate, with a public key and a signature that nobody checks.
  private static func certificate() throws -> [UInt8] {
    let name = der(0x30, der(0x31, der(0x30, der(0x06, [0x55, 0x04, 0x03]) + der(0x0C, Array("PQ CA".utf8)))))
    let times = der(0x30, der(0x17, Array("250101000000Z".utf8)) + der(0x17, Array("450101000000Z".utf8)))
    let basic = der(
      0x30,
      der(0x06, [0x55, 0x1D, 0x13]) + der(0x01, [0xFF]) + der(0x04, der(0x30, der(0x01, [0xFF]))))
    let body = der(
      0x30,
      der(0xA0, der(0x02, [2])) + der(0x02, [5]) + algorithm + name + times + name + publicKey
        + der(0xA3, der(0x30, basic)))
    return der(0x30, body + algorithm + der(0x03, [0] + [UInt8](repeating: 9, count: 3309)))
  }

  @Test func `no key is made, and none of a file is used, without the reason`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let made = try await scene.sallyport("ca", "init", scene.path("ca"), "--key", "ml-dsa-65")
    #expect(made.status == 1 && made.errors.contains("has no ML-DSA-65") && made.errors.contains(Self.sentence))

    _ = try scene.write("pq.key.der", Self.privateKey)
    _ = try scene.write(
      "pq.key",
      text: "-----BEGIN PRIVATE KEY-----\n\(Data(Self.privateKey).base64EncodedString())\n-----END PRIVATE KEY-----\n")
    _ = try scene.write("pq.crt", Self.certificate())
    for key in ["pq.key", "pq.key.der"] {
      let check = try scene.check(
        configuration("server { listen 127.0.0.1:1 ssl; ssl_certificate pq.crt; ssl_certificate_key \(key); }"))
      #expect(
        !check.isValid && check.contains("a key of ML-DSA-65")
          && check.contains(Self.sentence),
        "\(check)")
    }
    _ = try scene.write("pq.pub", Self.publicKey)
    let pin = try await scene.sallyport("pin", scene.path("pq.pub"))
    #expect(pin.status != 0 && pin.errors.contains(Self.sentence), "\(pin.everything)")
  }

  @Test func `a CA's certificate is inspected and told of, and its pin is known`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    _ = try scene.write("pq.crt", Self.certificate())
    let shown = try await scene.sallyport("ca", "inspect", scene.path("pq.crt"))
    #expect(shown.text.contains("ML-DSA-65") && shown.text.contains(Self.sentence), "\(shown.everything)")
    let pin = try await scene.sallyport("pin", scene.path("pq.crt"))
    #expect(pin.status == 0 && pin.text.contains("sha256"), "\(pin.everything)")
    let check = try scene.check(
      configuration(
        """
        server { listen 127.0.0.1:1 ssl; ssl_certificate server.pem; ssl_certificate_key server.key;
          ssl_client_certificate pq.crt; ssl_verify_client on; }
        """))
    #expect(check.contains("no signature of it can be verified"), "\(check)")
  }
}
