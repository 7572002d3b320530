import Crypto
import Foundation
import TestSupport
import Testing

/// TLS contexts have a library context of their own: docs/decisions/0029. Whatever OpenSSL's default context can negotiate
/// is negotiated by it as well. `ssl_conf_command` makes a server block use the default context, to compare with.
@Suite(.staged) struct `The algorithms of handshakes` {
  private static let keys =
    [
      "EC -pkeyopt ec_paramgen_curve:P-256", "EC -pkeyopt ec_paramgen_curve:P-384",
      "EC -pkeyopt ec_paramgen_curve:P-521", "RSA -pkeyopt rsa_keygen_bits:2048",
      "RSA-PSS -pkeyopt rsa_keygen_bits:2048", "ED25519", "ED448",
    ] + PostQuantumSignature.allCases.filter { $0.isOfTLS && $0.isAvailable }.map(\.rawValue)
  private static let message = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

  /// A CA and one certificate a key, for servers and clients: key-0.pem, key-0.key and so on.
  private func material(_ scene: Scene) async throws {
    var script = """
      set -e
      openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=CA -days 9
      echo 'extendedKeyUsage=serverAuth,clientAuth' > ext

      """
    for (index, key) in Self.keys.enumerated() {
      script += """
        openssl genpkey -algorithm \(key) -out key-\(index).key
        openssl req -new -key key-\(index).key -subj /CN=key-\(index) -out key.csr
        openssl x509 -req -in key.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 9 -extfile ext -out key-\(index).pem

        """
    }
    try await scene.succeed("bash", "-c", script)
  }

  /// Two server blocks for each of `tls`: the first with the library context of handshakes, the second with OpenSSL's
  /// default one.
  private func start(_ scene: Scene, _ tls: [String]) async throws -> [[UInt16]] {
    let ports = try tls.map { _ in try [scene.port(), scene.port()] }
    func server(_ port: UInt16, _ tls: String) -> String {
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; ssl_client_certificate ca.pem; ssl_verify_client on;
        ssl_protocols TLSv1.2 TLSv1.3; \(tls) location / { return 200 "answer=$ssl_client_s_dn $ssl_cipher;"; } }

      """
    }
    let servers = zip(ports, tls).map {
      server($0[0], $1) + server($0[1], $1 + " ssl_conf_command Options PrioritizeChaCha;")
    }
    _ = try await Sallyport.start(scene, configuration(servers.joined()))
    return ports
  }

  private func ask(_ scene: Scene, _ port: UInt16, key: Int, _ arguments: [String]) async throws -> String {
    let result = try await scene.run(
      "openssl",
      [
        "s_client", "-connect", "127.0.0.1:\(port)", "-servername", "localhost", "-ign_eof", "-cert",
        scene.path("key-\(key).pem"), "-key", scene.path("key-\(key).key"),
      ] + arguments, input: Array(Self.message.utf8))
    guard let start = result.text.range(of: "answer=") else { return "" }
    return String(result.text[start.upperBound...].prefix { $0 != ";" })
  }

  @Test func `every kind of key is verified, and serves`() async throws {
    let scene = try Scene.ofTest()
    try await material(scene)
    let ports = try await start(
      scene,
      Self.keys.indices.map {
        // In TLS 1.2, the curve of a client's certificate must be one of the groups.
        let groups = Self.keys[$0].hasSuffix("P-521") ? "ssl_ecdh_curve X25519:P-256:P-521;" : ""
        return "ssl_certificate key-\($0).pem; ssl_certificate_key key-\($0).key; \(groups)"
      })
    for (index, both) in ports.enumerated() {
      // TLS 1.2 has no signatures of ML-DSA.
      for version in Self.keys[index].hasPrefix("ML-DSA") ? ["-tls1_3"] : ["-tls1_2", "-tls1_3"] {
        for (which, port) in both.enumerated() {
          let answer = try await ask(scene, port, key: index, [version])
          #expect(answer.hasPrefix("CN=key-\(index) "), "\(Self.keys[index]) \(version) context \(which): \(answer)")
        }
      }
    }
  }

  @Test func `every cipher and group is negotiated`() async throws {
    let scene = try Scene.ofTest()
    try await material(scene)
    let ports = try await start(
      scene,
      [
        """
        ssl_certificate key-3.pem; ssl_certificate_key key-3.key; ssl_certificate key-0.pem; ssl_certificate_key key-0.key;
          ssl_ciphers ALL:@SECLEVEL=1; ssl_ecdh_curve X25519:P-256:P-384:P-521:X448:ffdhe2048:ffdhe3072;
        """
      ]
    )[0]
    let listed = try await scene.run(
      "openssl", ["ciphers", "-s", "-tls1_2", "ALL:!PSK:!SRP:!aNULL:!DHE:@SECLEVEL=1"]
    ).text
    let ciphers = listed.split(whereSeparator: { $0 == ":" || $0.isNewline }).map(String.init)
      .filter { !$0.hasPrefix("TLS_") }
    #expect(ciphers.count > 20)
    for cipher in ciphers {
      for port in ports {
        let answer = try await ask(scene, port, key: 0, ["-tls1_2", "-cipher", "\(cipher):@SECLEVEL=1"])
        #expect(answer == "CN=key-0 \(cipher)")
      }
    }
    for group in ["X25519", "P-256", "P-384", "P-521", "X448", "ffdhe2048", "ffdhe3072"] {
      for port in ports {
        #expect(try await ask(scene, port, key: 0, ["-tls1_3", "-groups", group]).hasPrefix("CN=key-0 TLS_"))
      }
    }
  }

  /// Writes openssl.cnf.
  private func write(_ lines: String, _ scene: Scene) throws {
    try scene.write("openssl.cnf", text: "openssl_conf = conf\n[conf]\n\(lines)\n")
  }

  /// openssl.cnf decides over TLS, too: no context may escape its rule.
  @Test func `where openssl.cnf asks for FIPS and there is none, nothing is served`() async throws {
    let scene = try Scene.ofTest()
    try await material(scene)
    try write(
      """
      alg_section = properties
      [properties]
      default_properties = fips=yes
      """, scene)
    let port = try scene.port()
    await #expect(throws: (any Error).self) {
      _ = try await Sallyport.start(
        scene,
        configuration(
          """
          server { listen 127.0.0.1:\(port) ssl; ssl_certificate key-0.pem; ssl_certificate_key key-0.key; return 200; }
          """), environment: ["OPENSSL_CONF": scene.path("openssl.cnf")])
    }
  }

  @Test func `where openssl.cnf names other providers, TLS uses them`() async throws {
    let scene = try Scene.ofTest()
    try await material(scene)
    try write(
      """
      providers = providers
      [providers]
      default = active
      legacy = active
      [active]
      activate = 1
      """, scene)
    let port = try scene.port()
    _ = try await Sallyport.start(
      scene,
      configuration(
        """
        server { listen 127.0.0.1:\(port) ssl; ssl_certificate key-0.pem; ssl_certificate_key key-0.key;
          ssl_client_certificate ca.pem; ssl_verify_client on; location / { return 200 "answer=$ssl_client_s_dn;"; } }
        """), environment: ["OPENSSL_CONF": scene.path("openssl.cnf")])
    #expect(try await ask(scene, port, key: 1, []) == "CN=key-1")
  }
}
