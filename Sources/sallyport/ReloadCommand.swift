import ArgumentParser
import Daemon
import CLinux
import Glibc
import Observability

/// For operators, for `ExecReload=` in the unit, and for restarts that can't become an outage.
struct ReloadCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "reload",
    abstract: "Have a running service load its configuration, or start anew, and wait for the result.",
    discussion: """
      Finds the process by its configuration, as `sallyport health` does, sends HUP, and waits. The exit status is 0 if the \
      new configuration serves, and 1 if it was refused or there was no answer. Run it as root or as the process's user.

      With the id of a process, for ExecReload= in the unit, it finds the result in the unit's RuntimeDirectory=.

      With --restart, it sends USR2, and waits: a new process starts beside the old one and takes over its sockets. If the new \
      one does not serve, such as because of a fault in the configuration, the old one serves on, and the exit status is 1. \
      `systemctl restart` stops the old one first, so there a fault is an outage.
      """
  ).example("sallyport reload --config /etc/sallyport/sallyport.conf")

  @Argument(help: "The service's main process: $MAINPID in the unit. Without it, the one that runs the configuration.")
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
    guard let process else { return try file.refuseStandardInput() }
    if restart { throw ValidationError("--restart finds the process by its configuration: --config") }
    if file.config != nil { throw ValidationError("name the process by its id or by --config") }
    if process <= 1 { throw ValidationError("\"\(process)\" is not the id of a service's process: it is above 1") }
  }

  func run() throws {
    if let process {
      try reload(process, within: timeout ?? 60)
    } else if restart {
      try replace(within: timeout ?? 100)
    } else {
      try reload(within: timeout ?? 60)
    }
  }

  /// By the process that runs the configuration, which tells of its reloads itself.
  private func reload(within seconds: Int) throws {
    let process = try RunningProcess(of: file)
    guard let former = process.answer.reload else {
      throw CommandFailure.told(
        "process \(process.identifier) is of a version that tells nobody of its reloads: send it HUP, and read the log")
    }
    try process.signal(SIGHUP)
    try wait(seconds, for: process.identifier) {
      let now = process.ask()
      guard now.process == process.identifier else { return nil }
      return now.answer?.reload.flatMap { $0.number > former.number ? $0 : nil }
    }
  }

  /// By its id.
  private func reload(_ process: Int32, within seconds: Int) throws {
    guard let path = ReloadResult.path else {
      throw CommandFailure.told(
        "$RUNTIME_DIRECTORY is not set: set RuntimeDirectory= in the unit, or name the configuration with --config")
    }
    guard let former = ReloadResult.read(path) else {
      throw CommandFailure.told("there is no \(path): the process does not serve yet, or has another runtime directory")
    }
    guard kill(process, SIGHUP) == 0 else {
      throw CommandFailure.told("kill(\(process)): \(String(cString: strerror(errno)))")
    }
    try wait(seconds, for: process) { ReloadResult.read(path).flatMap { $0.number > former.number ? $0 : nil } }
  }

  /// `result`: that of the reload, once it has begun.
  private func wait(_ seconds: Int, for process: Int32, _ result: () -> ReloadResult?) throws {
    let end = Self.seconds() &+ seconds
    while Self.seconds() < end {
      if let result = result() {
        switch result.state {
        case .running: break
        case .done: return print(result.words)
        case .partial, .refused: throw CommandFailure.told(result.words)
        }
      }
      guard kill(process, 0) == 0 || errno == EPERM else {
        throw CommandFailure.told("process \(process) has ended")
      }
      usleep(50_000)
    }
    throw CommandFailure.told("no result after \(seconds) seconds: read the log")
  }

  // MARK: A new process

  private func replace(within seconds: Int) throws {
    let old = try RunningProcess(of: file)
    try old.signal(SIGUSR2)
    var end = Self.seconds() &+ seconds, hasEnded = false
    while Self.seconds() < end {
      usleep(100_000)
      let now = old.ask()
      if let process = now.process, process != old.identifier {
        return print("process \(process) serves in place of \(old.identifier)")
      }
      if let answer = now.answer, answer.failedReplacements > old.answer.failedReplacements {
        throw CommandFailure.told(
          "the new process did not start, process \(old.identifier) serves on: \(answer.failedReplacement ?? "no reason")\n"
            + "    hint: the log has what the new one said, and `sallyport check` the faults of the configuration")
      }
      // The old one ends when the new one has its sockets, which then answers within an instant.
      if !hasEnded, old.hasEnded { (hasEnded, end) = (true, min(end, Self.seconds() &+ 5)) }
    }
    throw CommandFailure.told(
      hasEnded
        ? "process \(old.identifier) has ended, and no other one serves: start it"
        : "no result after \(seconds) seconds: read the log")
  }

  private static func seconds() -> Int {
    var clock = timespec()
    clock_gettime(CLOCK_MONOTONIC, &clock)
    return clock.tv_sec
  }
}
