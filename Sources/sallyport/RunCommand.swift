import ArgumentParser
import Configuration
import Daemon
import Language

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
      """
  ).example("sallyport run --config /etc/sallyport/sallyport.conf")

  @Argument(help: "The configuration file, as with --config.")
  var path: String?

  @OptionGroup var file: ConfigurationFile

  func validate() throws { try file.refuse(besides: path) }

  func run() throws { Daemon.run(ConfigurationSource(try path ?? file.path(starting: true))) }

  /// The path of a command line in the form that services have: `run`, `--config` or `-c`, and a name.
  ///
  /// The parser, which reads all other forms, costs an eighth of the time to the first answer: it reflects on its own
  /// completion command first. nil leaves the words to it.
  static func plainPath(in words: [String]) -> String? {
    guard words.count == 3, words[0] == "run", words[1] == "--config" || words[1] == "-c", !words[2].isEmpty,
      words[2] == "-" || !words[2].hasPrefix("-")
    else { return nil }
    return words[2]
  }
}
