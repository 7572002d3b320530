import Forward
import Language
import Observability
import Traffic
import Transport
import Upstream

extension UpstreamGroups {
  /// Builds all `upstream` blocks, before any `proxy_pass` refers to one of them.
  static func begin(_ http: Scope, _ builder: inout SettingsBuilder) {
    for directive in block.lines(in: http) {
      let name = directive.text(0)
      guard builder.namedGroups[name.lowercased()] == nil else {
        builder.error(directive.place(0), "duplicate upstream \"\(name)\"", hint: "use another name")
        continue
      }
      guard Authority.isHost(name) || builder.kind == .stream && isStreamName(name) else {
        builder.error(
          directive.place(0), "invalid name of an upstream: \"\(name)\"",
          hint: "use a name like a host name, without a port")
        continue
      }
      let scope = Scope(directive.block ?? [], outer: nil)
      var group = UpstreamGroupSettings(name: name, servers: [], location: directive.location)
      group.isOfStream = builder.kind == .stream
      let lines = server.lines(in: scope)
      group.stateFile = stateFile(scope, lines, &builder)
      group.servers = lines.compactMap { UpstreamServerSettings.read($0, &builder) }
      group.isStateDamaged = group.stateFile.map { builder.damagedStates.contains($0) } ?? false
      if group.stateFile != nil {
        // The API adds some, or has added those of the file.
      } else if lines.isEmpty {
        builder.error(directive.location, "no servers are inside upstream \"\(name)\"", hint: "server ADDRESS:PORT;")
      } else if !group.servers.isEmpty, group.servers.allSatisfy(\.isBackup) {
        builder.error(
          directive.location, "upstream \"\(name)\" has only backup servers",
          hint: "at least one server must not be a backup")
      }
      // The directives of the block inherit those of http.
      group.nameResolution = NameResolutionSettings.read(Scope(directive.block ?? [], outer: http), &builder)
      if builder.kind == .http {
        // nginx 1.29.7: without a line, an upstream block has `keepalive 32 local`.
        (group.keepalive.connections, group.keepalive.isLocal) = (32, true)
        keepalive.read(scope, into: &group.keepalive, &builder)
      }
      if kept.line(in: scope) != nil { builder.keptGroups.insert(builder.groups.count) }
      if let balance = Balance.settings(scope, of: &group, &builder) {
        builder[Balance.Block.self].balances[builder.groups.count] = balance
      }
      group.checkFollowed(&builder)
      if group.stateFile != nil, group.zone == nil {
        builder.error(
          state.ownLine(in: scope)?.location ?? directive.location, "\"state\" without \"zone\"",
          hint: "zone \(name) 64k;")
      }
      builder.namedGroups[name.lowercased()] = builder.groups.count
      builder.groups.append(group)
    }
  }

  /// The file of `state`, whose servers stand beside it by now (`ServerStates`); nil without one.
  private static func stateFile(_ scope: Scope, _ servers: [Directive], _ builder: inout SettingsBuilder) -> String? {
    guard let line = state.ownLine(in: scope) else { return nil }
    let path = resolve(line.text(0), in: builder.folder)
    if let server = servers.first(where: { $0.location.file != path }) {
      builder.error(
        server.location, "\"server\" beside \"state\": the servers are those of the file",
        hint: "move the line into the file, or remove \"state\" at \(line.location)")
    }
    return path
  }

  static func keptConnections(_ line: Directive, _ builder: inout SettingsBuilder) -> (count: Int, isLocal: Bool) {
    var count = 0
    if let number = Quantity.number(line.text(0)), (0...1_000_000).contains(number) {
      count = number
    } else {
      builder.refuse(line, 0, hint: "it must be a number from 0 to 1000000; 0 keeps none")
    }
    if line.arguments.count == 2, line.text(1) != "local" {
      builder.error(line.place(1), "invalid parameter \"\(line.text(1))\"", hint: "local, or nothing")
    }
    return (count, line.arguments.count == 2)
  }

  /// The name can be what ALPN lists: `h2,http/1.1`. It is no address.
  private static func isStreamName(_ name: String) -> Bool {
    !name.isEmpty && name.utf8.count <= 255 && name.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x3A }
  }
}

extension UpstreamServerSettings {
  static func read(_ line: Directive, _ builder: inout SettingsBuilder) -> Self? {
    let address: UpstreamAddress
    do throws(Authority.ParseError) {
      let authority = try Authority(parsing: line.text(0))
      if builder.kind == .stream, case .host(_, port: nil) = authority, !line.arguments.contains(where: \.isService) {
        throw Authority.ParseError(reason: "no port", hint: "server ADDRESS:PORT;")
      }
      address = authority.upstreamAddress(defaultPort: 80)
    } catch {
      builder.error(line.place(0), "\(error.reason) in upstream \"\(line.text(0))\"", hint: error.hint)
      return nil
    }
    var server = Self(address: address, location: line.location, spelling: line.text(0))
    for word in line.arguments.dropFirst() {
      let (name, value) = word.text.splitAtEquals
      switch (name, value) {
      case ("backup", nil): server.isBackup = true
      case ("down", nil): server.isDown = true
      // Both are for `sticky`.
      case ("drain", nil) where builder.kind == .http: server.isDraining = true
      case ("route", let value?) where builder.kind == .http:
        guard (1...32).contains(value.utf8.count), value.utf8.allSatisfy(StickySettings.isOfToken) else {
          builder.refuse(word, hint: "1 to 32 letters, digits, \".\", \"-\", \"_\" and \"~\"")
          continue
        }
        server.route = Array(value.utf8)
      case ("weight", let value?): server.weight = builder.number(word, value, in: 1...65535) ?? 1
      case ("max_fails", let value?): server.maxFails = builder.number(word, value, in: 0...Int(Int32.max)) ?? 1
      case ("max_conns", let value?): server.maxConnections = builder.number(word, value, in: 0...Int(Int32.max)) ?? 0
      case ("fail_timeout", let value?):
        guard let seconds = Quantity.seconds(value) else {
          builder.refuse(word, hint: "it must be \(Expected.seconds)")
          continue
        }
        server.failTimeout = seconds
      case ("slow_start", let value?):
        guard let seconds = Quantity.seconds(value) else {
          builder.refuse(word, hint: "it must be \(Expected.seconds)")
          continue
        }
        server.slowStart = seconds
      case ("resolve", nil), ("service", _?): break
      default:
        builder.error(
          word.location, "invalid parameter \"\(word.text)\"",
          hint:
            "weight=N, max_fails=N, fail_timeout=TIME, max_conns=N, slow_start=TIME, \(builder.kind == .http ? "route=NAME, " : "")"
            + "backup\(builder.kind == .http ? ", drain" : "") or down")
      }
    }
    server.followed = FollowedName.read(line, address, &builder)
    return server
  }
}

extension Word {
  fileprivate var isService: Bool { text.hasPrefix("service=") }
}
