import Crypto
import Forward
package import Observability
import SPIFFE
import Traffic
import Transport
import Upstream

/// The assertions of a policy file, judged by what a configuration does.
package final class AccessTrial {
  /// Why an assertion doesn't hold.
  package struct Failure: Sendable {
    /// What happens in place of what is asserted.
    package let text: String
    /// The request that shows it, in words; nil: none shows it.
    package let witness: String?
    /// The line of the configuration that decides it; nil: no line does.
    package let place: SourceLocation?
  }

  package struct Result: Sendable {
    package let assertion: AccessPolicy.Assertion
    package let failures: [Failure]
    package var holds: Bool { failures.isEmpty }
  }

  private let policy: AccessPolicy
  private let world: TrialWorld
  private let survey: Survey
  /// Only a part of the ways is tried: what fails by them fails, and nothing follows from what they don't show.
  private let isPartial: Bool
  private lazy var search = WaySearch(world.http)
  /// The clients of the file, as they are in this world.
  private let personas: [String: Swift.Result<Persona, AccessFault>]

  /// The most failures that are told of one assertion.
  private var mostFailures = 5

  /// `survey`: the attempts that alone are made; nil: all are.
  init(_ policy: AccessPolicy, _ world: TrialWorld, trying survey: Survey? = nil) {
    self.policy = policy
    self.world = world
    isPartial = survey != nil
    personas = policy.clients.mapValues { $0.resolved(in: world) }
    self.survey = survey ?? Survey(world, addresses: policy.clients.values.compactMap(\.address))
  }

  /// What no attempt shows, because nobody knows how to try it.
  package var unknown: [String] { survey.unknown }

  package func results() -> [Result] { policy.assertions.map { Result(assertion: $0, failures: failures(of: $0)) } }

  /// Whether an assertion fails. Those about one request are judged first, because they take no time.
  func hasFailure() -> Bool {
    mostFailures = 1
    let single = policy.assertions.filter { if case .one = $0.claim { true } else { false } }
    let others = policy.assertions.filter { if case .one = $0.claim { false } else { true } }
    return (single + others).contains { !failures(of: $0).isEmpty }
  }

  private func failures(of assertion: AccessPolicy.Assertion) -> [Failure] {
    do throws(AccessFault) {
      switch assertion.claim {
      case .one(let client, let place, let expectation): return try judge(client, place, expectation)
      case .only(let clients, let target, let unlessAsked):
        return try judge(only: clients, target, unlessAsked)
      case .never(let target, let onlyWithoutCertificate, let unlessAsked):
        var others = onlyWithoutCertificate ? unverified() : everybody()
        others = others.filter { !onlyWithoutCertificate || isUnverified($0) }
        return try strangers(others, to: target, unlessAsked)
      case .refused(let client, let target, let unlessAsked):
        return try strangers([try persona(client)], to: target, unlessAsked, from: policy.clients[client]?.address)
      case .tells(let upstream, let field, let isAlwaysThere): return try judge(upstream, field, isAlwaysThere)
      }
    } catch {
      return [Failure(text: error.text, witness: nil, place: nil)]
    }
  }

  private func persona(_ name: String) throws(AccessFault) -> Persona {
    guard let found = personas[name] else { throw AccessFault("nobody says who \"\(name)\" is") }
    return try found.get()
  }

  // MARK: One request

  private func judge(
    _ client: String, _ place: AccessPlace, _ expectation: AccessPolicy.Expectation
  ) throws(AccessFault) -> [Failure] {
    let attempts = try attempts(try persona(client), place, policy.clients[client]?.address)
    let found = attempts.map { Survey.Finding(attempt: $0, outcome: world.outcome(of: $0)) }
    switch expectation {
    case .allowed(let status):
      return found.contains { Self.isAllowed($0.outcome, status) }
        ? []
        : found.prefix(1).map { finding in
          let asked = finding.outcome.isAdmitted && status == nil ? finding.outcome.asks.first : nil
          return failure(
            finding, asked.map { "it asks \($0): write \"asked\" if that is meant" } ?? finding.outcome.words)
        }
    case .asked:
      return found.contains { $0.outcome.isAdmitted && !$0.outcome.asks.isEmpty }
        ? []
        : found.prefix(1).map { finding in
          failure(
            finding, finding.outcome.isAdmitted ? "nobody is asked: \(finding.outcome.words)" : finding.outcome.words)
        }
    case .refused(let status):
      return found.filter { !Self.isRefused($0.outcome, status) }.map { failure($0, $0.outcome.words) }
    }
  }

  private static func isAllowed(_ outcome: Outcome, _ status: UInt16?) -> Bool {
    if let status { return outcome.status == status }
    return outcome.isServed && outcome.asks.isEmpty
  }

  private static func isRefused(_ outcome: Outcome, _ status: UInt16?) -> Bool {
    guard !outcome.isUnknown else { return false }
    // With a status, the author knows of the error page, which an upstream may serve.
    if let status { return outcome.status == status && !outcome.isServed }
    return !outcome.isAdmitted
  }

  /// An attempt at each listener that the place means.
  private func attempts(
    _ persona: Persona, _ place: AccessPlace, _ address: SocketAddress?
  ) throws(AccessFault) -> [Attempt] {
    let kind: TrafficKind = place.isConnection ? .stream : .http
    let listeners = world.http.listeners.indices.filter { index in
      let listener = world.http.listeners[index]
      guard listener.kind == kind, case .socket(let address) = listener.address, address.port == place.port else {
        return false
      }
      return place.isConnection || listener.isTLS == place.isTLS
    }
    guard !listeners.isEmpty else {
      let tls = place.isConnection ? " of stream" : place.isTLS ? " with TLS" : " without TLS"
      throw AccessFault("no listener\(tls) has port \(place.port)")
    }
    let named = listeners.filter { index in
      if case .socket(let address) = world.http.listeners[index].address { address.host == place.host } else { false }
    }
    let isAddress = SocketAddress(literal: place.host, port: 0) != nil
    return (named.isEmpty ? listeners : named).map { index in
      var attempt = Attempt(
        persona, listener: index, serverName: place.serverName ?? (isAddress ? "" : place.host), host: place.host)
      if !place.isConnection { attempt.method = place.method }
      attempt.target = place.target
      attempt.fields = place.fields
      if let client = place.address ?? address { attempt.client = client }
      return attempt
    }
  }

  // MARK: Every way

  /// Whether an outcome is at a target.
  private func isAt(_ target: ResolvedTarget, _ outcome: Outcome) -> Bool {
    switch target {
    case .upstream(let name): outcome.upstreams.contains { $0.name == name }
    case .level(let place): outcome.isAdmitted && outcome.level == place
    }
  }

  private enum ResolvedTarget {
    case upstream(String)
    /// The location or the server block of this place.
    case level(SourceLocation)
  }

  /// `guide`: the client whose request shows which location is meant.
  private func resolve(_ target: AccessPolicy.Target, by guide: Persona?, _ address: SocketAddress?) throws(AccessFault)
    -> ResolvedTarget
  {
    switch target {
    case .upstream(let name):
      let known = Set(world.http.groups.map(\.name))
      guard known.contains(name) else {
        let all = known.sorted().joined(separator: ", ")
        throw AccessFault("the configuration has no upstream \"\(name)\"; it has \(all.isEmpty ? "none" : all)")
      }
      return .upstream(name)
    case .place(let place):
      // Where a request ends depends on who sends it: an error page is another location than what it stands for.
      var levels: [SourceLocation] = []
      for persona in guide.map({ [$0] }) ?? everybody() {
        for attempt in try attempts(persona, place, address) {
          let outcome = world.outcome(of: attempt)
          if outcome.isAdmitted, let level = outcome.level { levels.append(level) }
        }
      }
      guard let level = levels.first else {
        throw AccessFault(
          guide.map { "\($0.name) doesn't get there itself" }
            ?? "no client gets there, so nothing says which location is meant")
      }
      return .level(level)
    }
  }

  private func judge(
    only clients: [String], _ target: AccessPolicy.Target, _ unlessAsked: Bool
  ) throws(AccessFault) -> [Failure] {
    var allowed: [(persona: Persona, client: AccessClient)] = []
    for name in clients { if let client = policy.clients[name] { allowed.append((try persona(name), client)) } }
    guard let first = allowed.first else { return [] }
    let resolved = try resolve(target, by: first.persona, first.client.address)
    var failures: [Failure] = []
    for (persona, client) in isPartial ? [] : allowed {
      let found = survey.findings(of: persona, from: client.address)
      if !found.contains(where: { isAt(resolved, $0.outcome) }) {
        failures.append(
          Failure(text: "\(persona.name) doesn't get to \(target.words) by any way", witness: nil, place: nil))
      }
    }
    var others = everybody(besides: Set(clients))
    for (persona, client) in allowed { others += steps(from: persona, client) }
    return failures + (try strangers(others, to: resolved, unlessAsked))
  }

  private func strangers(
    _ others: [Persona], to target: AccessPolicy.Target, _ unlessAsked: Bool, from address: SocketAddress? = nil
  ) throws(AccessFault) -> [Failure] {
    try strangers(others, to: try resolve(target, by: nil, nil), unlessAsked, from: address)
  }

  /// The ways by which these clients get to a target: none is to be there.
  private func strangers(
    _ others: [Persona], to target: ResolvedTarget, _ unlessAsked: Bool, from address: SocketAddress? = nil
  ) throws(AccessFault) -> [Failure] {
    var failures: [Failure] = []
    var told: Set<String> = []
    for persona in others {
      survey.visit(persona, from: address) { finding in
        let outcome = finding.outcome
        if persona.fault == .revoked, !world.revokes(world.server(of: finding.attempt)) { return false }
        guard isAt(target, outcome), !unlessAsked || outcome.asks.isEmpty else { return false }
        let place = outcome.level.map { "\($0)" } ?? ""
        guard told.insert("\(persona.name) \(place)").inserted else { return false }
        let asked = outcome.asks.isEmpty ? "" : ", if it is admitted by \(outcome.asks.joined(separator: " and "))"
        failures.append(failure(finding, "\(persona.name) gets there: \(outcome.words)\(asked)"))
        return failures.count == mostFailures
      }
      if failures.count == mostFailures { return failures }
    }
    let untried = isPartial ? [] : untriedWays(to: target)
    for persona in others {
      for way in untried {
        guard let witness = WitnessSearch(world).witness(of: way, byAnyOf: [persona]), isAt(target, witness.outcome),
          persona.fault != .revoked || world.revokes(way.server),
          !unlessAsked || witness.outcome.asks.isEmpty
        else { continue }
        let finding = Survey.Finding(attempt: witness.attempt, outcome: witness.outcome)
        failures.append(failure(finding, "\(persona.name) gets there: \(witness.outcome.words)"))
        if failures.count == mostFailures { return failures }
      }
    }
    return failures
  }

  /// The locations and server blocks to which an attempt of the survey has come. A session has no location besides its block.
  private lazy var tried = Set(
    everybody().flatMap { survey.findings(of: $0) }.flatMap { finding -> [SourceLocation] in
      let levels = finding.outcome.locations + [finding.outcome.server?.root].compactMap { $0 }
      return levels.map(\.location)
    })

  /// The ways to a target by which no attempt of the survey has come to a location: a pattern, a rewrite or a front leads
  /// there.
  private func untriedWays(to target: ResolvedTarget) -> [Way] {
    search.ways.filter { way in
      guard way.openness < .nobody, !way.isSubrequest, !tried.contains(way.location.location) else { return false }
      switch target {
      case .upstream(let name):
        guard case .group(let index, _)? = way.location[UpstreamPass.self]?.target.upstream else { return false }
        return world.http.groups.indices.contains(index) && world.http.groups[index].name == name
      case .level(let place): return way.location.location == place
      }
    }
  }

  private func judge(_ upstream: String, _ field: String, _ isAlwaysThere: Bool) throws(AccessFault) -> [Failure] {
    let target = try resolve(.upstream(upstream), by: nil, nil)
    let forged = "forged-by-the-client"
    var failures: [Failure] = []
    var told: Set<String> = []
    var isReached = false
    for persona in everybody() {
      let forging = persona.but("who writes \(field) itself") { $0.fields.append("\(field): \(forged)") }
      survey.visit(forging, from: nil) { finding in
        guard isAt(target, finding.outcome) else { return false }
        isReached = true
        for reached in finding.outcome.upstreams where reached.name == upstream {
          let values = reached.told.filter { Self.isSame($0.name, field) }.map(\.value)
          let text: String
          if values.contains(where: { $0.contains(forged) }) {
            text = "it is told the client's own \(field)"
          } else if isAlwaysThere, !values.contains(where: { !$0.isEmpty }) {
            text = "it is not told \(field)"
          } else {
            continue
          }
          let place = finding.outcome.level.map { "\($0)" } ?? ""
          if told.insert("\(text) \(place)").inserted { failures.append(failure(finding, text)) }
        }
        return failures.count >= mostFailures
      }
      if failures.count >= mostFailures { return failures }
    }
    if !isReached, !isPartial {
      failures.append(
        Failure(text: "no client gets to upstream \(upstream), so nothing is told", witness: nil, place: nil))
    }
    return failures
  }

  /// Whether a parameter of FastCGI has the name of a field (RFC 3875 §4.1.18), or a field has it.
  private static func isSame(_ name: String, _ field: String) -> Bool {
    let own = name.lowercased(), wanted = field.lowercased()
    return own == wanted || own == "http_" + wanted.replacing("-", with: "_")
  }

  // MARK: Who else

  /// All clients of the file, and those that every file has.
  private func everybody(besides names: Set<String> = []) -> [Persona] {
    policy.clients.keys.sorted().filter { !names.contains($0) }.compactMap { name in try? personas[name]?.get() }
  }

  /// Clients whose certificate doesn't verify, whatever it says.
  private func unverified() -> [Persona] {
    var all: [Persona] = [.nobody, .stranger]
    for name in policy.clients.keys.sorted() {
      guard let client = policy.clients[name], let persona = try? personas[name]?.get() else { continue }
      if !client.hasCertificate { all.append(persona) }
      all += faulty(persona, client)
    }
    return all
  }

  private func isUnverified(_ persona: Persona) -> Bool {
    persona.issuer == .nobody || persona.issuer == .stranger || persona.fault != nil
  }

  /// The same client with a certificate that must not verify.
  private func faulty(_ persona: Persona, _ client: AccessClient) -> [Persona] {
    guard client.isMinted else { return [] }
    return [
      persona.but("of a CA that nobody knows") { $0.issuer = .stranger },
      persona.but("expired") { $0.fault = .expired }, persona.but("not yet valid") { $0.fault = .notYetValid },
      persona.but("revoked") { $0.fault = .revoked },
    ]
  }

  /// The clients that differ from one by one thing that its description says.
  private func steps(from persona: Persona, _ client: AccessClient) -> [Persona] {
    guard client.isMinted, persona.fault == nil else { return [] }
    var steps = faulty(persona, client)
    steps.append(persona.but("whose certificate is one for servers") { $0.fault = .wrongPurpose })
    if case .authority(let own) = persona.issuer {
      for index in world.authorities.indices where world.authorities[index].subject != world.authorities[own].subject {
        let other = world.authorities[index]
        steps.append(persona.but("issued by \(other.subject)") { $0.issuer = .authority(index) })
        guard let id = persona.workload, let domain = other.trustDomain else { continue }
        steps.append(
          persona.but("of the trust domain \(domain.name)") { workload in
            workload.issuer = .authority(index)
            workload.alternativeNames = [.uri("\(domain)\(id.path)")]
          })
      }
    }
    if client.hasName {
      steps.append(
        persona.but("with another name") { other in
          other.subject = [NamePart("CN", "somebody-else")]
          other.alternativeNames = persona.workload.map { [.uri("\($0.trustDomain)/somebody-else")] } ?? []
          other.serial = nil
        })
    }
    return steps
  }

  // MARK: Words

  private func failure(_ finding: Survey.Finding, _ text: String) -> Failure {
    Failure(text: text, witness: words(of: finding.attempt), place: finding.outcome.place)
  }

  private func words(of attempt: Attempt) -> String {
    let listener = world.http.listeners[attempt.listener], persona = attempt.persona
    var words = listener.kind == .stream ? "a connection" : "\(attempt.method) \(attempt.target)"
    words += " of \(persona.name)"
    if listener.isTLS { words += " (\(world.words(of: persona)))" }
    words += " from \(attempt.client.host) at \(listener.address)\(listener.isTLS ? " ssl" : "")"
    if listener.isTLS || listener.kind == .stream {
      words += ", SNI \(attempt.serverName.isEmpty ? "none" : attempt.serverName)"
    }
    if listener.kind == .http { words += ", Host \(attempt.host)" }
    for field in persona.fields + attempt.fields where !field.hasPrefix("Authorization:") { words += ", \(field)" }
    return words
  }
}

extension Outcome {
  /// The place of the location that a request has ended in, or of the server block.
  fileprivate var level: SourceLocation? { locations.last?.location ?? server?.location }
}

extension AccessClient {
  /// Whether its certificate is made for the trial, so that another one can be made.
  fileprivate var isMinted: Bool {
    switch issuer {
    case .trusted, .named: true
    case .nobody, .stranger, .pinned, .file: false
    }
  }
}
