/// The flags of a command line of ghostunnel's, as its parser reads them.
struct GhostunnelFlags {
  struct Flag: Hashable {
    let name: String
    /// Empty for a switch.
    let value: String
    let line: OldLine
  }

  enum Mode: String { case server, client }

  private(set) var mode: (mode: Mode, line: OldLine)?
  private(set) var flags: [String: [Flag]] = [:]
  private(set) var faults: [ConversionNote] = []

  private static let switches: Set<String> = [
    "allow-all", "disable-authentication", "unsafe-target", "unsafe-listen", "proxy-protocol", "auto-acme-agree-to-tos",
    "use-workload-api", "allow-unsafe-cipher-suites", "enable-pprof", "enable-shutdown", "syslog", "eventlog",
    "skip-resolve", "use-landlock", "disable-landlock", "keychain-require-token",
  ]
  static let repeatable: Set<String> = [
    "allow-cn", "allow-ou", "allow-dns", "allow-ip", "allow-uri", "allow-spki-pin", "verify-cn", "verify-ou",
    "verify-dns", "verify-ip", "verify-uri", "verify-spki-pin", "quiet",
  ]
  private static let renamed = [
    "allow-dns-san": "allow-dns", "allow-ip-san": "allow-ip", "allow-uri-san": "allow-uri",
    "verify-dns-san": "verify-dns",
    "verify-ip-san": "verify-ip", "verify-uri-san": "verify-uri", "connect-proxy": "proxy",
  ]
  private static let secrets: Set<String> = ["storepass", "pkcs11-pin"]

  /// Words with their places.
  init(_ words: [OldLine]) {
    var rest = words[...]
    while let word = rest.popFirst() {
      let text = word.text
      guard text.hasPrefix("--"), text.utf8.count > 2 else {
        if mode == nil, let found = Mode(rawValue: text) {
          mode = (found, word)
        } else if !text.isEmpty, text != "--" {
          fault(word, "no flag and no command of ghostunnel's that can be converted: server or client, and --FLAG")
        }
        continue
      }
      var name = String(text.dropFirst(2))
      var value: String?
      if let equals = name.firstIndex(of: "=") {
        value = String(name[name.index(after: equals)...])
        name = String(name[..<equals])
      }
      name = Self.renamed[name] ?? name
      if Self.switches.contains(name) {
        guard value == nil || value == "true" else { fault(word, "a switch has no value"); continue }
        add(Flag(name: name, value: "", line: word))
      } else if name.hasPrefix("no-"), Self.switches.contains(String(name.dropFirst(3))), value == nil {
        flags[String(name.dropFirst(3))] = nil
      } else {
        if value == nil {
          guard let next = rest.popFirst() else { fault(word, "it has no value"); continue }
          value = next.text
        }
        let shown = "--\(name)=\(Self.secrets.contains(name) ? "…" : value ?? "")"
        add(Flag(name: name, value: value ?? "", line: word.masked(shown)))
      }
    }
  }

  private mutating func add(_ flag: Flag) {
    if !Self.repeatable.contains(flag.name), let first = flags[flag.name]?.first {
      return fault(flag.line, "it is given twice: \(first.line.text)")
    }
    flags[flag.name, default: []].append(flag)
  }

  private mutating func fault(_ line: OldLine, _ reason: String) {
    faults.append(ConversionNote(.refused, line, reason))
  }
}
