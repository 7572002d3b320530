import Foundation
import Sandbox
import TestSupport
import Testing

/// What the kernel refuses a process in the sandbox. Each attempt is also made outside, so that a refusal is the sandbox's.
@Suite(.enabled(if: Landlock.version != nil, "the kernel has no Landlock")) struct `The sandbox` {
  /// Beside the program that runs the tests.
  private static let program = realpath("/proc/self/exe", nil).map { path in
    defer { free(path) }
    return String(cString: path).split(separator: "/").dropLast()
      .reduce(into: "") { $0 += "/" + $1 } + "/SandboxTrial"
  }

  private func outcome(_ attempt: String, free: Bool = false, opener: Bool = false) throws -> String {
    let scene = try Scene()
    defer { scene.end() }
    let folder = try scene.makeFolder("inside")
    try scene.write("inside/in", text: "x")
    try scene.write("outside", text: "x")
    symlink("../outside", scene.path("inside/link"))
    let run = try ProgramRun(
      #require(Self.program), [folder, attempt] + (free ? ["free"] : opener ? ["opener"] : []))
    switch run.ending {
    case .killed(let signal): return "signal \(signal)"
    case .exited(0): return run.output.trimmingCharacters(in: .newlines)
    case .exited(let status): return "exit \(status)"
    }
  }

  @Test(arguments: ["read-inside", "write-inside", "resolv.conf", "thread", "tcp", "signal-self"])
  func `what serving needs is allowed`(attempt: String) throws {
    #expect(try outcome(attempt) == "allowed")
  }

  @Test(arguments: ["read-outside", "read-by-link", "write-outside", "write-etc", "list-home"])
  func `files that the configuration doesn't name stay closed`(attempt: String) throws {
    #expect(try outcome(attempt) == "Permission denied")
    if attempt != "write-etc" && (attempt != "list-home" || geteuid() == 0) {
      #expect(try outcome(attempt, free: true) == "allowed")
    }
  }

  @Test(arguments: [
    "execve", "process", "netlink", "packet", "setuid", "setrlimit", "signal-parent", "tiocsti",
  ])
  func `calls that no request needs fail`(attempt: String) throws {
    #expect(try outcome(attempt) == "Operation not permitted")
  }

  /// What stays root reads what it is asked for, writes logs, and binds ports. It changes no file and talks to nobody.
  @Test(arguments: [
    ("read-outside", "allowed"), ("write-inside", "allowed"), ("tcp", "allowed"),
    ("write-outside", "Permission denied"), ("write-etc", "Permission denied"),
    ("execve", "Operation not permitted"), ("process", "Operation not permitted"),
    ("setuid", "Operation not permitted"),
    ("signal-parent", "Operation not permitted"), ("netlink", "Operation not permitted"),
    ("chmod", "Operation not permitted"), ("unlink", "Operation not permitted"),
    ("connect", "Operation not permitted"), ("send", "Operation not permitted"),
  ])
  func `the process that opens files for another one can do that alone`(attempt: String, outcome: String) throws {
    #expect(try self.outcome(attempt, opener: true) == outcome)
  }

  @Test(arguments: ["chmod", "unlink", "send"]) func `outside these work, too`(attempt: String) throws {
    #expect(try outcome(attempt, free: true) == "allowed")
  }

  @Test(arguments: ["netlink", "setrlimit", "signal-parent"])
  func `the same calls work outside`(attempt: String) throws {
    #expect(try outcome(attempt, free: true) == "allowed")
  }

  @Test(arguments: ["ptrace", "mount", "unshare", "bpf"])
  func `calls that attack the kernel end the process`(attempt: String) throws {
    #expect(try outcome(attempt) == "signal \(SIGSYS)")
  }
}
