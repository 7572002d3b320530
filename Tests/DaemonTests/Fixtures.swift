@testable import Traffic
@testable import Forward
@testable import Features
import Configuration
import Crypto
import Observability
import Testing
import TestSupport
import Transport

@testable import Daemon

/// A scene for one test, ended with it.
func withScene<R>(_ body: (Scene) throws -> R) throws -> R {
  let scene = try Scene()
  defer { scene.end() }
  return try body(scene)
}

extension Scene {
  /// Settings of a configuration in this folder.
  func settings(_ text: String) throws -> Settings {
    let (settings, diagnostics) = Configuration.load(text: text, fileName: path("test.conf"))
    return try #require(settings, "\(diagnostics)")
  }

  /// What `sallyport check --offline` prints of a configuration in this folder.
  func check(_ text: String) throws -> (isValid: Bool, text: String) {
    let report = try Check(write("check.conf", text: Sallyport.withUser(text)), .files).report(isStrict: false)
    return (report.isValid, report.lines(isColoured: false).map { $0 + "\n" }.joined())
  }

  /// server.pem and server.key, ca.pem.
  @discardableResult
  func serverFiles() throws -> TestAuthority {
    let authority = try TestAuthority()
    _ = try identity("server", authority.server())
    try anchors("ca", authority)
    return authority
  }
}

extension Diagnostic {
  /// `line: severity: message`, without the folder.
  func short(in scene: Scene) -> String {
    let text = "\(location.map { "\($0.line): " } ?? "")\(severity.rawValue): \(message)"
    return text.split(separator: "\(scene.folder)/", omittingEmptySubsequences: false).joined()
  }
}

/// A listener that others hold, on a port of the system's choice.
func occupied() throws -> (descriptor: Int32, port: UInt16) {
  let descriptor = try Sockets.listen(
    on: .ipv4(address: 0x7F00_0001, port: 0), backlog: 8, reuseport: false, ipv6only: true)
  return (descriptor, try #require(Sockets.localAddress(of: descriptor)?.port))
}
