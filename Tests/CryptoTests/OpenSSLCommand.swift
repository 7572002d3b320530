import Foundation
import Testing

/// A folder for one test's files, removed with the last of it.
final class Scratch: Sendable {
  let path: String

  init() throws {
    path = FileManager.default.temporaryDirectory.appendingPathComponent("crypto-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  /// The path of a file of this name, written when contents are given.
  @discardableResult
  func file(_ name: String, _ contents: [UInt8]? = nil) throws -> String {
    let file = "\(path)/\(name)"
    if let contents { try Data(contents).write(to: URL(fileURLWithPath: file)) }
    return file
  }

  @discardableResult
  func file(_ name: String, text: String) throws -> String { try file(name, Array(text.utf8)) }

  func bytes(_ name: String) throws -> [UInt8] {
    Array(try Data(contentsOf: URL(fileURLWithPath: "\(path)/\(name)")))
  }
}

/// The real `openssl` command: the other opinion on everything that Crypto reads and writes.
enum OpenSSLCommand {
  struct Outcome {
    let status: Int32
    let output: String
    let errors: String
  }

  static func attempt(_ arguments: [String], input: [UInt8] = []) throws -> Outcome {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["openssl"] + arguments
    let (stdin, stdout, stderr) = (Pipe(), Pipe(), Pipe())
    process.standardInput = stdin
    process.standardOutput = stdout
    process.standardError = stderr
    try process.run()
    try stdin.fileHandleForWriting.write(contentsOf: Data(input))
    try stdin.fileHandleForWriting.close()
    let output = stdout.fileHandleForReading.readDataToEndOfFile()
    let errors = stderr.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return Outcome(
      status: process.terminationStatus, output: String(decoding: output, as: UTF8.self),
      errors: String(decoding: errors, as: UTF8.self))
  }

  /// What it printed, without the last line feed; an exit status other than 0 fails the test.
  @discardableResult
  static func run(_ arguments: String..., input: [UInt8] = []) throws -> String {
    let outcome = try attempt(arguments, input: input)
    try #require(outcome.status == 0, "openssl \(arguments.joined(separator: " ")): \(outcome.errors)")
    return outcome.output.hasSuffix("\n") ? String(outcome.output.dropLast()) : outcome.output
  }
}
