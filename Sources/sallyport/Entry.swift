import ArgumentParser
import CLinux
import Configuration
import Crypto
import Daemon
import Glibc
import Observability
import Language

/// Starts the process: reads the arguments and runs the command that they name.
@main
enum Entry {
  static func main() {
    // A file at its largest size (RLIMIT_FSIZE) must be an error like a full disk: the signal would end the process in the
    // middle of a change.
    signal(SIGXFSZ, SIG_IGN)
    OpenSSLStart.prepare()
    var words = words
    switch NginxWords.read(words) {
    case .none: break
    case .command(let command): words = command
    case .fault(let text):
      LogFile.standardError.write(string: text)
      exit(ExitCode.validationFailure.rawValue)
    }
    words = ConvertCommand.completed(words)
    if words.first == "help", words.count == 2, let name = words.last, let text = Reference.text(of: name) {
      print(text, terminator: "")
      exit(0)
    }
    if let fault = CommandName.fault(in: words) {
      LogFile.standardError.write(string: fault)
      exit(ExitCode.validationFailure.rawValue)
    }
    // `demo` without a further word means `demo serve`, whose --help explains the demo's options.
    if words.first == "demo", words.dropFirst().first?.hasPrefix("-") == true { words.insert("serve", at: 1) }
    if words == ["help", "demo"] { words = ["demo", "serve", "--help"] }
    if let path = RunCommand.plainPath(in: words) { Daemon.run(ConfigurationSource(path)) }
    // For probes, 2 means that the probe itself is wrong, and not the process.
    Sallyport.run(words, usage: words.first == "health" ? 2 : ExitCode.validationFailure.rawValue)
  }

  /// The arguments without the program's name. `CommandLine.arguments` would be empty where /proc is not mounted.
  private static var words: [String] {
    var words: [String] = []
    while let word = linux_argument(Int32(clamping: words.count &+ 1)) { words.append(String(cString: word)) }
    return words
  }
}

extension Sallyport {
  /// Runs a command. `status`: the exit status for mistakes in the command line, which are told as all errors are.
  fileprivate static func run(_ words: [String], usage status: Int32) -> Never {
    do {
      var command = try parseAsRoot(words)
      try command.run()
      exit(withError: nil)
    } catch {
      guard exitCode(for: error) == .validationFailure else { exit(withError: error) }
      let message = fullMessage(for: error)
      let said = message.hasPrefix("Error: ") ? "e" + message.dropFirst() : message
      LogFile.standardError.write(string: "\(said)\n")
      Glibc.exit(status)
    }
  }
}

/// Checks the names of commands before the parser does: the parser's own message does not always name a mistyped
/// command.
enum CommandName {
  /// Returns the message about an unknown command; nil when each command is known or an option comes first.
  static func fault(in words: [String]) -> String? {
    var command: any ParsableCommand.Type = Sallyport.self
    var path = "sallyport"
    // The words after `help` name a command like the words themselves.
    for word in words.first == "help" ? words.dropFirst() : words[...] {
      let inner = command.configuration.subcommands
      if inner.isEmpty || word.hasPrefix("-") { return nil }
      guard let next = inner.first(where: { $0._commandName == word }) else {
        let names = inner.filter { $0.configuration.shouldDisplay }.map { $0._commandName }
        let isReference = words.first == "help" && path == "sallyport"
        let known = isReference ? names + Reference.names(like: word) : names
        let near = Spelling.nearest(to: word, among: known).map { "did you mean \"\($0)\"?" }
        // It is an argument of the default, such as a file.
        if near == nil, command.configuration.defaultSubcommand != nil { return nil }
        let kinds = isReference ? "a command, a directive or a variable" : "a command of \(path)"
        return """
          error: "\(word)" is not \(kinds)
              hint: \(near ?? "the commands are: \(names.joined(separator: ", "))"); see `\(path) --help`

          """
      }
      command = next
      path += " \(word)"
    }
    return nil
  }
}
