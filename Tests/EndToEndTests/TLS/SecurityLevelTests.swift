import Crypto
import TestSupport
import Testing

/// OpenSSL's security level (SSL_CTX_set_security_level(3)), which `@SECLEVEL` sets: who asks for 0 gets 0, as in nginx.
@Suite(.staged) struct `Security levels` {
  private struct Weak {
    let short: IdentityFiles
    let sha1: IdentityFiles
    let sound: IdentityFiles

    init(_ scene: Scene, _ cast: Cast, _ usage: CertificateBuilder.ExtendedKeyUsage) throws {
      var builder = CertificateBuilder(commonName: "localhost", .leaf([usage]), names: [.dns("localhost")])
      short = try scene.identity("short", builder.signed(by: cast.authority.root, key: .generate(.rsa(bits: 1024))))
      sound = try scene.identity("sound", builder.signed(by: cast.authority.root, key: .generate()))
      builder.signatureDigest = .sha1
      sha1 = try scene.identity("sha1", builder.signed(by: cast.authority.root, key: .generate()))
    }
  }

  /// The statuses of a client with a key of 1024 bits, with one that SHA-1 signed, and with a sound one.
  private func clients(_ lines: String) async throws -> [Int] {
    let scene = try Scene.ofTest(), cast = try Cast(scene), weak = try Weak(scene, cast, .clientAuth)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      "server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) \(lines) location / { return 200; } }"
    )
    var statuses: [Int] = []
    for who in [weak.short, weak.sha1, weak.sound] {
      // curl loads a certificate before it lowers its own level.
      let result = try await scene.run(
        "openssl",
        ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", "localhost", "-ign_eof"]
          + ["-cipher", "DEFAULT:@SECLEVEL=0"] + who.openssl,
        input: Array("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8))
      statuses.append(result.text.firstMatch(of: /HTTP\/1.1 (\d+)/).flatMap { Int($0.output.1) } ?? 0)
    }
    return statuses
  }

  @Test(arguments: [
    "ssl_ciphers DEFAULT:@SECLEVEL=0;", "ssl_conf_command CipherString DEFAULT@SECLEVEL=0;",
    "ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3; ssl_ciphers DEFAULT:@SECLEVEL=0;",
  ]) func `level 0 takes each client that level 1 takes, and more`(lines: String) async throws {
    #expect(try await clients(lines) == [200, 200, 200])
  }

  @Test func `level 1 takes a key of 1024 bits, and no signature of SHA-1`() async throws {
    #expect(try await clients("ssl_ciphers DEFAULT:@SECLEVEL=1;") == [200, 400, 200])
  }

  @Test(arguments: ["", "ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3;"])
  func `an old version of TLS lowers nothing that nobody asked for`(lines: String) async throws {
    #expect(try await clients(lines)[1...] == [400, 200])
  }

  @Test(arguments: [("0", [200, 200, 200]), ("1", [200, 502, 200])]) func `the same for an upstream's certificate`(
    level: String, statuses: [Int]
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let weak = try Weak(scene, cast, .serverAuth)
    let port = try scene.port()
    var servers = "", locations = ""
    for (name, who) in [("short", weak.short), ("sha1", weak.sha1), ("sound", weak.sound)] {
      let upstream = try scene.port()
      servers += """
        server { listen 127.0.0.1:\(upstream) ssl; server_name localhost; ssl_ciphers DEFAULT:@SECLEVEL=0;
          ssl_certificate \(who.certificate); ssl_certificate_key \(who.key); location / { return 200; } }

        """
      locations += """
        location /\(name) { proxy_pass https://127.0.0.1:\(upstream)/; proxy_ssl_name localhost;
          proxy_ssl_trusted_certificate ca.pem; proxy_ssl_ciphers DEFAULT:@SECLEVEL=\(level); }

        """
    }
    _ = try await Sallyport.start(
      scene, configuration("\(servers) server { listen 127.0.0.1:\(port); \(locations) }"))
    var found: [Int] = []
    for name in ["short", "sha1", "sound"] {
      found.append(try await scene.curl(["http://127.0.0.1:\(port)/\(name)"]).status)
    }
    #expect(found == statuses)
  }
}
