import ArgumentParser
import Observability

/// The root command.
struct Sallyport: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "sallyport",
    abstract: "A mutual-TLS reverse proxy that reads nginx's configuration language and pins its upstreams.",
    version: "\(Product.name) \(Product.version)",
    subcommands: [
      RunCommand.self, ProxyCommand.self, ReloadCommand.self, SignalCommand.self, HealthCommand.self,
      DoctorCommand.self,
      ControlCommand.self, CheckCommand.self, WaysCommand.self, ClientsCommand.self, FormatCommand.self,
      ConvertCommand.self, ComposeCommand.self, PinCommand.self,
      ACMECommand.self, ProbeCommand.self, CACommand.self, TrustCommand.self,
      EnvelopeCommand.self, SignatureCommand.self, AuditCommand.self, DemoCommand.self, ManualCommand.self,
    ])
}

extension CommandConfiguration {
  /// The same with an example of a command line at the end of its help, and of its manual page.
  func example(_ line: String) -> CommandConfiguration {
    var configuration = self
    if !discussion.isEmpty { configuration.discussion += "\n\n" }
    configuration.discussion += "Example: \(line)"
    return configuration
  }
}
