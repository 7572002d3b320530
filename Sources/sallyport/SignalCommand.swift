import ArgumentParser
import Daemon
import Glibc
import TLS

/// nginx's `-s quit`, `-s stop` and `-s reopen`; `-s reload` is `reload`. Each waits for the result.
struct SignalCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "signal",
    abstract: "Signal the process that runs a configuration, as nginx -s does.",
    discussion: """
      Finds the process by its configuration, as `sallyport health` does, waits, and says what came of it. The exit status is \
      0 if the process has ended or has opened its logs anew, and 1 if not.
      """,
    shouldDisplay: false
  ).example("sallyport signal reopen --config /etc/sallyport/sallyport.conf")

  enum Name: String, ExpressibleByArgument, CaseIterable {
    /// QUIT: finish what is in progress, and end.
    case quit
    /// TERM: end at once.
    case stop
    /// USR1: reopen the logs.
    case reopen

    var number: Int32 {
      switch self {
      case .quit: SIGQUIT
      case .stop: SIGTERM
      case .reopen: SIGUSR1
      }
    }
  }

  @Argument(help: "quit, stop or reopen.")
  var name: Name

  @OptionGroup var file: ConfigurationFile

  @Option(help: "Seconds to wait.")
  var timeout = 60

  func validate() throws {
    try file.refuseStandardInput()
    guard (1...86_400).contains(timeout) else {
      throw ValidationError("--timeout \(timeout): expected 1 to 86400 seconds")
    }
  }

  func run() throws {
    let process = try RunningProcess(of: file)
    try process.signal(name.number)
    let wait = Deadline(seconds: timeout)
    while !wait.isOver {
      if process.hasEnded {
        if name == .reopen { throw CommandFailure.told("process \(process.identifier) has ended") }
        return print("process \(process.identifier) has ended")
      }
      if name == .reopen, let result = process.ask().answer?.reopening,
        result.number > process.answer.reopening?.number ?? 0
      {
        if result.state == .done { return print("process \(process.identifier): \(result.words)") }
        throw CommandFailure.told(result.words)
      }
      wait.pause(milliseconds: 50)
    }
    throw CommandFailure.told(
      name == .reopen
        ? "no result after \(timeout) seconds: read the log"
        : "process \(process.identifier) has not ended after \(timeout) seconds: requests or tunnels are in progress, until"
          + " worker_shutdown_timeout ends them")
  }
}
