import TestSupport
import Testing

/// A server with a certificate of an authority of `sallyport ca`, where devices get theirs.
protocol EnrolmentPlace {
  var scene: Scene { get }
  var port: UInt16 { get }
}

extension EnrolmentPlace {
  /// Makes the authority in ca, and localhost.crt and localhost.key for the server.
  static func makeAuthority(_ scene: Scene) async throws {
    for arguments in [["init", "ca"], ["issue", "ca", "--server", "localhost"]] {
      let made = try await scene.run(Sallyport.binary(), ["ca"] + arguments)
      try #require(made.status == 0, "\(made.everything)")
    }
  }

  func curl(_ path: String, _ more: [String] = []) async throws -> CurlResult {
    try await scene.curl(
      ["--cacert", scene.path("ca/ca.crt"), "--resolve", "localhost:\(port):127.0.0.1"] + more
        + ["https://localhost:\(port)\(path)"])
  }
}
