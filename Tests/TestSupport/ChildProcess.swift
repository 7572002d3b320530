import Foundation
package import Glibc
import Synchronization

/// A process that a test started: it has files for its output, and is ended by its id, never by a name.
package final class ChildProcess: Sendable {
  package enum Ending: Sendable, Hashable {
    case exited(Int32)
    case killed(signal: Int32)
  }

  /// Where its standard input comes from.
  package enum Input: Sendable {
    case nothing
    case file(String)
    /// One end of a socket pair; `standardOutput` too, where the process is a filter.
    case descriptor(Int32)
  }

  package struct CannotStart: Error, CustomStringConvertible {
    package let description: String
  }

  package let identifier: pid_t
  private let state = Mutex<Ending?>(nil)
  private let name: String
  private let test: String

  /// Starts `command` (a path, or a name looked up in PATH and the sbin folders).
  package init(
    _ command: String, _ arguments: [String], in folder: String, environment: [String: String] = [:],
    input: Input = .nothing, output: String?, errors: String?
  ) throws {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    switch input {
    case .nothing: posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    case .file(let path): posix_spawn_file_actions_addopen(&actions, 0, path, O_RDONLY, 0)
    case .descriptor(let descriptor):
      posix_spawn_file_actions_adddup2(&actions, descriptor, 0)
      if output == nil { posix_spawn_file_actions_adddup2(&actions, descriptor, 1) }
    }
    let flags = O_WRONLY | O_CREAT | O_APPEND
    if let output { posix_spawn_file_actions_addopen(&actions, 1, output, flags, 0o600) }
    posix_spawn_file_actions_addopen(&actions, 2, errors ?? "/dev/null", flags, 0o600)

    beginIn(folder, &actions)
    // What others of this process have open is not theirs.
    closeInherited(&actions)

    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var none = sigset_t(), all = sigset_t()
    sigemptyset(&none)
    sigfillset(&all)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setsigdefault(&attributes, &all)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))

    let merged = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    let path = try Self.locate(command)
    var arguments = arguments
    if command == "openssl", ["s_client", "s_server"].contains(arguments.first) {
      arguments.insert(contentsOf: Self.withoutSystemAuthorities, at: 1)
    }
    let argv = ([path] + arguments).map { strdup($0) } + [nil]
    let envp = merged.map { strdup("\($0)=\($1)") } + [nil]
    defer { for text in argv + envp { free(text) } }
    var child: pid_t = 0
    let failure = posix_spawn(&child, path, &actions, &attributes, argv, envp)
    guard failure == 0 else { throw CannotStart(description: "\(path): \(String(cString: strerror(failure)))") }
    identifier = child
    name = command
    test = ChildTimes.currentTest
    Thread.detachNewThread { self.reap() }
  }

  /// To read the system's hundred and more CAs takes openssl eight times as long as all else of its start.
  private static let withoutSystemAuthorities = ["-no-CAfile", "-no-CApath", "-no-CAstore"]

  private static func locate(_ command: String) throws -> String {
    if command.contains("/") { return command }
    // Debian's own has the modules that scripts import, and another one may be a script that looks for a version.
    if command == "python3" { return "/usr/bin/python3" }
    let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin").split(separator: ":").map(
      String.init)
    for folder in folders + ["/usr/sbin", "/sbin", "/usr/local/sbin"] where access("\(folder)/\(command)", X_OK) == 0 {
      return "\(folder)/\(command)"
    }
    throw CannotStart(description: "\(command) is not installed")
  }

  private func reap() {
    var information = siginfo_t()
    while waitid(P_PID, id_t(identifier), &information, WEXITED | WNOWAIT) != 0 && errno == EINTR {}
    // The id is given back to the system under the lock, so that no signal reaches a stranger.
    state.withLock { state in
      var status: Int32 = 0
      var used = rusage()
      guard wait4(identifier, &status, 0, &used) == identifier else {
        state = .exited(-1)
        return
      }
      ChildTimes.note(used, of: name, for: test)
      state = status & 0x7f == 0 ? .exited(status >> 8 & 0xff) : .killed(signal: status & 0x7f)
    }
  }

  /// How it ended; nil while it runs.
  package var ending: Ending? { state.withLock { $0 } }

  package func signal(_ number: Int32) {
    state.withLock { if $0 == nil { kill(identifier, number) } }
  }

  package func ended(within bound: Duration = .seconds(20)) async throws -> Ending {
    try await waiting(for: "process \(identifier) to end", within: bound) { ending }
  }

  /// Blocks until it has ended.
  package func wait() -> Ending {
    var information = siginfo_t()
    while waitid(P_PID, id_t(identifier), &information, WEXITED | WNOWAIT) != 0 && errno == EINTR {}
    // The thread that reaps it sees the same event.
    while true {
      if let ending { return ending }
      sched_yield()
    }
  }

  /// For the end of a scene: kills it and waits. Blocks for the moment that takes.
  package func stop() {
    signal(SIGKILL)
    for _ in 0..<2000 where ending == nil { usleep(1000) }
  }
}
