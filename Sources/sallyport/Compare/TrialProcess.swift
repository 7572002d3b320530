import Glibc
import TLS
import Transport

/// A program that runs beside this one, with its output in a file. It ends with this value.
final class TrialProcess {
  private var process: pid_t = 0

  /// `program`: a path. Throws what stands in the way.
  init(_ program: String, _ arguments: [String], output: String) throws(ComparisonFailure) {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_APPEND, 0o600)
    posix_spawn_file_actions_adddup2(&actions, 1, 2)
    let words: [UnsafeMutablePointer<CChar>?] = ([program] + arguments).map { strdup($0) } + [nil]
    defer { for word in words { free(word) } }
    let code = posix_spawn(&process, program, &actions, nil, words, environ)
    guard code == 0 else {
      process = 0
      throw ComparisonFailure(text: "\(program) can't be started: \(String(cString: strerror(code)))")
    }
  }

  /// Whether it still runs.
  private var isAlive: Bool {
    guard process > 0, waitpid(process, nil, WNOHANG) == process else { return process > 0 }
    process = 0
    return false
  }

  /// Waits until it listens on all ports; false: it ended, or does not within thirty seconds.
  func listens(on ports: [Int]) -> Bool {
    let deadline = Deadline(seconds: 30)
    return ports.allSatisfy { port in
      while isAlive, !deadline.isOver {
        if Self.isOpen(port) { return true }
        deadline.pause(milliseconds: 20)
      }
      return false
    }
  }

  private static func isOpen(_ port: Int) -> Bool {
    guard let address = SocketAddress(literal: "127.0.0.1", port: UInt16(clamping: port)) else { return false }
    return TrialExchange(nil, seconds: 1).answer(from: address, to: [], isEnough: { _ in true }).reason.isEmpty
  }

  func end() {
    guard process > 0 else { return }
    kill(process, SIGTERM)
    let deadline = Deadline(seconds: 3)
    while isAlive, !deadline.isOver { deadline.pause(milliseconds: 10) }
    guard process > 0 else { return }
    kill(process, SIGKILL)
    waitpid(process, nil, 0)
    process = 0
  }

  deinit { end() }
}

struct ComparisonFailure: Error { let text: String }
