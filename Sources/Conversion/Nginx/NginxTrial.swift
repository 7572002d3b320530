package import Language
import Observability

extension NginxConversion {
  /// nginx's configuration with stand-ins, each directive on a line of its own. `isOld`: for nginx itself, which also wants
  /// to know where its own files are.
  package static func trial(
    _ text: String, file: String, files: SourceFiles, in place: StandIns.Place, isOld: Bool
  ) -> Trial {
    var parser = Parser(mainFile: file, files: files)
    let directives = parser.parse(bytes: Array(text.utf8), path: file)
    var writer = NginxTrialWriter(Trial(place), directives)
    if isOld {
      for line in ["daemon off;", "master_process off;", "pid \(place.folder)/old.pid;"] { writer.trial.add(line, nil) }
    }
    writer.trial.add("error_log \(place.folder)/\(isOld ? "old" : "new").log notice;", nil)
    for directive in directives { writer.write(directive, [], isOld: isOld) }
    return writer.trial
  }
}

private struct NginxTrialWriter {
  var trial: Trial
  /// What stands around a line that passes over TLS, by the group or server that it names.
  private var encrypted: [String: [Directive]] = [:]
  private var groups: Set<String> = []
  private var names: [String] = []

  init(_ trial: Trial, _ directives: [Directive]) {
    self.trial = trial
    for directive in directives { look(directive, []) }
  }

  private mutating func look(_ directive: Directive, _ around: [Directive]) {
    let first = directive.arguments.first?.text ?? ""
    switch directive.name {
    case "proxy_pass", "grpc_pass":
      if first.hasPrefix("https://") || first.hasPrefix("grpcs://") { encrypted[Self.authority(first)] = around }
      if nearest("proxy_ssl", around) == "on" { encrypted[first] = around }
    case "upstream": groups.insert(first)
    case "proxy_ssl_name", "grpc_ssl_name", "server_name": names += directive.arguments.map(\.text)
    default: break
    }
    for inner in directive.block ?? [] { look(inner, around + [directive]) }
  }

  private static func authority(_ url: String) -> String {
    let rest = url.split(separator: "://", maxSplits: 1).last ?? ""
    return String(rest.prefix { $0 != "/" && $0 != "?" })
  }

  private static let dropped: Set<String> = [
    "user", "pid", "error_log", "access_log", "daemon", "master_process", "lock_file", "ssl_dhparam", "load_module",
    "ssl_session_ticket_key", "client_body_temp_path", "proxy_temp_path", "fastcgi_temp_path", "uwsgi_temp_path",
    "scgi_temp_path", "ssl_password_file", "worker_processes", "ssl_ocsp", "ssl_ocsp_responder", "ssl_stapling",
  ]

  mutating func write(_ directive: Directive, _ around: [Directive], isOld: Bool) {
    let text = Self.text(directive, directive.arguments.map(\.text)) + (directive.block == nil ? ";" : " { … }")
    let line = OldLine(
      file: OldText.plain(Array(directive.location.file.utf8)), number: directive.location.line,
      text: OldText.plain(Array(text.utf8)))
    // Where its modules are, only nginx itself needs to know.
    guard !Self.dropped.contains(directive.name) || isOld && directive.name == "load_module" else { return }
    guard let block = directive.block else {
      guard let words = words(directive, around, line) else { return }
      return trial.add(Self.text(directive, words) + ";", line)
    }
    trial.add(Self.text(directive, directive.arguments.map(\.text)) + " {", line)
    if directive.name == "http", isOld {
      trial.add("access_log off;", nil)
      for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        trial.add("\(kind)_temp_path \(trial.standIns.place.folder)/\(kind);", nil)
      }
    }
    // A server of both families has one stand-in.
    let hasIPv4 = block.contains { $0.name == "listen" && $0.arguments.first?.text.hasPrefix("[") == false }
    for inner in block {
      let isIPv6 = inner.arguments.first?.text.hasPrefix("[") == true
      if inner.name == "listen", isIPv6, hasIPv4 { continue }
      write(inner, around + [directive], isOld: isOld)
    }
    trial.add("}", nil)
  }

  private static func text(_ directive: Directive, _ words: [String]) -> String {
    ([directive.name] + words).map(NginxTree.written).joined(separator: " ")
  }

  /// nil: the directive is left out.
  private mutating func words(_ directive: Directive, _ around: [Directive], _ line: OldLine) -> [String]? {
    var words = directive.arguments.map(\.text)
    let isHTTP = around.first?.name == "http"
    guard let first = words.first else { return words }
    switch directive.name {
    case "listen":
      guard !words.contains("udp"), !words.contains("quic") else { return nil }
      // A port without an address is that of all addresses, and an address without a port has nginx's own.
      let endpoint = Endpoint(first) ?? Endpoint("\(first):80")
      let isAny = endpoint?.host.map { ["0.0.0.0", "::"].contains($0) } ?? false
      let address = isAny ? String(first.split(separator: ":").last ?? "") : endpoint?.listen
      guard let port = trial.standIns.listener(address ?? first) else { return nil }
      words[0] = "127.0.0.1:\(port)"
      words.removeAll { $0.hasPrefix("ipv6only") || $0 == "reuseport" || $0 == "deferred" }
    case "ssl_certificate", "ssl_certificate_key", "proxy_ssl_certificate", "proxy_ssl_certificate_key",
      "grpc_ssl_certificate", "grpc_ssl_certificate_key":
      guard !first.contains("$") else {
        trial.omit(line, "a certificate with a variable in its name has no stand-in")
        return words
      }
      let certificate = directive.name.hasSuffix("_key") ? nearest(String(directive.name.dropLast(4)), around) : first
      words[0] = trial.standIns.file(.certificate, certificate ?? first).path
    case "ssl_client_certificate", "ssl_trusted_certificate", "proxy_ssl_trusted_certificate",
      "grpc_ssl_trusted_certificate":
      words[0] = trial.standIns.file(.authorities, first).path
    case "ssl_crl", "proxy_ssl_crl", "grpc_ssl_crl":
      let prefix = directive.name.dropLast(4)
      let file = nearest(prefix == "ssl" ? "ssl_client_certificate" : "\(prefix)_trusted_certificate", around)
      guard let file else { return words }
      let authorities = trial.standIns.file(.authorities, file).index
      words[0] = trial.standIns.file(.revocations(authorities: authorities), first).path
    case "proxy_pass", "grpc_pass":
      let authority = isHTTP ? Self.authority(first) : first
      guard !groups.contains(authority) else { return words }
      guard !first.contains("$"), !first.contains("unix:") else {
        leaveOut(line, "its target is known when a request comes, and has no stand-in")
        return nil
      }
      guard let port = target(authority, isHTTP, of: authority, around) else { return words }
      words[0] =
        isHTTP ? first.replacing(authority, with: "127.0.0.1:\(port)", maxReplacements: 1) : "127.0.0.1:\(port)"
    case "fastcgi_pass", "uwsgi_pass", "scgi_pass":
      guard !first.contains("$"), !first.contains("://") else {
        leaveOut(line, "a program behind has no stand-in if its address has a variable, or TLS")
        return nil
      }
      // A server of HTTP stands in: who reaches it is compared, and not what its parameters tell.
      let port = groups.contains(first) ? nil : target(first, true, of: first, around).map { "127.0.0.1:\($0)" }
      trial.add("proxy_pass http://\(port ?? first);", line)
      return nil
    case "memcached_pass":
      leaveOut(line, "memcached has no stand-in")
      return nil
    case "server" where around.last?.name == "upstream":
      let group = around.last?.arguments.first?.text ?? ""
      guard let port = target(first, isHTTP, of: group, around) else { return words }
      words[0] = "127.0.0.1:\(port)"
    default: break
    }
    return words
  }

  /// Something that would connect to what is no stand-in.
  private mutating func leaveOut(_ line: OldLine, _ reason: String) {
    trial.omit(line, reason)
    trial.add("return 503;", line)
  }

  private mutating func target(_ address: String, _ isHTTP: Bool, of name: String, _ around: [Directive]) -> Int? {
    var target = StandIns.Target(address: address, isHTTP: isHTTP)
    if nearest("proxy_protocol", around) == "on", !isHTTP { target.takesProxyProtocol = true }
    if let around = encrypted[name] {
      let host = Endpoint(address)?.host ?? String(address.prefix { $0 != ":" })
      let file = nearest("proxy_ssl_trusted_certificate", around) ?? nearest("grpc_ssl_trusted_certificate", around)
      let isVerified = [nearest("proxy_ssl_verify", around), nearest("grpc_ssl_verify", around)].contains("on")
      let authorities = file.map { trial.standIns.file(.authorities, $0).index }
      target.handshake = StandIns.Handshake(
        names: [host] + names.filter { Endpoint.isHost($0) }, authorities: isVerified ? authorities : nil)
    }
    return trial.standIns.target(target)
  }

  /// The value of a directive at the nearest level.
  private func nearest(_ name: String, _ around: [Directive]) -> String? {
    for level in around.reversed() {
      if let found = (level.block ?? []).last(where: { $0.name == name }) { return found.arguments.first?.text }
    }
    return nil
  }
}
