package import Language

extension HAProxyConversion {
  /// HAProxy's configuration with stand-ins.
  package static func trial(
    _ text: String, file: String, files: SourceFiles, in place: StandIns.Place
  ) -> Trial {
    let old = HAProxyFile(text, file: file)
    var trial = Trial(place)
    let globals = HAProxyGlobals(
      old.sections.filter { $0.kind == "global" }.flatMap(\.lines), files: files, names: { _ in nil })
    // Names in a ClientHello that is passed on: the servers behind speak TLS themselves.
    let passed = old.sections.flatMap(\.lines).flatMap(\.words).contains { $0.hasPrefix("req") && $0.contains("ssl_") }
    for section in old.sections {
      guard ["global", "defaults", "frontend", "backend", "listen", "userlist"].contains(section.kind) else {
        trial.omit(section.head, "this section has no stand-in")
        continue
      }
      trial.add("\(section.kind) \(section.name)", section.head)
      let all = lines(section, old.sections)
      let mode = all.last { $0.name == "mode" }?.word(1)
      let common = all.filter { $0.name == "default-server" }.flatMap { $0.words.dropFirst() }
      for line in section.lines where isKept(line, section.kind) {
        var words = line.words
        switch line.name {
        case "bind": words = bind(words, globals, line.line, &trial)
        case "server", "default-server":
          words = server(words, isHTTP: mode == "http", isPassedOn: passed && mode != "http", common, globals, &trial)
        default: break
        }
        trial.add("    " + words.map(quoted).joined(separator: " "), line.line)
      }
    }
    return trial
  }

  /// Logs, users and files without a stand-in decide nothing about a request.
  private static func isKept(_ line: HAProxyLine, _ kind: String) -> Bool {
    if kind == "global" { return line.name.hasPrefix("ssl-default-") || line.name == "ssl-server-verify" }
    return !["log", "errorfile", "stats", "log-format", "log-tag", "email-alert"].contains(line.name)
  }

  private static func bind(
    _ words: [String], _ globals: HAProxyGlobals, _ line: OldLine, _ trial: inout Trial
  ) -> [String] {
    let addresses = (words.count > 1 ? words[1] : "").split(separator: ",").map(String.init)
    let ports = addresses.compactMap { trial.standIns.listener($0) }
    var written = ["bind", ports.map { "127.0.0.1:\($0)" }.joined(separator: ",")]
    written += replaced(Array(words.dropFirst(2)), globals, &trial)
    guard let place = written.firstIndex(of: "crt-list"), place + 1 < written.count else { return written }
    guard case .success(let bytes) = globals.files.read(written[place + 1], Parser.maximumFileSize) else {
      trial.omit(line, "its crt-list can't be read")
      return written
    }
    let list = OldText.lines(String(decoding: bytes, as: UTF8.self), file: written[place + 1]).map { line -> String in
      guard !line.text.isEmpty, !line.text.hasPrefix("#") else { return "" }
      let words = line.text.replacing("[", with: " [ ").replacing("]", with: " ] ").split(separator: " ").map(
        String.init)
      let first = trial.standIns.file(.certificate, globals.certificate(words[0])).path
      return ([first] + replaced(Array(words.dropFirst()), globals, &trial)).joined(separator: " ")
        .replacing("[ ", with: "[").replacing(" ]", with: "]")
    }
    written[place + 1] = trial.standIns.file(.text(list.joined(separator: "\n") + "\n"), written[place + 1]).path
    return written
  }

  private static func server(
    _ words: [String], isHTTP: Bool, isPassedOn: Bool, _ common: [String], _ globals: HAProxyGlobals,
    _ trial: inout Trial
  ) -> [String] {
    let isDefault = words[0] == "default-server"
    let options = replaced(Array(words.dropFirst(isDefault ? 1 : 3)), globals, &trial)
    guard !isDefault, words.count > 2 else { return words.prefix(1) + options }
    let inEffect = options + replaced(common, globals, &trial)
    func value(_ name: String) -> String? {
      inEffect.firstIndex(of: name).flatMap { $0 + 1 < inEffect.count ? inEffect[$0 + 1] : nil }
    }
    var target = StandIns.Target(address: words[2], isHTTP: isHTTP)
    target.takesProxyProtocol = inEffect.contains { $0.hasPrefix("send-proxy") }
    if inEffect.contains("ssl") || isPassedOn {
      let sent = value("sni").map { $0.replacing("str(", with: "").replacing(")", with: "") }
      let names = [value("verifyhost"), sent, Endpoint(words[2])?.host].compactMap { $0 }
      let authorities = value("ca-file").flatMap { path in
        trial.standIns.files.indices.first { trial.standIns.path($0) == path }
      }
      target.handshake = StandIns.Handshake(
        names: names,
        authorities: (value("verify") ?? globals.server["verify"]?.last) == "none" ? nil : authorities,
        isPassedOn: !inEffect.contains("ssl"))
    }
    let port = trial.standIns.target(target) ?? 1
    return [words[0], words[1], "127.0.0.1:\(port)"] + options
  }

  /// Options whose files have stand-ins, without those that name what has none.
  private static func replaced(_ words: [String], _ globals: HAProxyGlobals, _ trial: inout Trial) -> [String] {
    var written: [String] = []
    var rest = words[...]
    var authorities = 0
    while let word = rest.popFirst() {
      switch word {
      case "crt":
        let path = globals.certificate(rest.popFirst() ?? "")
        written += [word, trial.standIns.file(.certificate, path).path]
      case "ca-file":
        let found = trial.standIns.file(.authorities, globals.authority(rest.popFirst() ?? ""))
        authorities = found.index
        written += [word, found.path]
      case "crl-file":
        let path = globals.authority(rest.popFirst() ?? "")
        written += [word, trial.standIns.file(.revocations(authorities: authorities), path).path]
      case "interface", "user", "group", "uid", "gid", "mode", "resolvers", "init-addr", "port", "process", "thread":
        _ = rest.popFirst()
      case "v4v6", "v6only", "transparent": break
      default: written.append(word)
      }
    }
    return written
  }

  private static func quoted(_ word: String) -> String {
    let isPlain = word.utf8.allSatisfy { byte in
      byte > 0x20 && byte < 0x7F && !"#'\"\\$".utf8.contains(byte)
    }
    return isPlain && !word.isEmpty ? word : "'" + word.replacing("'", with: "'\\''") + "'"
  }
}
