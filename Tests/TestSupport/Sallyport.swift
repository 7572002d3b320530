import Foundation
import Glibc

/// The folder of the checkout that the tests are built from.
package let checkout = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
  .deletingLastPathComponent().path

/// The daemon under test: the real binary, with a configuration in the scene's folder.
package final class Sallyport: Sendable {
  package struct DidNotStart: Error, CustomStringConvertible {
    package let description: String
  }

  package let process: ChildProcess
  private let scene: Scene
  private let name: String

  /// The release binary: SALLYPORT_BINARY, or .build/release/sallyport of this checkout.
  package static func binary() throws -> String {
    let environment = ProcessInfo.processInfo.environment
    let path =
      environment["SALLYPORT_BINARY"]
      ?? "\(checkout)/.build/release/sallyport"
    guard access(path, X_OK) == 0 else {
      throw DidNotStart(
        description: "no binary at \(path): swift build -c release --product sallyport, or set SALLYPORT_BINARY")
    }
    return path
  }

  /// Starts a process of it and returns at once; `configuration` becomes NAME.conf, with `user root;` in front where root
  /// runs the tests and it names no user: the scene's folder is root's alone.
  ///
  /// `launcher`: a command in front, such as systemd-socket-activate with its options. `userAsWritten`: root becomes whom
  /// the configuration names, and nobody where it names none.
  package init(
    _ scene: Scene, _ configuration: String, name: String = "sallyport", launcher: [String] = [],
    userAsWritten: Bool = false, environment: [String: String] = [:]
  ) throws {
    self.scene = scene
    self.name = name
    scene.listens(by: configuration)
    let text = scene.speech.enabled(in: configuration)
    try scene.write("\(name).conf", text: userAsWritten ? text : Self.withUser(text))
    let command = try launcher + [Self.binary(), "run", "--config", scene.path("\(name).conf")]
    process = try ChildProcess(
      command[0], Array(command.dropFirst()), in: scene.folder, environment: environment,
      output: scene.path("\(name).stdout"), errors: scene.path("\(name).stderr"))
    let process = process
    scene.atEnd { process.stop() }
    scene.onFailure(show: "\(name).stderr") { scene.text("\(name).stderr") }
    scene.onFailure(show: "\(name) error.log") { scene.text("error.log") }
  }

  /// Starts it and waits until every socket listens, which its pid file says.
  package static func start(
    _ scene: Scene, _ configuration: String, name: String = "sallyport", environment: [String: String] = [:]
  ) async throws -> Sallyport {
    let daemon = try Sallyport(scene, configuration, name: name, environment: environment)
    try await daemon.untilReady()
    return daemon
  }

  /// Starts a daemon with these lines in `http`, and waits until it is ready (`configuration`).
  package static func serve(
    _ scene: Scene, _ http: String, main: String = "", level: String = "info"
  ) async throws -> Sallyport {
    try await start(scene, configuration(http, main: main, level: level))
  }

  package func untilReady() async throws {
    try await until("\(name).pid") {
      if let ending = process.ending {
        throw DidNotStart(description: "\(name) ended, \(ending): \(errors) \(errorLog)")
      }
      return scene.text("\(name).pid").hasSuffix("\n") || Int(scene.text("\(name).pid")) == Int(process.identifier)
    }
  }

  package var errorLog: String { scene.text("error.log") }
  package var errors: String { scene.text("\(name).stderr") }
  package var output: String { scene.text("\(name).stdout") }

  /// Waits for a line of error.log with these words and returns it.
  @discardableResult
  package func logged(_ words: String..., within bound: Duration = .seconds(30)) async throws -> String {
    try await waiting(for: "an error.log line with \(words)", within: bound) {
      let text = errorLog
      // Most looks find nothing, and to split a long log takes long.
      guard words.allSatisfy({ text.contains($0) }) else { return nil }
      return text.utf8.split { $0 == 10 || $0 == 13 }.map { Substring($0) }.first { line in
        words.allSatisfy { line.contains($0) }
      }.map(String.init)
    }
  }

  /// Replaces the configuration's file; a HUP takes it up.
  package func rewrite(_ configuration: String) throws {
    scene.listens(by: configuration)
    try scene.write("\(name).conf", text: Self.withUser(scene.speech.enabled(in: configuration)))
  }

  /// Lines keep their numbers.
  package static func withUser(_ configuration: String) -> String {
    guard geteuid() == 0, configuration.firstRange(of: /(?m)(^|;)\s*user\s/) == nil else { return configuration }
    return "user root; " + configuration
  }

  package func signal(_ number: Int32) { process.signal(number) }

  /// The processor time that the process has taken, in hundredths of a second.
  package var ticks: Int? {
    guard let text = try? String(contentsOfFile: "/proc/\(process.identifier)/stat", encoding: .utf8),
      let rest = text.split(separator: ")").last?.split(separator: " "), rest.count > 12, let user = Int(rest[11]),
      let system = Int(rest[12])
    else { return nil }
    return user + system
  }

  /// A figure of /proc/PID/status, in KiB: VmHWM, VmRSS.
  package func memory(_ figure: String) -> Int? {
    guard let status = try? String(contentsOfFile: "/proc/\(process.identifier)/status", encoding: .utf8) else {
      return nil
    }
    let line = status.split(separator: "\n").first { $0.hasPrefix("\(figure):") }
    return line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) }
  }
}

extension Scene {
  /// Runs a command of sallyport to its end.
  package func sallyport(_ arguments: String..., environment: [String: String] = [:]) async throws -> ToolResult {
    try await run(Sallyport.binary(), arguments, environment: environment)
  }
}
