import ArgumentParser
import Daemon
import Observability

struct CheckCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "check",
    abstract: "Tell everything that is wrong with a configuration, and what it comes to.",
    discussion:
      "Certificates, keys and pins are loaded as `run` would load them. The exit status is 0 when it is valid.")

  @OptionGroup var file: ConfigurationFile

  @Flag(help: "Warnings count as errors.")
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
