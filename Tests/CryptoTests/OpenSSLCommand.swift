import Foundation
import TestSupport
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
  static func attempt(_ arguments: [String], input: [UInt8] = []) throws -> ProgramRun {
    try ProgramRun("openssl", arguments, input: input)
  }

  /// What it printed, without the last line feed; an exit status other than 0 fails the test.
  @discardableResult
  static func run(_ arguments: String..., input: [UInt8] = []) throws -> String {
    let outcome = try attempt(arguments, input: input)
    try #require(outcome.status == 0, "openssl \(arguments.joined(separator: " ")): \(outcome.errors)")
    return outcome.output.hasSuffix("\n") ? String(outcome.output.dropLast()) : outcome.output
  }
}
