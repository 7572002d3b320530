import ArgumentParser
import Configuration
import Glibc
import Observability
import Review

struct FormatCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "format",
    abstract: "Reprint a configuration with uniform indentation.",
    discussion: """
      Keeps comments, one blank line of several, line breaks inside a directive, and each word as it is written. Refuses \
      a text that is not of nginx's language. Included files are files of their own: format each by its name.
      """
  ).example("sallyport format --in-place sallyport.conf")

  @Flag(help: "Change nothing; exit with status 1 if the file is not formatted.")
  var check = false

  @Flag(help: "Replace the file atomically, with its mode and owner.")
  var inPlace = false

  @Argument(help: "The configuration file; - or no file: standard input.")
  var file = "-"

  func validate() throws {
    if check && inPlace { throw ValidationError("--check and --in-place can't be combined") }
    if inPlace && file == "-" { throw ValidationError("--in-place needs a file") }
  }

  func run() throws {
    do throws(FormattedFile.Failure) {
      let formatted = try FormattedFile(file)
      if check {
        guard !formatted.isChanged else {
          print("\(file) is not formatted")
          throw FormattedFile.Failure(text: nil)
        }
      } else if inPlace {
        try formatted.replace()
      } else {
        formatted.print()
      }
    } catch {
      if let text = error.text { LogFile.standardError.write(string: "\(text)\n") }
      throw ExitCode.failure
    }
  }
}
