import Crypto
import Language
import Observability
import Patterns
import TLS
import Traffic
package import Transport

/// What clients get by every way into a configuration: each listener, each name of a handshake with each Host, each
/// location with other readings of its path, methods, and addresses.
///
/// Names that lead to one server block lead to one place, so each block has one, and those that no block has lead to the
/// default. A regular expression for which no text is found is told in `unknown`.
package final class Survey {
  package struct Finding: Sendable {
    package let attempt: Attempt
    package let outcome: Outcome
  }

  private struct Door {
    let listener: Int
    let serverName: String
    let host: String
    /// The server block of the Host, by its place.
    let server: Int
  }

  /// That of the same configuration with the statement by which `world` differs, and the locations that it can tell.
  private let former: (survey: Survey, locations: Set<SourceLocation>)?
  package let world: TrialWorld
  /// What is not tried, because nobody knows how: in words.
  package private(set) var unknown: [String] = []
  private var doors: [Door] = []
  /// Whether there are attempts that it doesn't make.
  private(set) var isPart = true
  /// By server block.
  private var paths: [[String]] = []
  /// Those besides GET.
  private let methods: [String]
  private let addresses: [SocketAddress]
  private var known: [Persona: [Finding]] = [:]

  /// A name that no server block has.
  static let strangeName = "unknown.invalid"
  /// From so many server blocks on, not each name of a handshake is tried with each Host.
  private static let mostPairs = 12

  /// `address`: of the clients that have one, besides those that the configuration names.
  package convenience init(_ world: TrialWorld, addresses named: [SocketAddress] = []) {
    self.init(world, addresses: named, near: nil)
  }

  /// `server`: by its place, the server block to which a handshake or a Host leads in each attempt; nil: they lead to all.
  init(_ world: TrialWorld, addresses named: [SocketAddress], near server: Int?) {
    self.world = world
    former = nil
    let levels = world.http.servers.flatMap { $0.root.withNested }
    let judgesMethods = levels.contains { !$0.conditional.isEmpty }
    methods = judgesMethods ? ["POST", "PUT", "DELETE", "OPTIONS"] : ["POST"]
    var addresses = [Attempt.usualAddress, .ipv4(address: 0x7F00_0001, port: 40_000)]
    for address in named + Self.addresses(in: world.statements) where !addresses.contains(address) {
      addresses.append(address)
    }
    self.addresses = Array(addresses.prefix(12))
    let names = world.http.servers.map { server in
      server.names.lazy.compactMap { self.sample($0) }.first { !$0.isEmpty }
    }
    var seen: Set<[Int]> = []
    for (index, listener) in world.http.listeners.enumerated() {
      // Listeners with the same server blocks lead to the same.
      let kind = [listener.isTLS, listener.kind == .stream, listener.expectsProxyHeader].map { $0 ? 1 : 0 }
      guard seen.insert(kind + [listener.defaultServer] + listener.servers).inserted else { continue }
      addDoors(index, listener, names)
    }
    let all = doors.count
    if let server {
      doors.removeAll { door in
        let attempt = Attempt(.nobody, listener: door.listener, serverName: door.serverName, host: door.host)
        return door.server != server && world.server(of: attempt) != server
      }
    }
    isPart = doors.count < all
    let reached = Set(doors.map(\.server))
    paths = world.http.servers.enumerated().map { index, server in
      server.stream != nil ? ["/"] : reached.contains(index) ? self.paths(of: server.root) : []
    }
  }

  /// The attempts of another survey, of which a statement of a location may have decided: those that have come to the
  /// location, and those that were refused before their location was known, or for another reading of their path.
  /// `mutant`: the world without the statement.
  init(_ former: Survey, in mutant: TrialWorld, at place: SourceLocation) {
    let all = former.world.http.everyLocation.map(\.settings)
    let own = all.first { $0.location == place }.map { Set($0.withNested.map(\.location)) } ?? [place]
    self.former = (former, own)
    world = mutant
    (methods, addresses) = ([], [])
  }

  /// Whether somebody has come to the location. Else a trial has to look for other ways there.
  private(set) var isReached = false

  /// Whether the statement may have decided on an attempt of the other survey.
  func mayTell(_ finding: Finding) -> Bool {
    guard let former else { return true }
    let outcome = finding.outcome
    if case .handshake = outcome.end { return false }
    if outcome.locations.contains(where: { former.locations.contains($0.location) }) {
      isReached = true
      return true
    }
    return !outcome.isAdmitted && (outcome.locations.isEmpty || !finding.attempt.isPlain)
  }

  // MARK: What is tried

  private func addDoors(_ index: Int, _ listener: ListenerSettings, _ names: [String?]) {
    var hosts = listener.servers.compactMap { server in names[server].map { (name: $0, server: server) } }
    hosts.append((Self.strangeName, listener.defaultServer))
    guard listener.isTLS || listener.kind == .stream else {
      for host in hosts { doors.append(Door(listener: index, serverName: "", host: host.name, server: host.server)) }
      return
    }
    let serverNames = hosts.map(\.name) + [""]
    for host in hosts {
      for name in listener.kind == .stream ? [host.name] : serverNames {
        let isUsual = name == host.name || name.isEmpty || name == Self.strangeName
        guard isUsual || hosts.count <= Self.mostPairs else { continue }
        doors.append(Door(listener: index, serverName: name, host: host.name, server: host.server))
      }
    }
    if listener.kind == .stream {
      doors.append(Door(listener: index, serverName: "", host: Self.strangeName, server: listener.defaultServer))
    }
  }

  private func sample(_ name: ServerName) -> String? {
    switch name {
    case .exact(let name): return name
    case .leadingWildcard(let suffix, _): return "any\(suffix)"
    case .trailingWildcard(let prefix): return "\(prefix)invalid"
    case .regex(let expression, _):
      let found = expression.witness { bytes in
        bytes.allSatisfy { (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2D || $0 == 0x2E }
      }
      if let found { return String(decoding: found, as: UTF8.self) }
      unknown.append("no name is found that server_name \(name.asWritten) matches")
      return nil
    }
  }

  /// The paths that lead to the locations of a server block, if nothing leads them elsewhere.
  private func paths(of root: LocationSettings) -> [String] {
    var paths = ["/", "/x"], prefixes: [String] = [], ends: [String] = []
    for location in root.withNested {
      switch location.match {
      case .exact(let path): paths.append(String(decoding: path, as: UTF8.self))
      case .prefix(let path), .prefixNoRegex(let path):
        let text = String(decoding: path, as: UTF8.self)
        prefixes.append(text)
        paths += [text, text + "x"]
      case .regex(let expression, _):
        if let found = expression.witness({ $0.first == 0x2F && !$0.contains { $0 <= 0x20 || $0 >= 0x7F } }) {
          ends.append(String(decoding: found, as: UTF8.self))
        } else {
          unknown.append("no path is found that location \(location.match.asWritten) matches (\(location.location))")
        }
      case .named: break
      }
    }
    paths += ends
    for prefix in prefixes where prefix.hasSuffix("/") && prefix != "/" {
      for end in ends { paths.append(prefix + end.dropFirst()) }
    }
    var seen: Set<String> = []
    return paths.filter { $0.hasPrefix("/") && seen.insert($0).inserted }
  }

  /// Other paths that a server could read as this one.
  private static func readings(_ path: String) -> [String] {
    var readings = ["/" + path, "/zz/.." + path, path + "/", path + ";x"]
    let flipped = String(path.map { $0.isLowercase ? Character($0.uppercased()) : Character($0.lowercased()) })
    readings.append(flipped)
    if let letter = path.utf8.first(where: { (0x61...0x7A).contains($0) }),
      let place = path.utf8.firstIndex(of: letter)
    {
      readings.append("\(path[..<place])%\(String(letter, radix: 16))\(path[path.index(after: place)...])")
    }
    if path.hasSuffix("/"), path != "/" { readings.append(String(path.dropLast())) }
    let known: Set<String> = [path]
    return readings.filter { !known.contains($0) }
  }

  /// The addresses that statements name: of a network, its second one.
  private static func addresses(in statements: [Directive]) -> [SocketAddress] {
    var found: [SocketAddress] = []
    func look(_ lines: [Directive]) {
      for line in lines {
        for word in [line.name] + line.arguments.map(\.text) {
          let text = word.prefix { $0 != "/" }
          guard text.contains(where: { $0 == "." || $0 == ":" }),
            let address = SocketAddress(literal: String(text), port: 40_000)
          else { continue }
          if case .ipv4(let number, let port) = address, word.contains("/") {
            found.append(.ipv4(address: number | 1, port: port))
          } else {
            found.append(address)
          }
        }
        look(line.block ?? [])
      }
    }
    look(statements)
    return found
  }

  // MARK: Trials

  /// What a client gets by every way. Each client's are kept.
  package func findings(of persona: Persona, from address: SocketAddress? = nil) -> [Finding] {
    var found: [Finding] = []
    visit(persona, from: address) { finding in
      found.append(finding)
      return false
    }
    return found
  }

  /// Tells of one finding after the other until nobody wants more. `isLast`: whether the finding is enough.
  func visit(_ persona: Persona, from address: SocketAddress?, _ isLast: (Finding) -> Bool) {
    if address == nil, let known = known[persona] {
      _ = known.contains(where: isLast)
      return
    }
    if let former {
      for finding in former.survey.findings(of: persona, from: address) where mayTell(finding) {
        if isLast(Finding(attempt: finding.attempt, outcome: world.outcome(of: finding.attempt))) { return }
      }
      return
    }
    var found: [Finding] = [], isEnough = false
    for door in doors where !isEnough {
      take(door, persona, address.map { [$0] } ?? addresses) { finding in
        found.append(finding)
        isEnough = isLast(finding)
        return isEnough
      }
    }
    if address == nil, !isEnough { known[persona] = found }
  }

  private func take(_ door: Door, _ persona: Persona, _ addresses: [SocketAddress], _ isLast: (Finding) -> Bool) {
    var attempt = Attempt(persona, listener: door.listener, serverName: door.serverName, host: door.host)
    var isEnough = false
    func run() -> Outcome {
      let outcome = world.outcome(of: attempt)
      isEnough = isLast(Finding(attempt: attempt, outcome: outcome))
      return outcome
    }
    if world.http.listeners[door.listener].kind == .stream {
      for address in addresses {
        attempt.client = address
        _ = run()
        if isEnough { return }
      }
      return
    }
    for (number, path) in paths[door.server].enumerated() {
      attempt.target = path
      for (place, address) in addresses.enumerated() {
        attempt.client = address
        let outcome = run()
        // Whoever is refused before a location is found gets none, by whatever path and from whatever address.
        if isEnough || number == 0 && place == 0 && outcome.isRefusedAtOnce { return }
      }
      attempt.client = addresses.first ?? Attempt.usualAddress
      for method in methods {
        attempt.method = method
        _ = run()
        if isEnough { return }
      }
      attempt.method = "GET"
      attempt.isPlain = false
      for reading in Self.readings(path) {
        attempt.target = reading
        _ = run()
        if isEnough { return }
      }
      attempt.isPlain = true
    }
  }
}

extension Outcome {
  /// Whether the client is refused before anything of its request is looked at but its Host.
  fileprivate var isRefusedAtOnce: Bool {
    if case .handshake = end { return true }
    // For its certificate, or because its Host is one of another trust. A path that no location has gets 404.
    return [400, 421].contains(status) && !isUnknown && locations.isEmpty && refusals.isEmpty && upstreams.isEmpty
  }
}
