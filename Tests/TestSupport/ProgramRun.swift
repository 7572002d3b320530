import Foundation
import Glibc

/// What became of a program that ran to its end.
///
/// Not Foundation's `Process`, which ends the whole test process when that has more than some 1,300 descriptors open.
package struct ProgramRun: Sendable {
  package let ending: ChildProcess.Ending
  package let output: String
  package let errors: String

  /// The exit status; nil: a signal ended it.
  package var status: Int32? { if case .exited(let status) = ending { status } else { nil } }

  /// Blocks until the program has ended.
  package init(_ command: String, _ arguments: [String], input: [UInt8] = []) throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("run-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    func path(_ name: String) -> String { folder.appendingPathComponent(name).path }
    try Data(input).write(to: URL(fileURLWithPath: path("in")))
    let process = try ChildProcess(
      command, arguments, in: FileManager.default.currentDirectoryPath, input: .file(path("in")), output: path("out"),
      errors: path("err"))
    ending = process.wait()
    func text(_ name: String) -> String {
      (try? Data(contentsOf: URL(fileURLWithPath: path(name)))).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }
    (output, errors) = (text("out"), text("err"))
  }

  /// Whether a program is here and ends with 0.
  package static func succeeds(_ command: String, _ arguments: String...) -> Bool {
    (try? ProgramRun(command, arguments).status) == 0
  }
}
