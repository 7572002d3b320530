import ArgumentParser
import CLinux
import Configuration
import Glibc
import Observability

/// Where the process begins: the words of the command line, and the command that they name.
@main
enum Entry {
  static func main() {
    var words = words
    if let fault = CommandName.fault(in: words) {
      LogFile.standardError.write(string: fault)
      exit(ExitCode.validationFailure.rawValue)
    }
    // The demo's own options are those of the command that it is without a further word: --help tells them.
    if words.first == "demo", words.dropFirst().first?.hasPrefix("-") == true { words.insert("serve", at: 1) }
    if words == ["help", "demo"] { words = ["demo", "serve", "--help"] }
    Sallyport.main(words)
  }

  /// Without the program's own name. Not `CommandLine.arguments`, which is empty where /proc is not mounted.
  private static var words: [String] {
    var words: [String] = []
    while let word = linux_argument(Int32(clamping: words.count &+ 1)) { words.append(String(cString: word)) }
    return words
  }
}

/// The names of commands, compared with what was typed: the parser's own message does not always name a mistyped one.
enum CommandName {
  /// What is told of a name that no command has; nil where each is known, or an option stands in its place.
  static func fault(in words: [String]) -> String? {
    var command: any ParsableCommand.Type = Sallyport.self
    var path = "sallyport"
    // `help` names a command as the words themselves do.
    for word in words.first == "help" ? words.dropFirst() : words[...] {
      let inner = command.configuration.subcommands
      if inner.isEmpty || word.hasPrefix("-") { return nil }
      guard let next = inner.first(where: { $0._commandName == word }) else {
        let names = inner.map { $0._commandName }
        let near = Spelling.nearest(to: word, among: names).map { "did you mean \"\($0)\"?" }
        return """
          error: "\(word)" is not a command of \(path)
              hint: \(near ?? "the commands are: \(names.joined(separator: ", "))"); see `\(path) --help`

          """
      }
      command = next
      path += " \(word)"
    }
    return nil
  }
}
