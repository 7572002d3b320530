import Crypto
import Synchronization
import TestSupport
import Testing

/// What follows a ClientHello is TLS to the end (RFC 8446 §5.1, §6.2): OpenSSL's libraries number their reasons each by
/// itself, and the number of "bad signature" of one is that of "http request" of another.
@Suite(.staged) struct `Clear text after a ClientHello` {
  private struct Damage: Sendable, CustomStringConvertible {
    let name: String
    let message: UInt8
    let offsets: [Int]
    var description: String { name }
  }

  private static let damages = [
    Damage(name: "signature", message: 15, offsets: [4, 5, 6, 8, 20, -1, -20, -40]),
    // The lengths of both lists come first, then the certificate.
    Damage(name: "certificate", message: 11, offsets: Array(stride(from: 6, to: 190, by: 4))),
    Damage(name: "key exchange", message: 16, offsets: [0, 1, 20]),
  ]

  @Test(arguments: [PrivateKey.Kind.p256, .rsa(bits: 2048)])
  func `a failed handshake ends with an alert, and nothing in clear`(
    kind: PrivateKey.Kind
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port(), inside = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) location / { return 200 ok; } }
      server { listen 127.0.0.1:\(inside); location = /metrics { metrics; } }
      """)
    let client = try scene.identity(
      "client",
      CertificateBuilder(commonName: "client", .leaf([.clientAuth])).signed(
        by: cast.authority.root, key: .generate(kind)))
    for damage in Self.damages {
      for offset in damage.offsets {
        let said = Mutex<[UInt8]>([])
        let relay = try ScriptedUpstream.corruptingRelay(
          scene, to: port, message: damage.message, offset: offset
        ) { bytes in said.withLock { $0 += bytes } }
        _ = try await scene.run(
          "openssl",
          ["s_client", "-connect", "127.0.0.1:\(relay.port)", "-servername", "localhost", "-tls1_2"]
            + client.openssl)
        let bytes = said.withLock { $0 }
        #expect(!String(decoding: bytes, as: UTF8.self).contains("HTTP/1.1"), "\(damage) at \(offset)")
        #expect(Self.isTLS(bytes), "\(damage) at \(offset)")
      }
    }
    let page = try PrometheusPage(try await scene.page(inside, "/metrics").text)
    for cause in ["plain-http", "cipher", "certificate", "no-certificate"] {
      #expect(
        page.value("sallyport_client_handshake_failures_total", ["cause": cause]) ?? 0 == 0, "\(cause)")
    }
    #expect(page.value("sallyport_client_handshake_failures_total", ["cause": "malformed"]) ?? 0 > 0)
  }

  /// Whether the bytes are records of TLS to their end.
  private static func isTLS(_ bytes: [UInt8]) -> Bool {
    var rest = bytes[...]
    while rest.count >= 5 {
      guard let kind = rest.first, (20...23).contains(kind) else { return false }
      let header = Array(rest.prefix(5))
      rest = rest.dropFirst(5 + (Int(header[3]) << 8 | Int(header[4])))
    }
    return rest.isEmpty
  }
}
