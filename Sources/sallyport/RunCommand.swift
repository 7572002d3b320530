import ArgumentParser
import Daemon

struct RunCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run",
    abstract: "Run the proxy in the foreground.",
    discussion: """
      Signals: QUIT finishes the exchanges in progress and exits. TERM and INT stop immediately. HUP reloads; if the \
      new configuration has an error, the old one stays in effect. USR1 reopens the logs.
      """)

  @OptionGroup var file: ConfigurationFile

  func run() throws { Daemon.run(configuration: try file.path()) }
}
