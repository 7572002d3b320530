import ArgumentParser
import Daemon

struct RunCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run",
    abstract: "Serve what a configuration says, in the foreground.",
    discussion: """
      QUIT lets exchanges end and exits, TERM and INT stop at once, HUP reloads (a configuration with a fault is \
      refused, and the old one serves on), USR1 reopens the logs.
      """)

  @OptionGroup var file: ConfigurationFile

  func run() { Daemon.run(configuration: file.config) }
}
