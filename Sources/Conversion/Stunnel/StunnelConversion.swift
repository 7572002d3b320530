package import Language

/// stunnel's configuration as one of ours: each service is a server of `stream`.
///
/// A service in which a check can't be had is closed: its port refuses everybody, and a comment says why.
package enum StunnelConversion {
  /// `file` appears in notes. `files`: what `include` names.
  package static func convert(_ text: String, file: String, files: SourceFiles = .none) -> Converted {
    let old = StunnelFile(text, file: file, files: files)
    var document = ConversionDocument(origin: "stunnel's \(OldText.plain(Array(file.utf8)))")
    guard !old.isTooLarge else {
      let reason =
        "more than \(StunnelFile.maximumDefaults) global lines or \(StunnelFile.maximumServices) services: divide the file"
      return document.finished(with: [ConversionNote(.refused, OldLine(file: file, number: 1, text: ""), reason)])
    }
    globals(old.globals, &document)
    var faults = old.faults
    if old.services.isEmpty {
      faults.append(
        ConversionNote(
          .refused, OldLine(file: file, number: 1, text: ""),
          "there is no [service]: sallyport opens its own sockets, and isn't started by inetd"))
    }
    let shares = StunnelNames(old.services)
    var used: Set<String> = []
    for (index, service) in old.services.enumerated() {
      var head = StunnelService(
        service, master: shares.master(of: index), isMaster: shares.masters.contains(service.name),
        names: shares.names[index] ?? [], number: index + 1)
      var block = head.converted()
      for fault in shares.faults[index] ?? [] { block.refuse(fault.line, fault.reason) }
      if !used.insert(service.name).inserted { block.refuse(service.head, "there are two services of this name") }
      if let group = head.group { document.add(stream: group) }
      if let dropped = shares.dropped[index] {
        // The names of the service were another one's before, so stunnel never served it.
        for line in dropped { block.refuse(line, "an earlier service has this name", closing: false) }
        if (shares.names[index] ?? []).isEmpty {
          block.closed = []
          block.refuse(service.head, "no name is left for it")
        }
      }
      document.add(stream: block)
    }
    return document.finished(with: faults)
  }

  private static func globals(_ options: [StunnelOption], _ document: inout ConversionDocument) {
    let user = options.last { $0.name == "setuid" }, group = options.last { $0.name == "setgid" }
    if let user, let group {
      document.take(user.line, "user", user.value, group.value)
      document.take(group.line)
    } else if let user {
      document.take(user.line, "user", user.value)
    } else if let group {
      document.refuse(group.line, "the group stands behind the user: user USER GROUP;")
    }
    let level = options.last { $0.name == "debug" }
    let words = level.flatMap { self.level($0.value) } ?? "notice"
    if let level {
      if self.level(level.value) == nil {
        document.refuse(level.line, "no level of syslog")
      } else {
        document.take(level.line)
      }
    }
    var isLogged = false
    for option in options {
      switch option.name {
      case "output":
        isLogged = true
        document.take(option.line, "error_log", option.value == "/dev/stdout" ? "stderr" : option.value, words)
      case "syslog":
        guard option.value.lowercased() == "yes" else { document.take(option.line); continue }
        isLogged = true
        document.take(option.line, "error_log", "syslog:server=unix:/dev/log", words)
      case "log": document.take(option.line, because: "a log is never overwritten")
      case "pid": document.take(option.line, "pid", option.value.isEmpty ? "off" : option.value)
      case "foreground":
        document.take(option.line, because: "sallyport stays in the foreground; the service manager does the rest")
      case "chroot":
        document.refuse(
          option.line,
          "the sandbox takes its place: each file's name is what it is outside, so put the folder before names that were relative to it"
        )
      case "fips":
        if option.value.lowercased() == "yes" {
          document.refuse(option.line, "OpenSSL's own configuration turns on FIPS")
        } else {
          document.take(option.line)
        }
      case "engine", "enginectrl", "enginedefault", "provider", "providerparameter":
        document.refuse(option.line, "OpenSSL's own configuration loads providers; keys in a token are store:pkcs11:…")
      case "socket": socket(option, &document)
      case "compression":
        document.change(option.line, "TLS is never compressed")
      case "egd", "rndbytes", "rndfile", "rndoverwrite", "iconactive", "iconerror", "iconidle", "taskbar", "service",
        "setenv":
        document.take(option.line, because: "without effect here")
      default: break
      }
    }
    if !isLogged { document.write("error_log", "stderr", words) }
  }

  /// `socket = a|l|r:OPTION=VALUE`. One that binds to an interface keeps clients out.
  private static func socket(_ option: StunnelOption, _ document: inout ConversionDocument) {
    if option.value.uppercased().contains("BINDTODEVICE") {
      document.refuse(option.line, "sockets are bound to addresses: name that of the interface in listen")
    } else if option.value.uppercased().contains("NODELAY") {
      document.take(option.line, because: "always so")
    } else {
      document.change(option.line, "options of sockets stand behind the address in listen, such as so_keepalive=on")
    }
  }

  private static func level(_ text: String) -> String? {
    // `daemon.info` names the facility, too.
    let name = text.split(separator: ".").last.map { $0.lowercased() } ?? ""
    let names = ["emerg", "alert", "crit", "error", "warn", "notice", "info", "debug"]
    if let number = Int(name), names.indices.contains(number) { return names[number] }
    if name == "err" { return "error" }
    if name == "warning" { return "warn" }
    return names.contains(name) ? name : nil
  }
}
