import ArgumentParser
import Daemon
import Glibc
import Observability

/// For `ExecReload=` in the unit.
struct ReloadCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "reload",
    abstract: "Have a running service load its configuration, and wait for the result.",
    discussion: """
      Sends HUP to the process, and waits. The exit status is 0 if the new configuration serves, and 1 if it was refused \
      or there was no answer. Needs RuntimeDirectory= in the unit, by which both processes find the result. For \
      ExecReload= with systemd before 253: later versions wait for a reload themselves.
      """)

  @Argument(help: "The service's main process: $MAINPID in the unit.")
  var process: Int32

  @Option(help: "Seconds to wait.")
  var timeout = 60

  func validate() throws {
    if process <= 1 { throw ValidationError("\"\(process)\" is not the id of a service's process: it is above 1") }
    if timeout < 1 || timeout > 86_400 { throw ValidationError("--timeout \(timeout): expected 1 to 86400 seconds") }
  }

  func run() throws {
    guard let path = ReloadResult.path else {
      throw failure("$RUNTIME_DIRECTORY is not set: set RuntimeDirectory= in the unit, or send HUP and read the log")
    }
    guard let former = ReloadResult.read(path) else {
      throw failure("there is no \(path): the process does not serve yet, or has another runtime directory")
    }
    guard kill(process, SIGHUP) == 0 else { throw failure("kill(\(process)): \(String(cString: strerror(errno)))") }
    for _ in 0..<timeout * 20 {
      if let result = ReloadResult.read(path), result.number > former.number {
        switch result.state {
        case .running: break
        case .done: return print(result.words)
        case .refused: throw failure(result.words)
        }
      }
      guard kill(process, 0) == 0 || errno == EPERM else { throw failure("process \(process) has ended") }
      usleep(50_000)
    }
    throw failure("no result after \(timeout) seconds: read the log")
  }

  private func failure(_ text: String) -> ExitCode {
    LogFile.standardError.write(string: "error: \(text)\n")
    return .failure
  }
}
