import Forward
import JSON
import Language
package import Observability
import Traffic
package import Transport
package import Upstream

/// The body of a POST of a denial.
package struct APIDenialBody: Equatable {
  package let fingerprint: [UInt8]
  package let seconds: Int
  /// Empty for none.
  package let note: String

  package init(_ bytes: [UInt8]) throws(APIFault) {
    var members = try APIJSON.members(bytes)
    let said = members.removeValue(forKey: "note")
    guard Set(members.keys) == ["fingerprint", "seconds"] else {
      throw .body("expected \"fingerprint\", \"seconds\", perhaps \"note\", and nothing else")
    }
    guard let note = said.map(\.text) ?? "", DenialReason.admits(note: note) else {
      throw .body("invalid \"note\": a line of \(DenialReason.longestNote) octets at most")
    }
    self.note = note
    guard case .fingerprint(let octets)? = members["fingerprint"]?.text.flatMap({ ClientName(fingerprint: $0) }) else {
      throw .body("invalid \"fingerprint\": 64 hexadecimal digits (SHA-256 of the certificate), or 40 (SHA-1)")
    }
    guard let number = members["seconds"]?.integer, let seconds = Int(exactly: number),
      (1...ClientDenials.longest).contains(seconds)
    else { throw .body("invalid \"seconds\": a number from 1 to \(ClientDenials.longest)") }
    (fingerprint, self.seconds) = (octets, seconds)
  }
}

/// The body of a POST of the level of error logs.
package struct APILogLevelBody: Equatable {
  package let level: LogLevel
  package let seconds: Int

  package init(_ bytes: [UInt8]) throws(APIFault) {
    let members = try APIJSON.members(bytes)
    guard Set(members.keys) == ["level", "seconds"] else {
      throw .body("expected \"level\" and \"seconds\", and nothing else")
    }
    let levels = LogLevelOverride.levels
    guard let level = levels.first(where: { $0.name == members["level"]?.text }) else {
      throw .body("invalid \"level\": \(levels.map(\.name).joined(separator: ", "))")
    }
    guard let number = members["seconds"]?.integer, let seconds = Int(exactly: number),
      (1...LogLevelOverride.longest).contains(seconds)
    else { throw .body("invalid \"seconds\": a number from 1 to \(LogLevelOverride.longest)") }
    (self.level, self.seconds) = (level, seconds)
  }
}

/// The body of a POST of a server, as JSON of nginx Plus.
package struct APINewServerBody: Equatable {
  package let address: SocketAddress
  package let settings: UpstreamServerSettings

  /// `isOfStream`: the address must have a port, and `sticky` has no route for it.
  package init(_ bytes: [UInt8], isOfStream: Bool) throws(APIFault) {
    var members = try APIJSON.members(bytes)
    guard let text = members.removeValue(forKey: "server")?.text else { throw .body("missing \"server\" argument") }
    var (route, isBackup): ([UInt8], Bool) = ([], false)
    if let said = members.removeValue(forKey: "backup") {
      guard let flag = said.flag else { throw .body("invalid \"backup\": true or false") }
      isBackup = flag
    }
    if let said = members.removeValue(forKey: "route") {
      guard !isOfStream, let text = said.text, text.utf8.count <= 32,
        text.utf8.allSatisfy(StickySettings.isOfToken)
      else { throw .body("invalid \"route\": up to 32 letters, digits, \".\", \"-\", \"_\" and \"~\"") }
      route = Array(text.utf8)
    }
    let patch = try APIServerBody(members).patch
    if isOfStream { try APIServerBody.refuseDrain(patch) }
    guard ServerState.canHold(text) else {
      throw .body(
        "invalid \"server\": blanks, control characters and ; { } \" ' \\ $ # can't stand in an address or a path")
    }
    let authority: Authority
    do throws(Authority.ParseError) { authority = try Authority(parsing: text) } catch {
      throw .body("invalid \"server\": \(error.reason)")
    }
    guard case .address(let address) = authority.upstreamAddress(defaultPort: isOfStream ? 0 : 80),
      address.port != 0
    else { throw .body("invalid \"server\": an address and a port, such as 10.0.0.7:8080, or unix:PATH") }
    var settings = UpstreamServerSettings(
      address: .address(address), location: SourceLocation(file: "api", line: 1, column: 1), spelling: text)
    settings.weight = patch.weight ?? settings.weight
    settings.maxConnections = patch.maxConnections ?? settings.maxConnections
    settings.maxFails = patch.maxFails ?? settings.maxFails
    settings.failTimeout = patch.failTimeout ?? settings.failTimeout
    settings.slowStart = patch.slowStart ?? settings.slowStart
    settings.isDown = patch.isDown ?? false
    settings.isDraining = patch.isDraining ?? false
    (settings.route, settings.isBackup) = (route, isBackup)
    (self.address, self.settings) = (address, settings)
  }
}

/// The body of a PATCH of a server, as JSON of nginx Plus: what it says of the server, each member once and of its kind.
package struct APIServerBody: Equatable {
  package let patch: ServerPatch

  package init(_ bytes: [UInt8]) throws(APIFault) { try self.init(APIJSON.members(bytes)) }

  fileprivate init(_ members: [String: JSONValue]) throws(APIFault) {
    var patch = ServerPatch()
    for (name, value) in members {
      switch name {
      case "weight": patch.weight = try Self.number(name, value, 1...65_535)
      case "max_conns": patch.maxConnections = try Self.number(name, value, 0...Int(Int32.max))
      case "max_fails": patch.maxFails = try Self.number(name, value, 0...Int(Int32.max))
      case "fail_timeout": patch.failTimeout = try Self.time(name, value)
      case "slow_start": patch.slowStart = try Self.time(name, value)
      case "down": patch.isDown = try Self.flag(name, value)
      case "drain": patch.isDraining = try Self.flag(name, value)
      case "server", "backup", "route", "service", "id", "parent", "host":
        throw .body("\"\(name)\" can't be changed: remove the server, and add another")
      default: throw .body("unknown parameter \"\(name.prefix(64))\"")
      }
    }
    self.patch = patch
  }

  /// `drain` is for `sticky`, which `stream` doesn't have: a `state` with it could not be read.
  static func refuseDrain(_ patch: ServerPatch) throws(APIFault) {
    if patch.isDraining != nil { throw .body("\"drain\" is of upstreams in \"http\": take \"down\"") }
  }

  private static func number(_ name: String, _ value: JSONValue, _ range: ClosedRange<Int>) throws(APIFault) -> Int {
    guard let number = value.integer, let whole = Int(exactly: number), range.contains(whole) else {
      throw .body("invalid \"\(name)\": a number from \(range.lowerBound) to \(range.upperBound)")
    }
    return whole
  }

  /// nginx: a text with a unit, or seconds.
  private static func time(_ name: String, _ value: JSONValue) throws(APIFault) -> Int {
    if let text = value.text, let seconds = Quantity.seconds(text) { return seconds }
    if let number = value.integer, let seconds = Int(exactly: number), (0...86_400 * 365).contains(seconds) {
      return seconds
    }
    throw .body("invalid \"\(name)\": a time such as \"10s\"")
  }

  private static func flag(_ name: String, _ value: JSONValue) throws(APIFault) -> Bool {
    guard let flag = value.flag else { throw .body("invalid \"\(name)\": true or false") }
    return flag
  }
}
