import ArgumentParser
import Daemon
import Features
import Glibc
import Loading
import Observability
import Review

struct CheckCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "check",
    abstract: "Report all errors in a configuration, and print its effective policy.",
    discussion: """
      Loads certificates, keys and pins, looks up names, and tries addresses, logs and folders as `run` does. It listens \
      on nothing and makes no file. What `run` would refuse is an error, and so is a server block that no client can get \
      into. An address that another process has is a warning.

      The exit status is 0 if the configuration is valid. With --diff it is 0 if nothing changes in whom the \
      configuration trusts, 1 if something does, and 2 if a configuration is not valid. With --running it is 0 if nothing \
      differs, 1 if something does, and 2 if the API can't be asked. With --policy it is 0 if all assertions hold, and 2 if \
      one fails, a rule is uncovered, or a file can't be read. With --clients it is 0 if everybody who got in still does, 2 \
      if somebody doesn't, and 1 if the configuration or a record can't be used.
      """
  ).example("sallyport check new.conf --diff /etc/sallyport/sallyport.conf")

  @Argument(help: "The configuration file, as with --config.")
  var path: String?

  @OptionGroup var file: ConfigurationFile

  @Flag(help: "Say of each directive without effect why it has none.")
  var verbose = false

  @Flag(name: .shortAndLong, help: "Print errors only, as nginx -q does.")
  var quiet = false

  @Flag(
    help:
      "Judge the files alone, for a machine that doesn't run the configuration: look up no names, and try no addresses and folders."
  )
  var offline = false

  @Flag(help: "Treat warnings as errors.")
  var strict = false

  @Flag(
    help:
      "Print one JSON object: whether the configuration is valid, its messages and its policy; with --explain the steps, with --diff the changes."
  )
  var json = false

  @Flag(help: "Print the configuration and all files that it includes, as nginx -T does; secrets are masked.")
  var dump = false

  @Option(
    help:
      "Print what would happen to this request, and why: 'METHOD URL'; or to a connection of stream: 'TCP HOST:PORT'.")
  var explain: String?

  @Option(help: "With --explain: the file of the certificate that the client shows.")
  var cert: String?

  @Option(help: "With --explain: the address that the client connects from.")
  var from: String?

  @Option(help: "With --explain: a field of the request, 'NAME: VALUE'. Can be repeated.")
  var header: [String] = []

  @Option(help: "Print what changes in trust and access from this older configuration file to the one of --config.")
  var diff: String?

  @Option(
    help: ArgumentHelp(
      "Print whom of this record of `client_record`, or of a folder with records, the configuration will refuse. Can be repeated.",
      valueName: "record"))
  var clients: [String] = []

  @Option(help: ArgumentHelp("With --clients: judge at this date, as 2027-03-15.", valueName: "date"))
  var at: String?

  @Flag(
    help:
      "Print where the running process differs from the file: lines that don't serve, a reload that was refused, what its API (`ctl`) has changed, and addresses that it listens on and the file doesn't name, or the other way round."
  )
  var running = false

  @Option(
    help:
      "With --running: the unix socket that the server of the API listens on. (default: \(Self.usualSocket), if it is there)"
  )
  var socket: String?
  private static let usualSocket = "/run/sallyport/api.sock"

  @Option(help: "With --running: the location of the API.")
  var location = "/api"

  @Option(
    help:
      "Judge the assertions of this file about who gets where, by clients that exist in memory only. Can be repeated.")
  var policy: [String] = []

  @Flag(help: "With --policy: name the rules of the configuration that no assertion would miss.")
  var coverage = false

  @Option(help: "With --policy: write the results to this file too, as JUnit does (XML).")
  var junit: String?

  func validate() throws {
    try file.refuse(besides: path)
    if policy.isEmpty, coverage || junit != nil { throw ValidationError("--coverage and --junit belong to --policy") }
    if quiet, verbose { throw ValidationError("--quiet and --verbose can't be combined") }
    let modes = [dump, explain != nil, diff != nil, running, !policy.isEmpty, !clients.isEmpty].filter { $0 }.count
    if modes > 1 {
      throw ValidationError("--dump, --explain, --diff, --running, --policy and --clients can't be combined")
    }
    if json, dump || running { throw ValidationError("--json can't be combined with --dump or --running") }
    if let at, clients.isEmpty || Day.moment(at) == nil {
      throw ValidationError("--at belongs to --clients, and is a date such as 2027-03-15")
    }
    if explain == nil, cert != nil || from != nil || !header.isEmpty {
      throw ValidationError("--cert, --from and --header belong to --explain")
    }
  }

  func run() throws {
    if running { return try tellOfRunning() }
    let path = try self.path ?? file.path()
    if let explain { return try tell(of: explain, path) }
    if !clients.isEmpty { return try tellOfClients(path) }
    if let diff { return try compare(from: diff, to: path) }
    if !policy.isEmpty { return try judge(path) }
    var check = Check(path, offline ? .files : .thisMachine(trial: DryStart.trial))
    if !offline { check.becomeServingUser() }
    let report = check.report(isStrict: strict, detail: quiet ? .errors : verbose ? .everything : .summary)
    if dump { return try printDump(check, report) }
    if json {
      print(report.json)
    } else {
      for line in report.lines(isColoured: isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR") == nil) { print(line) }
    }
    if !report.isValid { throw ExitCode.failure }
  }

  /// As nginx: the verdict to stderr, and the files to stdout only if the configuration is valid.
  private func printDump(_ check: Check, _ report: CheckReport) throws {
    for line in report.lines(isColoured: false, withPolicy: false) { complain(line) }
    guard report.isValid else { throw ExitCode.failure }
    check.writeDump()
  }

  private func tell(of words: String, _ path: String) throws {
    do throws(Explanation.Refusal) {
      let explanation = try Explanation(
        of: words, certificate: cert, from: from, fields: header, configuration: path)
      if json { return print(explanation.json) }
      for line in explanation.lines { print(line) }
    } catch {
      if json {
        print(error.json(words, configuration: path))
        throw ExitCode.failure
      }
      for diagnostic in error.diagnostics.folded { complain("\(diagnostic)") }
      complain("error: \(error.text)")
      throw ExitCode.failure
    }
  }

  private func judge(_ path: String) throws {
    do throws(AccessReport.Refusal) {
      let report = try AccessReport(of: policy, configuration: path, withCoverage: coverage)
      if json { print(report.json) }
      for line in json ? [] : report.lines { print(line) }
      if let junit { try report.writeJUnit(to: junit) }
      if report.isFine { return }
    } catch {
      for diagnostic in error.diagnostics.folded { complain("\(diagnostic)") }
      complain("error: \(error.text)")
    }
    throw ExitCode(2)
  }

  private func tellOfClients(_ path: String) throws {
    let record: RecordedClients, forecast: ClientForecast
    do throws(RecordedFilesError) { record = try RecordedClients(files: clients) } catch {
      complain("error: \(LogEscape.visible(error.description))")
      throw ExitCode.failure
    }
    do throws(Explanation.Refusal) {
      forecast = try ClientForecast(record, by: path, at: at.flatMap(Day.moment), now: Int64(time(nil)))
    } catch {
      for diagnostic in error.diagnostics.folded { complain("\(diagnostic)") }
      complain("error: \(error.text)")
      throw ExitCode.failure
    }
    if json { print(forecast.json) }
    for line in json ? [] : forecast.lines { print(line) }
    if forecast.hasRefused { throw ExitCode(2) }
  }

  private func tellOfRunning() throws {
    var changes = ListenDifference.lines(configuration: path ?? file.likelyPath)
    // Most configurations have no API.
    let asksAPI = socket != nil || access(Self.usualSocket, F_OK) == 0
    do throws(APIClient.Fault) {
      if asksAPI {
        changes += try APIClient(socket: socket ?? Self.usualSocket, location: location, seconds: 5).changes()
      }
    } catch {
      for change in changes { print(LogEscape.visible(change)) }
      complain("error: \(LogEscape.visible(error.description))")
      throw ExitCode(2)
    }
    for change in changes { print(LogEscape.visible(change)) }
    if !asksAPI {
      print("no API was asked: there is no \(Self.usualSocket); name the socket of an API with --socket")
    }
    if !changes.isEmpty { throw ExitCode(1) }
    if asksAPI { print("nothing is changed by the API") }
  }

  private func compare(from old: String, to path: String) throws {
    do throws(TrustDifference.Refusal) {
      let difference = try TrustDifference(from: old, to: path)
      if json { print(difference.json(from: old, to: path)) }
      for line in json ? [] : difference.lines { print(line) }
      if !difference.changes.isEmpty { throw TrustDifference.Refusal.changed }
    } catch {
      switch error {
      case .changed: throw ExitCode(1)
      case .invalid(let path, let diagnostics):
        if json {
          print(TrustDifference.json(invalid: path, diagnostics))
          throw ExitCode(2)
        }
        for diagnostic in diagnostics.folded { complain("\(diagnostic)") }
        complain("error: configuration \(path) is not valid")
        throw ExitCode(2)
      }
    }
  }

  private func complain(_ text: String) { LogFile.standardError.write(string: "\(text)\n") }
}
