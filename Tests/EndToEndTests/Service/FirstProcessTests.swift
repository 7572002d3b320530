import Foundation
import Glibc
import TestSupport
import Testing

private let canUnshare = geteuid() == 0 && ProgramRun.succeeds("unshare", "--pid", "--fork", "--kill-child", "true")

/// A container may have no init of its own.
@Suite(.staged, .enabled(if: canUnshare, "unshare --pid is not permitted here")) struct `As process 1` {
  @Test func `orphans that end leave no zombie`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let daemon = try Sallyport(
      scene, configuration("server { listen 127.0.0.1:\(port); return 200 ok; }"),
      launcher: ["unshare", "--pid", "--fork", "--kill-child"])
    try await until("the server to answer") { try await scene.curl(["http://127.0.0.1:\(port)/"]).status == 200 }
    func children(of process: Int32) -> [Int32] {
      let text = (try? String(contentsOfFile: "/proc/\(process)/task/\(process)/children", encoding: .utf8)) ?? ""
      return text.split(separator: " ").compactMap { Int32($0) }
    }
    let first = try #require(children(of: daemon.process.identifier).first)
    let before = Set(children(of: first))
    // The shell ends at once, and its child is an orphan of the namespace.
    let orphan = try await scene.run(
      "nsenter", ["--pid", "--target", "\(first)", "sh", "-c", "(sleep 0.2; exec sleep 0.2) & exit 0"])
    #expect(orphan.status == 0, "\(orphan.everything)")
    try await until("the orphan to be a child of the daemon, and gone") {
      Set(children(of: first)).isSubset(of: before)
    }
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).status == 200)
  }
}
