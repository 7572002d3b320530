import Foundation
import Glibc
import TestSupport
import Testing

@testable import Daemon

@Suite struct `A new binary that hangs` {
  /// Starts a program in place of the next binary, and returns what came of it.
  @MainActor private func outcome(of script: String, _ scene: Scene) async throws -> BinaryReplacement.Outcome {
    let program = scene.path("program")
    try scene.write("text", text: "#!/bin/sh\necho $$ >\(scene.path("pid"))\n\(script)\n")
    // Another process writes the program: a child that a parallel test forks would keep our descriptor open for a moment,
    // and a file that somebody writes can't be executed (ETXTBSY).
    try await scene.succeed("install", "-m", "755", scene.path("text"), program)
    var replacement: BinaryReplacement?
    let outcome = try await withCheckedThrowingContinuation { continuation in
      do throws(CannotReplace) {
        replacement = try BinaryReplacement([], by: nil, patience: 1, program: program) {
          continuation.resume(returning: $0)
        }
      } catch {
        continuation.resume(throwing: error)
      }
    }
    withExtendedLifetime(replacement) {}
    return outcome
  }

  private func reason(_ outcome: BinaryReplacement.Outcome) -> String {
    switch outcome {
    case .serves(let process): "process \(process) serves"
    case .failed(let reason): reason
    }
  }

  @Test func `is killed with what it has started`() async throws {
    let scene = try Scene()
    defer { scene.end() }
    // The process that the script leaves behind is the one that hangs.
    let outcome = try await outcome(of: "sleep 300 & echo $! >\(scene.path("pid"))", scene)
    #expect(reason(outcome) == "it neither served nor ended within 1 s, and was killed")
    let process = try #require(pid_t(scene.text("pid").trimmingCharacters(in: .whitespacesAndNewlines)))
    try await until("its end") {
      let state = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
      return state?.contains(") Z ") ?? true
    }
  }

  @Test func `and one that ends is no such one`() async throws {
    let scene = try Scene()
    defer { scene.end() }
    #expect(reason(try await outcome(of: "exit 3", scene)) == "it ended before it served")
  }

  @Test func `a group whose processes have closed the channel is left alone`() {
    var ends: [Int32] = [-1, -1]
    #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
    close(ends[1])
    #expect(!Predecessor.end(getpgrp(), having: ends[0]))
    close(ends[0])
  }
}
