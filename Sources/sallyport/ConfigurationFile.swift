import ArgumentParser
import Observability
import Review

/// The configuration's path, which every command that reads a configuration takes in the same way.
struct ConfigurationFile: ParsableArguments {
  @Option(
    name: [.short, .customLong("config")],
    help: """
      The configuration file, in nginx's language; - is standard input. Without it: the first of ./sallyport.conf and \
      /etc/sallyport/sallyport.conf that exists.
      """)
  var config: String?

  func validate() throws {
    if config?.isEmpty == true { throw ValidationError("--config \"\": name a file") }
  }

  /// Refuses a command line that names the file by this option and by an argument.
  func refuse(besides argument: String?) throws {
    guard let argument else { return }
    if argument.isEmpty { throw ValidationError("\"\": name a file") }
    if let config { throw ValidationError("\(argument) and --config \(config): name one configuration file") }
  }

  /// For commands that find a process by its configuration.
  func refuseStandardInput() throws {
    if config == "-" { throw ValidationError("--config -: only a process with a file can be found") }
  }

  /// The path, or an error that says where a file was sought. `starting`: whoever asks would run a proxy.
  func path(starting: Bool = false) throws -> String {
    if let config { return config }
    if let found = ConfigurationLookup.find() { return found }
    LogFile.standardError.write(string: ConfigurationLookup.fault(starting: starting))
    throw ExitCode.failure
  }

  /// The path even if no such file exists: a process may run on after its file was removed.
  var likelyPath: String { config ?? ConfigurationLookup.find() ?? ConfigurationLookup.places.last ?? "" }
}
