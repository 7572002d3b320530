import ArgumentParser
import Daemon
import Glibc
import Observability

/// For `ExecReload=` in the unit, and for restarts that can't become an outage.
struct ReloadCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "reload",
    abstract: "Have a running service load its configuration, or start anew, and wait for the result.",
    discussion: """
      Sends HUP to the process, and waits. The exit status is 0 if the new configuration serves, and 1 if it was refused \
      or there was no answer. Needs RuntimeDirectory= in the unit, by which both processes find the result. For \
      ExecReload= with systemd before 253: later versions wait for a reload themselves.

      With --restart, it finds the process by its configuration, as `sallyport health` does, sends USR2, and waits: a new \
      process starts beside the old one and takes over its sockets. If the new one does not serve, such as because of a fault \
      in the configuration, the old one serves on, and the exit status is 1. `systemctl restart` stops the old one first, so \
      there a fault is an outage.
      """)

  @Argument(help: "The service's main process: $MAINPID in the unit. Not with --restart.")
  var process: Int32?

  @Flag(help: "Replace the process by a new one, which reads everything anew.")
  var restart = false

  @OptionGroup var file: ConfigurationFile

  @Option(help: "Seconds to wait: 60, with --restart 100 (a new process has 90 to start).")
  var timeout: Int?

  func validate() throws {
    if let timeout, timeout < 1 || timeout > 86_400 {
      throw ValidationError("--timeout \(timeout): expected 1 to 86400 seconds")
    }
    if restart {
      if process != nil { throw ValidationError("--restart finds the process by its configuration: --config") }
      if file.config == "-" { throw ValidationError("--config -: only a process with a file can be found") }
      return
    }
    guard let process else { throw ValidationError("give the id of the service's process, or --restart") }
    if file.config != nil { throw ValidationError("--config belongs to --restart") }
    if process <= 1 { throw ValidationError("\"\(process)\" is not the id of a service's process: it is above 1") }
  }

  func run() throws {
    if let process { try reload(process, within: timeout ?? 60) } else { try replace(within: timeout ?? 100) }
  }

  private func reload(_ process: Int32, within seconds: Int) throws {
    guard let path = ReloadResult.path else {
      throw failure("$RUNTIME_DIRECTORY is not set: set RuntimeDirectory= in the unit, or send HUP and read the log")
    }
    guard let former = ReloadResult.read(path) else {
      throw failure("there is no \(path): the process does not serve yet, or has another runtime directory")
    }
    guard kill(process, SIGHUP) == 0 else { throw failure("kill(\(process)): \(String(cString: strerror(errno)))") }
    for _ in 0..<seconds * 20 {
      if let result = ReloadResult.read(path), result.number > former.number {
        switch result.state {
        case .running: break
        case .done: return print(result.words)
        case .partial, .refused: throw failure(result.words)
        }
      }
      guard kill(process, 0) == 0 || errno == EPERM else { throw failure("process \(process) has ended") }
      usleep(50_000)
    }
    throw failure("no result after \(seconds) seconds: read the log")
  }

  // MARK: A new process

  private func replace(within seconds: Int) throws {
    let path = file.likelyPath
    func ask() -> HealthReport {
      HealthQuestion(HealthName.names(configuration: path), sought: path, within: 3, onlyLive: true).ask()
    }
    let before = ask()
    guard let old = before.process, let former = before.answer else {
      throw failure(before.facts.map(\.text).joined(separator: "; "))
    }
    guard kill(old, SIGUSR2) == 0 else { throw failure("kill(\(old)): \(String(cString: strerror(errno)))") }
    var end = Self.seconds() &+ seconds, hasEnded = false
    while Self.seconds() < end {
      usleep(100_000)
      let now = ask()
      if let process = now.process, process != old {
        return print("process \(process) serves in place of \(old)")
      }
      if let answer = now.answer, answer.failedReplacements > former.failedReplacements {
        throw failure(
          "the new process did not start, process \(old) serves on: \(answer.failedReplacement ?? "no reason")\n"
            + "    hint: the log has what the new one said, and `sallyport check` the faults of the configuration")
      }
      // The old one ends when the new one has its sockets, which then answers within an instant.
      if !hasEnded, kill(old, 0) != 0, errno == ESRCH { (hasEnded, end) = (true, min(end, Self.seconds() &+ 5)) }
    }
    throw failure(
      hasEnded
        ? "process \(old) has ended, and no other one serves: start it"
        : "no result after \(seconds) seconds: read the log")
  }

  private static func seconds() -> Int {
    var clock = timespec()
    clock_gettime(CLOCK_MONOTONIC, &clock)
    return clock.tv_sec
  }

  private func failure(_ text: String) -> ExitCode {
    LogFile.tell("error: \(text)", level: 3)
    return .failure
  }
}
