import Observability
import Transport
import Upstream
import Language

extension SettingsBuilder {
  /// Builds all `upstream` blocks, before any `proxy_pass` refers to one of them.
  mutating func collectGroups(_ http: Scope) {
    for directive in http.own("upstream") {
      let name = directive.text(0)
      guard namedGroups[name.lowercased()] == nil else {
        error(directive.place(0), "duplicate upstream \"\(name)\"", hint: "use another name")
        continue
      }
      guard Authority.isHost(name) || kind == .stream && Self.isStreamName(name) else {
        error(
          directive.place(0), "invalid name of an upstream: \"\(name)\"",
          hint: "use a name like a host name, without a port")
        continue
      }
      let scope = Scope(directive.block ?? [], outer: nil)
      var group = UpstreamGroupSettings(name: name, servers: [], location: directive.location)
      group.isOfStream = kind == .stream
      let lines = scope.own("server")
      group.stateFile = stateFile(scope, lines)
      group.servers = lines.compactMap { upstreamServer($0) }
      group.isStateDamaged = group.stateFile.map { damagedStates.contains($0) } ?? false
      if group.stateFile != nil {
        // The API adds some, or has added those of the file.
      } else if lines.isEmpty {
        error(directive.location, "no servers are inside upstream \"\(name)\"", hint: "server ADDRESS:PORT;")
      } else if !group.servers.isEmpty, group.servers.allSatisfy(\.isBackup) {
        error(
          directive.location, "upstream \"\(name)\" has only backup servers",
          hint: "at least one server must not be a backup")
      }
      followNames(of: &group, Scope(directive.block ?? [], outer: http))
      if kind == .http { group.keepalive = keepalive(scope) }
      if scope.value("keepalive") != nil { keptGroups.insert(groups.count) }
      if let balance = balance(scope, of: &group) { self[Balance.Block.self].balances[groups.count] = balance }
      checkFollowed(group)
      if group.stateFile != nil, group.zone == nil {
        error(
          scope.own("state").first?.location ?? directive.location, "\"state\" without \"zone\"",
          hint: "zone \(name) 64k;")
      }
      namedGroups[name.lowercased()] = groups.count
      groups.append(group)
    }
  }

  /// The file of `state`, whose servers stand beside it by now (`ServerStates`); nil without one.
  private mutating func stateFile(_ scope: Scope, _ servers: [Directive]) -> String? {
    guard let line = scope.own("state").first else { return nil }
    let path = resolve(line.text(0), in: folder)
    if let server = servers.first(where: { $0.location.file != path }) {
      error(
        server.location, "\"server\" beside \"state\": the servers are those of the file",
        hint: "move the line into the file, or remove \"state\" at \(line.location)")
    }
    return path
  }

  /// The name can be what ALPN lists: `h2,http/1.1`. It is no address.
  private static func isStreamName(_ name: String) -> Bool {
    !name.isEmpty && name.utf8.count <= 255 && name.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x3A }
  }

  private mutating func keepalive(_ scope: Scope) -> KeepaliveSettings {
    var keepalive = KeepaliveSettings()
    (keepalive.connections, keepalive.isLocal) = keptConnections(scope)
    keepalive.requests = scope.number("keepalive_requests") ?? keepalive.requests
    keepalive.time = scope.milliseconds("keepalive_time") ?? keepalive.time
    keepalive.timeout = scope.milliseconds("keepalive_timeout") ?? keepalive.timeout
    return keepalive
  }

  mutating func upstreamServer(_ line: Directive) -> UpstreamServerSettings? {
    let address: UpstreamAddress
    do throws(Authority.ParseError) {
      let authority = try Authority(parsing: line.text(0))
      if kind == .stream, case .host(_, port: nil) = authority, !line.arguments.contains(where: \.isService) {
        throw Authority.ParseError(reason: "no port", hint: "server ADDRESS:PORT;")
      }
      address = authority.upstreamAddress(defaultPort: 80)
    } catch {
      self.error(line.place(0), "\(error.reason) in upstream \"\(line.text(0))\"", hint: error.hint)
      return nil
    }
    var server = UpstreamServerSettings(address: address, location: line.location, spelling: line.text(0))
    for word in line.arguments.dropFirst() {
      let (name, value) = word.text.splitAtEquals
      switch (name, value) {
      case ("backup", nil): server.isBackup = true
      case ("down", nil): server.isDown = true
      // Both are for `sticky`.
      case ("drain", nil) where kind == .http: server.isDraining = true
      case ("route", let value?) where kind == .http:
        guard (1...32).contains(value.utf8.count), value.utf8.allSatisfy(Self.isOfToken) else {
          error(
            word.location, "invalid parameter \"\(word.text)\"",
            hint: "1 to 32 letters, digits, \".\", \"-\", \"_\" and \"~\"")
          continue
        }
        server.route = Array(value.utf8)
      case ("weight", let value?): server.weight = number(word, value, in: 1...65535) ?? 1
      case ("max_fails", let value?): server.maxFails = number(word, value, in: 0...Int(Int32.max)) ?? 1
      case ("max_conns", let value?): server.maxConnections = number(word, value, in: 0...Int(Int32.max)) ?? 0
      case ("fail_timeout", let value?):
        guard let seconds = Quantity.seconds(value) else {
          error(word.location, "invalid parameter \"\(word.text)\"", hint: "it must be \(Expected.seconds)")
          continue
        }
        server.failTimeout = seconds
      case ("slow_start", let value?):
        guard let seconds = Quantity.seconds(value) else {
          error(word.location, "invalid parameter \"\(word.text)\"", hint: "it must be \(Expected.seconds)")
          continue
        }
        server.slowStart = seconds
      case ("resolve", nil), ("service", _?): break
      default:
        error(
          word.location, "invalid parameter \"\(word.text)\"",
          hint:
            "weight=N, max_fails=N, fail_timeout=TIME, max_conns=N, slow_start=TIME, \(kind == .http ? "route=NAME, " : "")"
            + "backup\(kind == .http ? ", drain" : "") or down")
      }
    }
    server.followed = followedName(line, address)
    return server
  }

  /// Parses the number of a `name=number` word.
  mutating func number(_ word: Word, _ text: String, in range: ClosedRange<Int>) -> Int? {
    guard let number = Quantity.number(text), range.contains(number) else {
      error(
        word.location, "invalid parameter \"\(word.text)\"",
        hint: "a number from \(range.lowerBound) to \(range.upperBound)")
      return nil
    }
    return number
  }

  /// Returns the group of one server for an address in `proxy_pass`. The same address always gets the same group.
  mutating func group(for authority: Authority, defaultPort: UInt16, at place: SourceLocation) -> Int {
    let address = authority.upstreamAddress(defaultPort: defaultPort)
    let name = authority.proxyHost(defaultPort: defaultPort)
    let key = "\(name) \(address)"
    if let index = addressGroups[key] { return index }
    addressGroups[key] = groups.count
    var group = UpstreamGroupSettings(
      name: name, servers: [UpstreamServerSettings(address: address, location: place)], location: place)
    group.isOfStream = kind == .stream
    groups.append(group)
    return groups.count - 1
  }
}

extension Word {
  fileprivate var isService: Bool { text.hasPrefix("service=") }
}

extension String {
  /// Splits `name=value`. Without `=`, the value is nil.
  var splitAtEquals: (name: String, value: String?) {
    guard let index = firstIndex(of: "=") else { return (self, nil) }
    return (String(self[..<index]), String(self[self.index(after: index)...]))
  }
}
