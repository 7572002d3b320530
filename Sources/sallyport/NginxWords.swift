/// The command lines of nginx's that name no command: `-t`, `-T`, `-c FILE`, also as `-tc FILE`, and `-s SIGNAL`.
enum NginxWords {
  enum Reading {
    /// The words are not nginx's.
    case none
    /// The words of the command that does the same.
    case command([String])
    /// nginx's, but not to be had here: what to print.
    case fault(String)
  }

  static func read(_ words: [String]) -> Reading {
    guard let first = words.first, first.hasPrefix("-"), !first.hasPrefix("--"), first != "-" else { return .none }
    var file: [String] = []
    /// Options of `check`; nil: the configuration is served.
    var test: [String]?
    var isQuiet = false
    var signal: String?
    var directives: [Substring] = []
    var rest = words[...]
    while let word = rest.popFirst() {
      guard word.hasPrefix("-"), word.utf8.count > 1 else {
        return fault(
          "\"\(word)\" is not an option", "after nginx's options, name the file with -c FILE, and no command")
      }
      var letters = word.dropFirst()
      while let letter = letters.popFirst() {
        switch letter {
        case "t": test = test ?? []
        case "T": test = ["--dump"]
        case "q": isQuiet = true
        case "v", "V": return .command(["--version"])
        case "?", "h": return .command(["--help"])
        case "c", "g", "s", "p", "e":
          // As in nginx, the value is what follows the letter, or the next word.
          guard let value = letters.isEmpty ? rest.popFirst() : String(letters), !value.isEmpty else {
            return fault("\"-\(letter)\" has no value", "-c FILE, or see `sallyport --help`")
          }
          letters = ""
          switch letter {
          case "c": file = ["--config", value]
          case "g": directives += value.split(separator: ";")
          case "s" where ["reload", "quit", "stop", "reopen"].contains(value): signal = value
          default: return unsupported(letter, value)
          }
        default: return .none
        }
      }
    }
    for directive in directives {
      switch directive.split(separator: " ") {
      case [], ["daemon", "off"], ["master_process", "on"], ["master_process", "off"]: break
      case ["daemon", "on"] where test != nil: break
      default: return unsupported("g", "\(directive);")
      }
    }
    // As in nginx, a test comes before a signal.
    if test == nil, let signal { return .command((signal == "reload" ? ["reload"] : ["signal", signal]) + file) }
    guard let test else { return .command(["run"] + file) }
    return .command(["check"] + file + test + (isQuiet ? ["--quiet"] : []))
  }

  private static func unsupported(_ option: Character, _ value: String) -> Reading {
    let hint =
      switch (option, value) {
      case ("g", "daemon on;"): "sallyport stays in the foreground: leave this out; the service manager does the rest"
      case ("g", _): "write the directives into the configuration file"
      case ("p", _): "relative names are relative to the folder of the configuration file, which -c FILE names"
      case ("e", _): "write it into the configuration file: error_log \(value);"
      default: "-s reload loads the configuration, quit drains, stop ends at once, reopen makes the logs anew"
      }
    return fault("\"-\(option) \(value)\" is nginx's, but not supported here", hint)
  }

  private static func fault(_ text: String, _ hint: String) -> Reading {
    .fault("error: \(text)\n    hint: \(hint)\n")
  }
}
