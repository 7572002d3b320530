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

  /// What `sallyport check --diff` finds between two configurations in this folder.
  func changes(from old: String, to new: String) throws -> [TrustChange] {
    let before = try write("old.conf", text: old), after = try write("new.conf", text: new)
    do { return try TrustDifference(from: before, to: after).changes } catch {
      Issue.record("\(error) in \(new)")
      return []
    }
  }

  /// Expects that a change is told of each server in this direction, by a sentence with these words, whose CONF is the new file. Returns what
  /// is told of the change, and of the change back, which must be told, too.
  func expectChange(
    _ direction: TrustChange.Direction, _ words: String, of servers: [String] = [""], from old: String, to new: String
  ) throws -> (there: [TrustChange], back: [TrustChange]) {
    let words = words.replacing("CONF", with: path("new.conf"))
    let there = try changes(from: old, to: new), back = try changes(from: new, to: old)
    for server in servers {
      #expect(
        there.contains { $0.direction == direction && $0.sentence.hasPrefix(server) && $0.sentence.contains(words) },
        "\(direction) \(server) \(words): \(there.map { "\($0.direction) \($0.sentence)" })")
    }
    #expect(!back.isEmpty, "\(words)")
    return (there, back)
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
