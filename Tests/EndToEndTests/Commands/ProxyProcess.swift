import Foundation
import Glibc
import TestSupport

extension Scene {
  /// Words of env(1) that leave out what the command would read. A variable of the tests themselves has the prefix, too.
  static var withoutOurVariables: [String] {
    ProcessInfo.processInfo.environment.keys.filter { $0.hasPrefix("SALLYPORT_") }.sorted().flatMap { ["-u", $0] }
  }

  /// Starts `sallyport proxy` with these words in an environment with nothing of ours but `environment`, and waits until it
  /// serves.
  func proxy(
    _ words: [String], environment: [String] = [], until isReady: @escaping @Sendable () async throws -> Bool
  ) async throws -> ChildProcess {
    let process = try ChildProcess(
      "env",
      Self.withoutOurVariables + environment + [Sallyport.binary(), "proxy"] + words
        + (geteuid() == 0 ? ["--user", "root"] : []),
      in: folder, output: path("proxy.out"), errors: path("proxy.err"))
    atEnd { process.stop() }
    onFailure(show: "proxy.err") { self.text("proxy.err") }
    try await TestSupport.until("it serves") {
      if let ending = process.ending {
        throw ToolFailed(description: "it ended, \(ending): \(text("proxy.err"))")
      }
      return (try? await isReady()) ?? false
    }
    return process
  }
}
