import ArgumentParser
import Configuration
import Daemon

struct RunCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run",
    abstract: "Run the proxy in the foreground.",
    discussion: """
      Signals: QUIT finishes the exchanges in progress and exits. TERM and INT stop immediately. HUP reloads; if the \
      new configuration has an error, the old one stays in effect. USR1 reopens the logs. USR2 starts the new \
      binary, which takes over the sockets; this process drains once the new one serves.

      A configuration on standard input (--config -) can't be read again: HUP keeps its text, and loads the files that \
      it names. Relative names in it are relative to the current folder.

      The exit status of a start that is refused is 78 if the configuration or a file that it names has to change, and 1 \
      if something else stands in the way, such as an address in use.
      """)

  @Argument(help: "The configuration file, as with --config.")
  var path: String?

  @OptionGroup var file: ConfigurationFile

  func validate() throws { try file.refuse(besides: path) }

  func run() throws { Daemon.run(ConfigurationSource(try path ?? file.path())) }
}
