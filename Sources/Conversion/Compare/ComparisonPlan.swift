import Language
import Observability

/// A listener that both programs have.
package struct Door: Sendable, Hashable {
  /// Its place among the stand-ins.
  package let index: Int
  package let address: String
  package let isHTTP: Bool
  package let isTLS: Bool
  var names: [String] = []
  var paths: [String] = []
  var shown: [Shown] = []
  /// Servers and groups of the new configuration that it leads to, by their first lines.
  var parts: Set<Int> = []
  /// The version that most of the tryings offer: an old nginx knows no other one unless it is told to.
  var version = OfferedVersion.tls12
  /// Fields by which servers behind are told something.
  package fileprivate(set) var fields: Set<String> = []
  /// Whether connections begin with a header of the PROXY protocol.
  package fileprivate(set) var takesProxyProtocol = false
  /// How clients ask for TLS, as `starttls` names it; nil: it begins at once.
  package fileprivate(set) var starttls: String?
  /// Whether the conversion lets nobody in.
  var isClosed = true
  /// Whether the handshake is with a server behind.
  package fileprivate(set) var isPassedOn = false
}

/// One connection of a comparison, and the request on it.
package struct Trying: Sendable, Hashable {
  package let door: Int
  package var shown = Shown.none
  /// nil: no name is sent.
  package var serverName: String?
  package var host = "localhost"
  package var path = "/"
  package var version = OfferedVersion.tls12
  package var guise = TargetGuise.right
}

/// What a comparison asks of both programs. It is made of the new configuration, in which all of our peers look alike.
package struct ComparisonPlan: Sendable {
  package private(set) var doors: [Door] = []
  package private(set) var tryings: [Trying] = []
  /// Fields that stand-ins tell.
  package var fields: [String] { Array(Set(doors.flatMap(\.fields))).sorted() }
  static let maximumOfDoor = 400

  /// `ports`: those on which the new configuration listens, in the order of `StandIns.listeners`.
  package init(_ converted: Converted, _ standIns: StandIns) {
    var parser = Parser(mainFile: "sallyport.conf", files: .none)
    let directives = parser.parse(bytes: Array(converted.text.utf8), path: "sallyport.conf")
    var reader = PlanReader(standIns)
    for context in directives where ["http", "stream"].contains(context.name) { reader.read(context) }
    doors = reader.doors.values.sorted { $0.index < $1.index }
    let hasTLSBehind = standIns.targets.contains { $0.handshake.map { !$0.isPassedOn } ?? false }
    for (place, door) in doors.enumerated() {
      tryings += Self.tryings(door, place, hasTLSBehind).prefix(Self.maximumOfDoor)
    }
  }

  /// The trying that others differ from in one thing or several.
  static func base(_ door: Door, _ place: Int) -> Trying {
    var base = Trying(door: place)
    base.shown =
      door.shown.first { if case .listed = $0 { true } else { false } }
      ?? door.shown.first { if case .valid = $0 { true } else { false } } ?? .none
    if let name = door.names.first { (base.serverName, base.host) = (name, name) }
    base.path = door.paths.first ?? "/"
    base.version = door.version
    return base
  }

  private static func tryings(_ door: Door, _ place: Int, _ hasTLSBehind: Bool) -> [Trying] {
    let base = base(door, place)
    var all: [Trying] = []
    var seen: Set<Trying> = []
    func add(_ change: (inout Trying) -> Void) {
      var trying = base
      change(&trying)
      if seen.insert(trying).inserted { all.append(trying) }
    }
    add { _ in }
    let names = door.names + ["unknown.invalid"]
    let isEncrypted = door.isTLS || door.isPassedOn
    if hasTLSBehind {
      for guise in TargetGuise.allCases {
        for path in door.paths.prefix(8) { add { ($0.guise, $0.path) = (guise, path) } }
      }
    }
    if isEncrypted {
      for version in OfferedVersion.allCases {
        for shown in [base.shown, .none] { add { ($0.version, $0.shown) = (version, shown) } }
      }
      add { $0.serverName = nil }
    }
    // One thing at a time first: what is left out for its number is a combination.
    for shown in door.shown { add { $0.shown = shown } }
    for name in names { add { ($0.serverName, $0.host) = (isEncrypted ? name : nil, name) } }
    if door.isHTTP {
      for path in door.paths {
        for spelling in spellings(path) {
          for shown in [base.shown, .none] { add { ($0.path, $0.shown) = (spelling, shown) } }
        }
      }
      if isEncrypted {
        for name in names.prefix(4) {
          for host in names.prefix(4) where host != name {
            for shown in [base.shown, .none] { add { ($0.serverName, $0.host, $0.shown) = (name, host, shown) } }
          }
        }
      }
    }
    for shown in door.shown {
      for name in names {
        for path in door.isHTTP ? door.paths : ["/"] {
          add { ($0.shown, $0.serverName, $0.host, $0.path) = (shown, isEncrypted ? name : nil, name, path) }
        }
      }
    }
    if isEncrypted {
      for shown in door.shown {
        for version in OfferedVersion.allCases { add { ($0.shown, $0.version) = (shown, version) } }
      }
    }
    return all
  }

  /// The same path as clients may write it to get around a rule.
  private static func spellings(_ path: String) -> [String] {
    guard path != "/" else { return [path] }
    let escaped = path.utf8.dropFirst().first.map { byte -> String in
      let digits = String(byte, radix: 16, uppercase: true)
      return "/%" + (digits.utf8.count < 2 ? "0" : "") + digits + path.dropFirst(2)
    }
    return [path, path + "/", "/" + path, "/x/.." + path, "/." + path, path.uppercased(), path + ";x", escaped ?? path]
  }
}

/// Reads listeners from a configuration.
private struct PlanReader {
  private let standIns: StandIns
  private(set) var doors: [Int: Door] = [:]
  /// Groups by name: their first lines.
  private var groups: [String: Int] = [:]

  init(_ standIns: StandIns) { self.standIns = standIns }

  mutating func read(_ context: Directive) {
    for block in context.block ?? [] where block.name == "upstream" {
      groups[block.arguments.first?.text ?? ""] = block.location.line
    }
    for block in context.block ?? [] where block.name == "server" { read(block, in: context) }
  }

  private mutating func read(_ server: Directive, in context: Directive) {
    let own = server.block ?? []
    let all = Self.below(server)
    let around = (context.block ?? []).filter { $0.block == nil }
    for listen in own where listen.name == "listen" {
      guard let words = listen.arguments.first?.text, let port = Int(words.split(separator: ":").last ?? ""),
        let index = standIns.place.listeners.firstIndex(of: port), index < standIns.listeners.count
      else { continue }
      let isTLS = listen.arguments.contains { $0.text == "ssl" }
      var door =
        doors[index]
        ?? Door(
          index: index, address: standIns.listeners[index], isHTTP: context.name == "http", isTLS: isTLS, shown: [.none]
        )
      door.parts.insert(server.location.line)
      if listen.arguments.contains(where: { $0.text == "proxy_protocol" }) { door.takesProxyProtocol = true }
      if !Self.isClosed(own) { door.isClosed = false }
      for directive in all {
        let words = directive.arguments.map(\.text)
        for (name, line) in groups where words.contains(where: { $0 == name || $0.hasSuffix("://\(name)") }) {
          door.parts.insert(line)
        }
        switch directive.name {
        case "server_name": door.names.add(words.filter { Self.isName($0) })
        case "location": door.paths.add(words.suffix(1).filter { $0.hasPrefix("/") })
        case "proxy_set_header":
          if let name = words.first, !["host", "connection", "upgrade"].contains(name.lowercased()) {
            door.fields.insert(name.lowercased())
          }
        case "ssl_protocols" where isTLS && !words.contains(OfferedVersion.tls12.rawValue):
          door.version = words.compactMap { OfferedVersion(rawValue: $0) }.last ?? .tls12
        case "starttls": door.starttls = words.first
        case "ssl_preread" where words == ["on"]: door.isPassedOn = true
        default: break
        }
      }
      if isTLS { door.shown.add(shown(all + around)) }
      if door.paths.isEmpty { door.paths = ["/"] }
      doors[index] = door
    }
  }

  /// Certificates that the rules of a server tell apart.
  private func shown(_ directives: [Directive]) -> [Shown] {
    func values(_ name: String) -> [[String]] { directives.filter { $0.name == name }.map { $0.arguments.map(\.text) } }
    let files = values("ssl_client_certificate").compactMap { words in
      standIns.files.indices.first { standIns.path($0) == words.first }
    }
    let pins = values("ssl_client_pin").compactMap { words in
      standIns.files.indices.first { standIns.path($0) == words.first }
    }
    let rules = values("ssl_client_allow").filter { words in
      words.allSatisfy { !$0.contains("=~") && !$0.contains("*") }
    }
    var all: [Shown] = []
    for file in files + pins {
      all.add(rules.map { .valid(authorities: file, conditions: $0) })
      all.add([
        .valid(authorities: file, conditions: []), .expired(authorities: file), .wrongPurpose(authorities: file),
      ])
      if standIns.listing.contains(file) { all.add([.listed(authorities: file)]) }
      if standIns.files.contains(where: { $0.kind == .revocations(authorities: file) }) {
        all.add([.revoked(authorities: file)])
      }
    }
    return all + [.stranger(conditions: rules.first ?? [])]
  }

  /// Whether these are the lines of a server that lets nobody in.
  private static func isClosed(_ lines: [Directive]) -> Bool {
    lines.allSatisfy { line in
      switch line.name {
      case "listen", "server_name", "ssl_reject_handshake", "deny": true
      case "return": ["refused", "403", "404"].contains(line.arguments.first?.text) && line.arguments.count == 1
      default: false
      }
    }
  }

  private static func below(_ directive: Directive) -> [Directive] {
    (directive.block ?? []).flatMap { [$0] + below($0) }
  }

  private static func isName(_ word: String) -> Bool { Endpoint.isHost(word) && !word.contains(":") && word != "_" }
}

extension Array where Element: Hashable {
  /// Appends what isn't there.
  fileprivate mutating func add(_ others: [Element]) { for other in others where !contains(other) { append(other) } }
}
