import ArgumentParser
import Daemon
import Glibc
import Language
import Observability
import Review

/// Everything about one service at a glance.
struct DoctorCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "doctor",
    abstract: "Look at the service as a whole: does everybody who may get in, and nobody else?",
    discussion: """
      Asks the running process as `sallyport health` does, looks at each listener by a handshake, at each TLS upstream by the \
      policy that uses it, at the configuration with its files and names, at certificates, revocation lists, stores and orders \
      of ACME, at what the API has changed, and at the unit, limits, sandbox, disk and clock. What is wrong comes first. The \
      output has no key and no password. Run it as root or as the process's user.

      Exit status: 0 if all is well, 1 if something has failed, 3 if nothing has failed and somebody should look.
      """
  ).example("sallyport doctor --json > ticket.json")

  @OptionGroup var file: ConfigurationFile

  @Option(help: "The unix socket that the server of the API listens on; without such a socket, no API is asked.")
  var socket = "/run/sallyport/api.sock"

  @Option(help: "The location of the API.")
  var location = "/api"

  @Flag(help: "Print a line for each thing that is well, too.")
  var verbose = false

  @Flag(help: "Print JSON: one object.")
  var json = false

  func validate() throws { try file.refuseStandardInput() }

  func run() throws {
    signal(SIGPIPE, SIG_IGN)
    let path = file.likelyPath, now = Int64(time(nil))
    var report = DoctorReport()
    let health = HealthQuestion(HealthName.names(configuration: path), sought: path, within: 10, onlyLive: false).ask()
    for fact in health.facts { report.add(Self.section(fact.subject), Self.state(fact.state), fact.told) }
    for fact in MachineHealth.facts(of: health.process) {
      report.add(.machine, Self.state(fact.state), fact.text)
    }
    if let answer = health.answer {
      let told = Set(report.findings.filter { $0.state != .good }.map(\.text))
      for end in answer.certificates + answer.authorities where !told.contains(where: { $0.contains(end.file) }) {
        report.add(end: end.notAfter, of: end.file, at: now)
      }
      if let words = answer.unserved(ConfigurationDump(ConfigurationSource(path)).files) {
        report.add(.configuration, .warning, words)
      }
      addChanges(&report)
    }
    report.add(ProbeCommand.servers(of: path))
    report.addOrders(of: path, at: now)
    // What a start needs, such as free addresses, only a process that doesn't run yet still has to get.
    report.addCheck(path, health.process == nil ? .thisMachine(trial: DryStart.trial) : .serving)
    if json {
      print(report.json(version: "\(Product.version)", now: now))
    } else {
      for line in report.lines(isVerbose: verbose) { print(line) }
    }
    switch report.state {
    case .failed: throw ExitCode.failure
    case .warning: throw ExitCode(3)
    case .good, .unknown: break
    }
  }

  private func addChanges(_ report: inout DoctorReport) {
    guard access(socket, F_OK) == 0 else {
      return report.add(.changes, .unknown, "no API was asked: there is no \(socket) (--socket)")
    }
    do throws(APIClient.Fault) {
      report.add(changes: try APIClient(socket: socket, location: location, seconds: 5).changes())
    } catch {
      report.add(.changes, .unknown, error.description)
    }
  }

  private static func section(_ subject: HealthFact.Subject) -> DoctorReport.Section {
    switch subject {
    case .process, .generation, .reload, .workers, .log, .state, .file: .service
    case .listener, .refusals: .listeners
    case .certificate, .authority, .list, .spiffe, .staple: .certificates
    case .store, .register: .stores
    case .upstream: .upstreams
    }
  }

  private static func state(_ state: HealthFact.State) -> DoctorReport.State {
    switch state {
    case .good: .good
    case .warning: .warning
    case .failed: .failed
    }
  }
}

extension HealthFact {
  /// What health says of a process that isn't there names it already.
  fileprivate var told: String {
    subject == .process && state == .failed ? text : "\(subject.rawValue) \(text)"
  }
}
