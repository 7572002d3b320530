import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `Memory after reloads` {
  private static let count = 1000

  /// With so many server blocks, each with a certificate of its own, what one generation has is most of the process's
  /// memory.
  private func many(_ port: UInt16) -> String {
    let blocks = (0..<Self.count).map { number in
      """
      server { listen 127.0.0.1:\(port) ssl; server_name h\(number).test; return 204;
        ssl_certificate s\(number).pem; ssl_certificate_key s\(number).key; ssl_client_certificate ca.pem;
        ssl_verify_client optional; }
      """
    }
    return configuration(blocks.joined(separator: "\n"), level: "notice")
  }

  @Test(.enabled(if: !Sanitizer.isUsed, "a sanitizer keeps what was freed"))
  func `what generations had is given back to the system once they have ended`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port(), cast = try Cast(scene)
    for number in 0..<Self.count {
      _ = try scene.identity("s\(number)", cast.authority.server(names: ["h\(number).test"]))
    }
    let daemon = try await Sallyport.start(scene, many(port))
    let first = try #require(daemon.memory("RssAnon"))
    /// Without the return, it stays at three times of that for ever.
    func givenBack() async throws {
      try await until("memory to be given back") { (daemon.memory("RssAnon") ?? .max) * 2 <= first * 3 }
    }
    for generation in 2...5 {
      daemon.signal(SIGHUP)
      try await daemon.logged("reconfigured: generation \(generation)", within: .seconds(120))
    }
    try await givenBack()
    // A reload that is refused has loaded the others' certificates, too.
    try daemon.rewrite(many(port).replacing("ssl_certificate s7.pem", with: "ssl_certificate no.pem"))
    daemon.signal(SIGHUP)
    try await daemon.logged("the new configuration is refused", within: .seconds(120))
    try await givenBack()
  }
}
