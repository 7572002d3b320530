import ArgumentParser
import Daemon
import Glibc
import Observability

struct HealthCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "health",
    abstract: "Ask the running process about its health, for probes of containers and monitors.",
    discussion: """
      Prints one line for each fact: the process, its generation, its workers, each listener and each certificate. Run \
      it on the same machine, or inside the same container, as the process's user or as root. It reads no file, writes \
      none, and needs no shell.

      Exit status: 0 if every fact is good, 1 if one is not, 2 for a mistake in the command line. A restart mends no \
      expired certificate, so a probe that restarts should say --live.
      """)

  @OptionGroup var file: ConfigurationFile

  @Option(help: "Seconds for the whole question, 1 to 60.")
  var timeout: Int = 3

  @Flag(help: "Ask only what a restart could mend: the process and its workers.")
  var live = false

  @Flag(help: "Print JSON: one object.")
  var json = false

  func validate() throws {
    guard (1...60).contains(timeout) else { throw ValidationError("--timeout: expected 1 to 60") }
  }

  func run() throws {
    let path = file.likelyPath
    let question = HealthQuestion(
      HealthName.names(configuration: path), sought: path, within: timeout, onlyLive: live)
    let report = question.ask()
    if json { print(report.json) } else { for line in report.lines { print(line) } }
    if !report.isHealthy { throw ExitCode.failure }
  }
}
