import Language

/// What the section `global` says of all `bind` and `server` lines, and the files that the configuration names.
struct HAProxyGlobals {
  /// Options that a `bind` line with TLS has unless it says otherwise.
  private(set) var bind: [String: [String]] = [:]
  private(set) var server: [String: [String]] = [:]
  private var certificateBase = ""
  private var authorityBase = ""
  let files: SourceFiles
  let names: HAProxyConversion.CertificateNames

  init(_ lines: [HAProxyLine], files: SourceFiles, names: @escaping HAProxyConversion.CertificateNames) {
    self.files = files
    self.names = names
    server["verify"] = ["required"]
    for line in lines {
      let words = line.words.dropFirst()
      switch line.name {
      case "crt-base": certificateBase = line.word(1)
      case "ca-base": authorityBase = line.word(1)
      case "ssl-default-bind-options": bind.merge(HAProxyOptions(words, HAProxyBind.options).values) { $1 }
      case "ssl-default-server-options": server.merge(HAProxyOptions(words, HAProxyBind.options).values) { $1 }
      case "ssl-default-bind-ciphers": bind["ciphers"] = [line.word(1)]
      case "ssl-default-server-ciphers": server["ciphers"] = [line.word(1)]
      case "ssl-default-bind-ciphersuites": bind["ciphersuites"] = [line.word(1)]
      case "ssl-default-server-ciphersuites": server["ciphersuites"] = [line.word(1)]
      case "ssl-default-bind-curves": bind["curves"] = [line.word(1)]
      case "ssl-server-verify": server["verify"] = [line.word(1)]
      default: break
      }
    }
  }

  static func isRead(_ name: String) -> Bool {
    name == "ssl-server-verify"
      || ["bind", "server"].contains { side in
        ["options", "ciphers", "ciphersuites"].contains { name == "ssl-default-\(side)-\($0)" }
      } || name == "ssl-default-bind-curves"
  }

  func certificate(_ path: String) -> String { Self.path(path, certificateBase) }
  func authority(_ path: String) -> String { Self.path(path, authorityBase) }

  private static func path(_ text: String, _ base: String) -> String {
    ConvertedWord.path(
      text.hasPrefix("/") || base.isEmpty ? text : base.hasSuffix("/") ? base + text : "\(base)/\(text)")
  }
}

/// Options behind the name of a line: with a value, or without one.
struct HAProxyOptions {
  /// Names of options.
  struct Names {
    let valued: Set<String>
    let switches: Set<String>
  }

  /// A switch has no value.
  private(set) var values: [String: [String]] = [:]
  private(set) var unknown: [String] = []

  init(_ words: some Sequence<String>, _ names: Names) {
    var rest = Array(words)[...]
    while let word = rest.popFirst() {
      if names.valued.contains(word) {
        values[word, default: []].append(rest.popFirst() ?? "")
      } else if names.switches.contains(word) {
        values[word] = []
      } else {
        unknown.append(word)
      }
    }
  }
}
