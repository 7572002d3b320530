import Foundation
import Synchronization

/// One test's stage: a folder of its own, the ports it has claimed, and the parts that must be ended with it.
package final class Scene: Sendable {
  package let folder: String
  /// What clients speak to the daemons of this scene.
  package let speech: Speech
  private let isSpoken = Mutex(false)
  private let daemonPorts = Mutex<Set<UInt16>>([])
  private let endings = Mutex<[@Sendable () -> Void]>([])
  private let reports = Mutex<[(title: String, text: @Sendable () -> String)]>([])

  package init(_ speech: Speech = .http1) throws {
    self.speech = speech
    folder = NSTemporaryDirectory() + "sallyport-e2e-\(UUID().uuidString.prefix(13))"
    try FileManager.default.createDirectory(
      atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
  }

  /// The path of a file of this name in the folder.
  package func path(_ name: String) -> String { "\(folder)/\(name)" }

  /// Writes a file and returns its path.
  @discardableResult
  package func write(_ name: String, _ bytes: [UInt8]) throws -> String {
    try Data(bytes).write(to: URL(fileURLWithPath: path(name)), options: .atomic)
    return path(name)
  }

  @discardableResult
  package func write(_ name: String, text: String) throws -> String { try write(name, Array(text.utf8)) }

  /// What a file of this name holds; empty when there is none.
  package func text(_ name: String) -> String { String(decoding: bytes(name), as: UTF8.self) }

  package func bytes(_ name: String) -> [UInt8] {
    FileManager.default.contents(atPath: path(name)).map { Array($0) } ?? []
  }

  /// Makes a folder inside.
  @discardableResult
  package func makeFolder(_ name: String) throws -> String {
    try FileManager.default.createDirectory(atPath: path(name), withIntermediateDirectories: true)
    return path(name)
  }

  /// A free loopback port, below the ephemeral range, that no other scene has, of this run or of another beside it.
  package func port() throws -> UInt16 {
    let port = try PortClaims.claim()
    atEnd { PortClaims.release(port) }
    return port
  }

  /// The first of so many ports in a row.
  package func ports(_ count: UInt16) throws -> UInt16 {
    let first = try PortClaims.claim(count: count)
    atEnd { for port in first..<first + count { PortClaims.release(port) } }
    return first
  }

  /// Notes the ports that a daemon's configuration has it listen on.
  func listens(by configuration: String) {
    let ports = configuration.matches(of: /\blisten\s+(?:[^\s;]*:)?(\d+)/).compactMap { UInt16($0.output.1) }
    daemonPorts.withLock { $0.formUnion(ports) }
  }

  /// Notes that a port leads to another one.
  func leads(_ port: UInt16, to other: UInt16) {
    daemonPorts.withLock { if $0.contains(other) { $0.insert(port) } }
  }

  /// Notes that a client has spoken to a daemon in the scene's version of HTTP.
  func didSpeak() { isSpoken.withLock { $0 = true } }

  /// Whether a client has done so.
  package var hasSpoken: Bool { isSpoken.withLock { $0 } }

  /// Whether a daemon of this scene listens there.
  func isDaemon(_ port: UInt16) -> Bool { daemonPorts.withLock { $0.contains(port) } }

  /// Done when the test ends, the last one first.
  package func atEnd(_ action: @escaping @Sendable () -> Void) { endings.withLock { $0.append(action) } }

  /// Shown when the test fails.
  package func onFailure(show title: String, _ text: @escaping @Sendable () -> String) {
    reports.withLock { $0.append((title, text)) }
  }

  package var report: String {
    reports.withLock { $0 }.map { "---- \($0.title)\n\($0.text().suffix(6000))" }.joined(separator: "\n")
  }

  /// Ends all parts and removes the folder. SALLYPORT_KEEP in the environment keeps it.
  package func end() {
    for action in endings.withLock({ list in
      defer { list = [] }; return list
    }).reversed() { action() }
    if ProcessInfo.processInfo.environment["SALLYPORT_KEEP"] == nil {
      try? FileManager.default.removeItem(atPath: folder)
    }
  }
}
