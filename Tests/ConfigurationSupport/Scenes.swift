import Configuration
package import Observability
import Testing
package import TestSupport
package import Traffic

/// A scene for one test, ended with it.
package func withScene<R>(_ body: (Scene) throws -> R) throws -> R {
  let scene = try Scene()
  defer { scene.end() }
  return try body(scene)
}

extension Scene {
  /// Settings of a configuration in this folder.
  package func settings(_ text: String) throws -> Settings {
    let (settings, diagnostics) = Configuration.load(text: text, fileName: path("test.conf"))
    return try #require(settings, "\(diagnostics)")
  }

  /// server.pem and server.key, ca.pem.
  @discardableResult
  package func serverFiles() throws -> TestAuthority {
    let authority = try TestAuthority()
    _ = try identity("server", authority.server())
    try anchors("ca", authority)
    return authority
  }
}

extension Diagnostic {
  /// `line: severity: message`, without the folder.
  package func short(in scene: Scene) -> String {
    let text = "\(location.map { "\($0.line): " } ?? "")\(severity.rawValue): \(message)"
    return text.split(separator: "\(scene.folder)/", omittingEmptySubsequences: false).joined()
  }
}
