import Glibc

/// What a command that ran to its end said.
package struct ToolResult: Sendable {
  package let status: Int32
  package let output: [UInt8]
  package let errors: String
  package var text: String { String(decoding: output, as: UTF8.self) }
  package var everything: String { text + errors }
}

extension String {
  /// What openssl(1) says, with distinguished names in one spelling: from 3.2 on it writes `CN=a`, before that `CN = a`.
  package var withPlainNames: String { replacing(#/\b(CN|OU|O|C) = /#) { "\($0.output.1)=" } }
}

package struct ToolFailed: Error, CustomStringConvertible {
  package let description: String
  package init(description: String) { self.description = description }
}

extension Scene {
  /// Runs a command to its end.
  package func run(
    _ command: String, _ arguments: [String], input: [UInt8]? = nil, environment: [String: String] = [:],
    within bound: Duration = .seconds(40)
  ) async throws -> ToolResult {
    let name = "run-\(UInt32.random(in: 0...UInt32.max))"
    var source = ChildProcess.Input.nothing
    if let input { source = .file(try write("\(name).in", input)) }
    let process = try ChildProcess(
      command, arguments, in: folder, environment: environment, input: source, output: path("\(name).out"),
      errors: path("\(name).err"))
    defer { process.stop() }
    let status: Int32
    switch try await process.ended(within: bound) {
    case .exited(let code): status = code
    case .killed(let signal): status = 128 + signal
    }
    return ToolResult(status: status, output: bytes("\(name).out"), errors: text("\(name).err"))
  }

  /// The same; another status than 0 is an error that shows what it said.
  @discardableResult
  package func succeed(
    _ command: String, _ arguments: String..., input: [UInt8]? = nil, environment: [String: String] = [:]
  ) async throws -> String {
    let result = try await run(command, arguments, input: input, environment: environment)
    guard result.status == 0 else {
      throw ToolFailed(description: "\(command) \(arguments.joined(separator: " ")): \(result.everything)")
    }
    return result.text.hasSuffix("\n") ? String(result.text.dropLast()) : result.text
  }

  /// Whether a command is there and ends well: for what a machine may lack.
  package static func succeeds(_ command: String, _ arguments: [String]) async -> Bool {
    guard let scene = try? Scene() else { return false }
    defer { scene.end() }
    return (try? await scene.run(command, arguments))?.status == 0
  }
}
