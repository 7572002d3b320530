import Glibc
import TestSupport
import Testing

/// Variables of the connection and of files that nginx has since 1.29, and before.
@Suite(.staged) struct `Variables of the connection` {
  private func serve(_ scene: Scene, _ text: String, verify: String = "optional") async throws -> (Cast, UInt16) {
    let cast = try Cast(scene), port = try scene.port()
    _ = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port) ssl; \(Cast.tls(verify: verify)) \(text) }"))
    return (cast, port)
  }

  @Test(arguments: ["1.2", "1.3"]) func `tell the schemes of the signatures in the handshake`(version: String)
    async throws
  {
    let scene = try Scene.ofTest()
    let (cast, port) = try await serve(scene, "return 200 \"<$ssl_sigalg|$ssl_client_sigalg|$ssl_sigalgs>\";")
    let options = ["-k", "--tls-max", version, "--tlsv1.2", "https://127.0.0.1:\(port)/"]
    let text = try await scene.curl(cast.alice.curl + options).text
    let parts = text.dropFirst().dropLast().split(separator: "|", omittingEmptySubsequences: false)
    try #require(parts.count == 3, "\(text)")
    let offered = parts[2].split(separator: ":").map(String.init)
    #expect(offered.contains(String(parts[0])) && offered.contains("rsa_pss_rsae_sha256"), "\(text)")
    #expect(parts[0] == "ecdsa_secp256r1_sha256" && parts[1] == "ecdsa_secp256r1_sha256", "\(text)")
    let stranger = try await scene.curl(options).text
    #expect(stranger.hasPrefix("<ecdsa_secp256r1_sha256||"), "\(stranger)")
  }

  @Test func `tell what the kernel knows of the connection`() async throws {
    let scene = try Scene.ofTest()
    let names = ["rtt", "rttvar", "snd_cwnd", "rcv_space"].map { "$tcpinfo_\($0)" }.joined(separator: "|")
    let (_, port) = try await serve(scene, "return 200 \"\(names)\";")
    let text = try await scene.curl(["-k", "https://127.0.0.1:\(port)/"]).text
    let values = text.split(separator: "|", omittingEmptySubsequences: false).map { UInt64($0) }
    #expect(values.count == 4 && values.allSatisfy { $0 ?? 0 > 0 }, "\(text)")
  }

  @Test func `tell the folder of files without links`() async throws {
    let scene = try Scene.ofTest()
    try scene.makeFolder("release-1")
    #expect(symlink("release-1", scene.path("current")) == 0)
    let (_, port) = try await serve(
      scene, "root current/$arg_a; location / { return 200 \"$document_root|$realpath_root\"; }")
    let text = try await scene.curl(["-k", "https://127.0.0.1:\(port)/?a=x"]).text
    #expect(text.contains("/current/x|") && text.hasSuffix("/release-1/x"), "\(text)")
  }
}
