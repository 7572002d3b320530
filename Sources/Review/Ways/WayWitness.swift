import Crypto
import Forward
import Identity
import Observability
import Patterns
import SPIFFE
import TLS
import Traffic
import Transport

/// What somebody did who came by a way: a client and a request that have run against the live objects.
package struct WayWitness: Sendable {
  package let attempt: Attempt
  package let outcome: Outcome
  /// `GET https://example.com/admin/ at 0.0.0.0:443, certificate CN=boss of clients-ca.crt`
  package let words: String
}

/// Looks for a client and a request that come by a way. Without one, nothing is known: a way may still be open.
struct WitnessSearch {
  private let world: TrialWorld
  private let paths = PathSearch()
  /// Of one way.
  private static let mostAttempts = 200

  init(_ world: TrialWorld) { self.world = world }

  func witness(of way: Way, byAnyOf personas: [Persona]? = nil) -> WayWitness? {
    let listener = world.http.listeners[way.listener]
    let hosts = listener.kind == .stream ? [sniOfSession(way)] : hosts(of: way)
    let targets = listener.kind == .stream ? ["/"] : targets(of: way)
    let addresses = addresses(of: way), methods = methods(of: way)
    var count = 0
    for visitor in visitors(personas ?? self.personas(of: way), way) {
      for target in targets {
        for host in hosts {
          for address in visitor.front.map({ [$0] }) ?? addresses {
            for method in methods {
              count += 1
              if count > Self.mostAttempts { return nil }
              var attempt = Attempt(visitor.persona, listener: way.listener, serverName: host.sni, host: host.host)
              attempt.relayed = visitor.relayed
              attempt.method = method
              attempt.target = target
              attempt.client = address
              let outcome = world.run(attempt)
              if Self.comes(outcome, by: way, world.http) {
                return WayWitness(attempt: attempt, outcome: outcome, words: words(attempt, listener))
              }
            }
          }
        }
      }
    }
    return nil
  }

  /// Whether somebody has come to the content of a way, in its server block. What others are asked is taken as answered.
  static func comes(_ outcome: Outcome, by way: Way, _ http: HTTPSettings) -> Bool {
    switch outcome.end {
    case .handshake, .unknown: return false
    case .upstream, .content, .status, .session: break
    }
    // What stands outside locations is none. A location is of one server block.
    if let last = outcome.locations.last {
      guard last === way.location else { return false }
    } else {
      guard way.location === http.servers[way.server].root, outcome.server === http.servers[way.server] else {
        return false
      }
    }
    switch way.content.kind {
    case .upstream: return !outcome.upstreams.isEmpty
    case .content:
      switch outcome.end {
      case .content: return outcome.status.map { $0 != 401 && $0 != 403 } ?? true
      case .session(let result): return result == .ok
      // Files are the content of a location that names none.
      case .status(let status): return status < 300 && way.location.content == nil && outcome.refusals.isEmpty
      default: return false
      }
    case .response: return outcome.isAnswered
    }
  }

  // MARK: Who

  /// Who connects, and whose certificate it relays if it is a front.
  private struct Visitor {
    var persona: Persona
    var relayed: Persona?
    /// Where it connects from, as a front does.
    var front: SocketAddress?
  }

  /// Clients who come themselves, and after them the same behind a front whose word is taken.
  private func visitors(_ personas: [Persona], _ way: Way) -> [Visitor] {
    // Without TLS, nobody shows a certificate.
    let direct = world.http.listeners[way.listener].isTLS ? personas : [.nobody]
    var visitors = direct.map { Visitor(persona: $0) }
    guard let fronts = world.http.servers[way.server].root.ways.fronts else { return visitors }
    for address in fronts.addresses.prefix(2) {
      visitors += personas.map { Visitor(persona: .nobody, relayed: $0, front: address) }
    }
    return visitors
  }

  private func personas(of way: Way) -> [Persona] {
    var personas: [Persona] = [.nobody]
    let rules = way.gates.flatMap(\.conditions).flatMap(\.examples).compactMap { example -> ClientRule? in
      if case .rule(let rule) = example { rule } else { nil }
    }
    let policy = world.http.servers[way.server].clientPolicy
    if policy?.verification == .optionalNoCA { personas.append(.stranger) }
    var issuers = world.authorities.indices.filter { world.authorities[$0].servers.contains(way.server) }
      .map { Persona.Issuer.authority($0) }
    issuers += world.pins.indices.map { .pin($0) }
    for issuer in issuers.prefix(8) {
      for rule in rules.prefix(4) {
        let domain =
          if case .authority(let index) = issuer { world.authorities[index].trustDomain } else { TrustDomain?.none }
        if let persona = Persona(of: rule, by: issuer, in: domain) { personas.append(persona) }
      }
      personas.append(Persona("a client", subject: [NamePart("CN", "client")], issuer: issuer))
    }
    return personas
  }

  private func addresses(of way: Way) -> [SocketAddress] {
    let examples = way.gates.flatMap(\.conditions).flatMap(\.examples).compactMap { example -> SocketAddress? in
      if case .address(let address) = example { address } else { nil }
    }
    // 192.0.2.0/24 is for documents: no rule means it.
    return [.ipv4(address: 0xC000_0201, port: 40_000)] + examples.prefix(4)
  }

  private func methods(of way: Way) -> [String] {
    let examples = way.gates.flatMap(\.conditions).flatMap(\.examples).compactMap { example -> String? in
      if case .method(let method) = example { method } else { nil }
    }
    return examples.isEmpty ? ["GET"] : examples
  }

  // MARK: Where

  private typealias Host = (sni: String, host: String)

  private func sniOfSession(_ way: Way) -> Host {
    let name = names(of: world.http.servers[way.server]).first ?? ""
    return (name, name)
  }

  private func hosts(of way: Way) -> [Host] {
    let server = world.http.servers[way.server], listener = world.http.listeners[way.listener]
    var hosts = names(of: server).prefix(3).map { (sni: $0, host: $0) }
    if listener.defaultServer == way.server { hosts.append(("", "unknown.invalid")) }
    // A name of another block in the handshake, and this one's in the request.
    if listener.isTLS {
      let own = hosts.first?.host ?? "unknown.invalid"
      for other in listener.servers where other != way.server {
        if let name = names(of: world.http.servers[other]).first { hosts.append((name, own)) }
        if hosts.count > 6 { break }
      }
      if listener.defaultServer != way.server { hosts.append(("", own)) }
    }
    return hosts
  }

  private func names(of server: ServerSettings) -> [String] {
    server.names.flatMap { name -> [String] in
      switch name {
      case .exact(let name): name.isEmpty ? [] : [name]
      case .leadingWildcard(let suffix, _): ["way\(suffix)"]
      case .trailingWildcard(let prefix): ["\(prefix)way"]
      case .regex(let pattern, _): pattern.witness().map { [String(decoding: $0, as: UTF8.self)] } ?? []
      }
    }
  }

  private func targets(of way: Way) -> [String] {
    let root = world.http.servers[way.server].root
    // A block that a location leads to has the location's paths.
    var targets = way.hops.isEmpty ? paths.samples(of: way.location, in: root) : []
    for location in root.withNested where !way.hops.isEmpty && targets.count < 40 {
      targets += paths.samples(of: location, in: root).prefix(2)
    }
    if !way.hops.isEmpty {
      for hop in way.hops {
        // The pattern of a rewrite says which paths it is for.
        let words = hop.words.split(separator: " ")
        if words.first == "rewrite", words.count > 1, let text = (try? RegularExpression(String(words[1])))?.witness() {
          targets.insert(String(decoding: text, as: UTF8.self), at: 0)
        }
      }
    }
    if targets.isEmpty { targets = ["/", "/way-witness"] }
    var seen: Set<String> = []
    return targets.filter { $0.hasPrefix("/") && seen.insert($0).inserted }
  }

  // MARK: Words

  private func words(_ attempt: Attempt, _ listener: ListenerSettings) -> String {
    let certificate =
      attempt.relayed.map { "\(world.words(of: $0)), which the front relays" } ?? world.words(of: attempt.persona)
    let from = attempt.client == .ipv4(address: 0xC000_0201, port: 40_000) ? "" : " from \(attempt.client.host)"
    if listener.kind == .stream {
      return "a connection to \(listener.address)\(attempt.serverName.isEmpty ? "" : ", SNI \(attempt.serverName)"),"
        + " \(certificate)\(from)"
    }
    let sni =
      attempt.serverName == attempt.host || !listener.isTLS
      ? "" : ", SNI \(attempt.serverName.isEmpty ? "none" : attempt.serverName)"
    return "\(attempt.method) \(listener.isTLS ? "https" : "http")://\(attempt.host)\(attempt.target)"
      + " at \(listener.address)\(sni), \(certificate)\(from)"
  }
}
