import Foundation
import TestSupport
import Testing

/// A demo that runs, and the folder that it lives by.
struct Demo: Sendable {
  let scene: Scene
  let port: UInt16
  let folder: String
  let process: ChildProcess
  /// What it has said.
  var said: String { scene.text(log) }
  private let log: String

  init(_ scene: Scene, folder: String = "demo", port: UInt16? = nil, _ arguments: [String] = []) async throws {
    self.scene = scene
    self.folder = scene.path(folder)
    let port = try port ?? scene.port()
    self.port = port
    let log = "demo-\(UInt32.random(in: 0...UInt32.max)).err"
    self.log = log
    let process = try ChildProcess(
      Sallyport.binary(), ["demo", "--dir", self.folder, "--port", "\(port)"] + arguments, in: scene.folder,
      output: nil,
      errors: scene.path(log))
    self.process = process
    scene.atEnd { process.stop() }
    scene.onFailure(show: log) { scene.text(log) }
    try await until("the demo to tell what to do") {
      if let ending = process.ending { throw ToolFailed(description: "\(ending): \(scene.text(log))") }
      return scene.text(log).contains("Ctrl-C")
    }
  }

  func file(_ name: String) -> String { "\(folder)/\(name)" }

  func ask(_ path: String, as name: String? = "client", _ arguments: [String] = []) async throws -> CurlResult {
    let identity = name.map { ["--cert", file("\($0).crt"), "--key", file("\($0).key")] } ?? []
    return try await scene.curl(
      ["--cacert", file("ca.crt")] + identity + arguments + ["https://localhost:\(port)\(path)"])
  }

  /// The lines to copy under a heading of guide.md.
  func instructions(_ heading: String) throws -> String {
    let section = try #require(
      String(contentsOfFile: file("guide.md"), encoding: .utf8).replacing("\n### ", with: "\n## ")
        .split(separator: "\n## ").first {
          $0.hasPrefix("\(heading)\n")
        })
    return section.split(separator: "\n").filter { $0.hasPrefix("    ") }.map { $0.dropFirst(4) }.joined(
      separator: "\n")
  }
}
