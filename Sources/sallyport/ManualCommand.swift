import ArgumentParser
import Configuration
import Observability

/// Prints sallyport.conf(5) for deploy/package. Hidden, because users read the page by `man sallyport.conf`.
struct ManualCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "manual",
    abstract: "Print the manual page sallyport.conf(5), in roff.",
    shouldDisplay: false)

  @Option(help: "The date in the page's footer, as YYYY-MM-DD.")
  var date = ""

  func run() {
    print(ConfigurationPage.roff(date: date, version: "\(Product.name) \(Product.version)"), terminator: "")
  }
}
