import ArgumentParser
import Configuration
import Daemon
import Glibc
import Observability
import Language

struct HealthCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "health",
    abstract: "Ask the running process about its health, for probes of containers and monitors.",
    discussion: """
      Prints one line for each fact: the process, its generation, its workers, each listener and each certificate. Run \
      it on the same machine, or inside the same container, as the process's user or as root. It reads no file, writes \
      none, and needs no shell.

      Exit status: 0 if every fact is good, 1 if one has failed, 2 for a mistake in the command line, and 3 if none has \
      failed but there is a warning (WARN): the last reload was refused, a log loses lines, a state of the API isn't written, \
      an OCSP response is missing, a register can't be asked, a process beside the one that serves has ended, a limit \
      refuses many requests, many certificates of clients don't verify, or a certificate, a CA or a revocation list ends soon (ssl_expiry_warning). A file that can't be loaded is FAILED, while its former content serves, and so is a group \
      whose servers are all down. Warnings, files and groups are for people. So a probe that takes a process out of service should say --ready. A \
      restart mends no expired certificate, so a probe that restarts should say --live.
      """
  ).example("sallyport health --ready")

  @OptionGroup var file: ConfigurationFile

  @Option(help: "Instead of a configuration: an address of the process, as `sallyport proxy --listen` has it.")
  var listen: String?

  @Option(help: "Seconds for the whole question, 1 to 60.")
  var timeout: Int = 3

  @Flag(help: "Ask only what a restart could mend: the process and its workers.")
  var live = false

  @Flag(
    help: "Exit with 0 where there are only warnings, files that can't be loaded, and groups whose servers are down.")
  var ready = false

  @Flag(help: "Print JSON: one object.")
  var json = false

  func validate() throws {
    if listen != nil, file.config != nil { throw ValidationError("--listen and --config can't be combined") }
    if let config = file.config, ConfigurationSource(config) == .standardInput {
      throw ValidationError("--config -: name the process by its address, with --listen")
    }
    guard (1...60).contains(timeout) else { throw ValidationError("--timeout \(timeout): expected 1 to 60") }
    // Here, so that a mistake is told with the usage of this command.
    _ = try whom()
  }

  func run() throws {
    let (names, sought) = try whom()
    let report = HealthQuestion(names, sought: sought, within: timeout, onlyLive: live).ask()
    if json { print(report.json) } else { for line in report.lines { print(line) } }
    switch ready ? report.readiness : report.state {
    case .good: break
    case .warning: if !ready { throw ExitCode(3) }
    case .failed: throw ExitCode.failure
    }
  }

  /// The process to ask. In a container that `sallyport proxy` runs in, its variables say which. A container that has the
  /// variables and a configuration file runs one of the two: either answers.
  private func whom() throws -> (names: [HealthName], sought: String) {
    let variable = ProxyOption.listen.variable
    let own = file.config == nil ? getenv(variable).map { String(cString: $0) } : nil
    let path = file.likelyPath
    guard let text = listen ?? own?.split(whereSeparator: \.isNewline).first.map(String.init) else {
      return (HealthName.names(configuration: path), path)
    }
    do throws(ProxyOptionFault) {
      let addresses = try ListenOption.addresses(text, hasIPv6: true)
      let names = addresses.map { HealthName(listening: $0) }
      guard listen == nil else { return (names, "`sallyport proxy` on \(text)") }
      return (names + HealthName.names(configuration: path), "`sallyport proxy` on \(text), and none runs \(path)")
    } catch {
      let hint = error.hint.map { "; expected \($0)" } ?? ""
      throw ValidationError("\(listen == nil ? variable : "--listen") \"\(text)\": \(error.text)\(hint)")
    }
  }
}
