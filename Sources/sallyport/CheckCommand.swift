import ArgumentParser
import Daemon
import Observability

struct CheckCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "check",
    abstract: "Report all errors in a configuration, and print its effective policy.",
    discussion:
      "Loads certificates, keys and pins as `run` does. The exit status is 0 if the configuration is valid.")

  @OptionGroup var file: ConfigurationFile

  @Flag(help: "Treat warnings as errors.")
  var strict = false

  func run() throws {
    var check = Check(file.config)
    check.becomeServingUser()
    for diagnostic in check.diagnostics { print(diagnostic) }
    if !check.diagnostics.isEmpty { print("") }
    for line in check.policy { print(line) }
    let errors = check.count(.error) + (strict ? check.count(.warning) : 0)
    guard errors == 0 else {
      print("configuration \(file.config) is not valid: \(errors) \(errors == 1 ? "error" : "errors")")
      throw ExitCode.failure
    }
    print("configuration \(file.config) is valid")
  }
}
