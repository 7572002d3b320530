import ArgumentParser
import Glibc

/// nginx's `-s quit`, `-s stop` and `-s reopen`; `-s reload` is `reload`, which waits for the result.
struct SignalCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "signal",
    abstract: "Signal the process that runs a configuration, as nginx -s does.",
    discussion: "Finds the process by its configuration, as `sallyport health` does, and doesn't wait for it.",
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

  func validate() throws { try file.refuseStandardInput() }

  func run() throws { try RunningProcess(of: file).signal(name.number) }
}
