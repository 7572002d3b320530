import ArgumentParser
import Configuration
import Observability

/// Prints what is made from the rows of all features, for deploy/package and docs. Hidden, because users read the pages by
/// `man sallyport.conf` and `man sallyport.variables`.
struct ManualCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "manual",
    abstract: "Print a page of the manual: sallyport.conf(5) or sallyport.variables(5) in roff, or one of docs.",
    shouldDisplay: false
  ).example("sallyport manual sallyport.conf.5")

  enum Page: String, ExpressibleByArgument, CaseIterable {
    case configuration = "sallyport.conf.5"
    case variables = "sallyport.variables.5"
    case directivesOfDocs = "DIRECTIVES.md"
    case variablesOfDocs = "VARIABLES.md"
  }

  @Argument(help: "sallyport.conf.5, sallyport.variables.5, DIRECTIVES.md or VARIABLES.md.")
  var page = Page.configuration

  @Option(help: "The date in the page's footer, as YYYY-MM-DD.")
  var date = ""

  func run() {
    let version = "\(Product.name) \(Product.version)"
    let text =
      switch page {
      case .configuration: ConfigurationPage.roff(date: date, version: version)
      case .variables: VariableManual.roff(date: date, version: version)
      case .directivesOfDocs: DirectiveManual.markdown()
      case .variablesOfDocs: VariableManual.markdown()
      }
    print(text, terminator: "")
  }
}
