import ArgumentParser
import Observability

/// The root command.
struct Sallyport: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "sallyport",
    abstract: "A mutual-TLS reverse proxy that reads nginx's configuration language and pins its upstreams.",
    version: "\(Product.name) \(Product.version)",
    subcommands: [
      RunCommand.self, ReloadCommand.self, CheckCommand.self, FormatCommand.self, PinCommand.self, ProbeCommand.self,
      CACommand.self,
      EnvelopeCommand.self, SignatureCommand.self, DemoCommand.self,
    ])
}

/// The configuration's path, which every command that reads a configuration takes in the same way.
struct ConfigurationFile: ParsableArguments {
  @Option(name: [.short, .customLong("config")], help: "The configuration file, in nginx's language.")
  var config: String
}
