import Crypto
import Features
import Language
import Observability
@testable import Review
import TLS
@testable import Traffic
import Transport

/// Plays random worlds, and counts what becomes of their clients.
struct RandomWorlds {
  var worlds = 0
  var invalid = 0
  var attempts = 0
  var reached = 0
  var refused = 0
  var unknown = 0
  /// Those of the refused whose ways were compared.
  var certain = 0
  /// Of those who reached a content, and of those whose ways were compared: for whom a way is certain of it.
  var admitted = 0
  var excluded = 0
  /// Of those whose request got to an upstream: whose path was compared.
  var compared = 0
  /// What is wrong, each with its seed.
  var faults: [String] = []

  /// Why a text was no configuration, for a grammar that is wrong.
  var lastRefusal = ""

  /// One client with what a configuration can ask of it.
  private struct Client {
    let attempt: Attempt
    let way: WayClient
    let words: String
  }

  var summary: String {
    "\(worlds) worlds (\(invalid) invalid), \(attempts) requests: \(reached) reached a content, \(refused) were refused (\(certain) by a condition),"
      + " \(admitted) and \(excluded) of them for certain, \(compared) paths compared,"
      + " \(unknown) unknown, \(faults.count) faults"
  }

  /// `folder`: where the files are that the configuration names.
  mutating func play(_ seed: UInt64, in folder: String) {
    let text = RandomConfiguration(seed: seed).text
    let source = ConfigurationSource.text(text, name: "\(folder)/world.conf")
    let world: TrialWorld
    do throws(TrialWorld.Refusal) { world = try TrialWorld(source) } catch {
      invalid += 1
      if invalid < 4 { lastRefusal = "\(error.text): \(error.diagnostics.filter { $0.severity == .error })" }
      return
    }
    worlds += 1
    let search = WaySearch(world.http)
    guard search.isComplete else { return faults.append("seed \(seed): the search gave up") }
    var numbers = SeededNumbers(seed: seed &+ 1_000_000)
    for _ in 0..<100 {
      let client = client(&numbers, world)
      attempts += 1
      let outcome = world.run(client.attempt)
      if let fault = judge(outcome, of: client, search.ways, world) {
        faults.append("seed \(seed): \(fault)\n\(client.words)\n\(outcome.lines.joined(separator: "\n"))\n\(text)")
        return
      }
    }
  }

  /// Returns what is wrong.
  private mutating func judge(
    _ outcome: Outcome, of client: Client, _ ways: [Way], _ world: TrialWorld
  ) -> String? {
    if outcome.isUnknown {
      unknown += 1
      return nil
    }
    // An error page can be of the block that the handshake has chosen.
    let server = world.http.servers.first { server in
      outcome.locations.last.map { last in server.root.withNested.contains { $0 === last } }
        ?? (server === outcome.server)
    }
    guard let index = world.http.servers.firstIndex(where: { $0 === server }) else { return nil }
    if server?.stream != nil { return judge(session: outcome, of: client, ways, index, world) }
    let mine = ways.filter { $0.listener == client.attempt.listener && $0.server == index && !$0.isSubrequest }
    let found = mine.filter { WitnessSearch.comes(outcome, by: $0, world.http) }
    if hasContent(outcome) {
      reached += 1
      if found.isEmpty { return "no way leads to what the client has got: \(outcome.words)" }
      if found.allSatisfy({ $0.answer(to: client.way) == .refuses }) {
        return "each way refuses a client who has got there: \(outcome.words)"
      }
      if found.contains(where: { $0.answer(to: client.way) == .admits }) { admitted += 1 }
      if let path = sentPath(outcome) {
        compared += 1
        let paths = SentPaths(found, world.http)
        if !found.contains(where: { paths.isReached(path, by: $0) }) {
          return "no way sends \(String(decoding: path, as: UTF8.self)) to the upstream: \(outcome.words)"
        }
      }
      return nil
    }
    refused += 1
    // The handshake was another block's, which may judge clients otherwise; or another reading of the path was refused.
    guard world.server(of: client.attempt) == nil || world.server(of: client.attempt) == index,
      outcome.status == 401 || outcome.status == 403, !outcome.refusals.contains("path_readings"),
      let last = outcome.locations.first, outcome.locations.count == 1,
      // Behind a rewrite, no location may be there, so that the server block's own rules refuse.
      !outcome.lines.contains(where: { $0.contains("the path is now") })
    else { return nil }
    certain += 1
    let answers = mine.filter { $0.location === last && $0.hops.isEmpty && $0.entry == .admitted }
      .map { $0.answer(to: client.way) }
    if answers.contains(.refuses) { excluded += 1 }
    return !answers.contains(.admits) ? nil : "a way admits a client who was refused: \(outcome.words)"
  }

  /// The path that an upstream gets; nil: none does, or the path is written otherwise than locations see it. One way to a
  /// named location stands for all that lead there, whatever paths they have.
  private func sentPath(_ outcome: Outcome) -> [UInt8]? {
    guard case .upstream = outcome.end, let line = outcome.lines.last(where: { $0.hasPrefix("sends  ") }) else {
      return nil
    }
    if case .named? = outcome.locations.last?.match { return nil }
    guard let target = line.split(separator: " ").dropFirst(2).first else { return nil }
    let path = target.prefix { $0 != "?" }
    return path.contains("%") || path.contains("//") || path.contains("/..") ? nil : Array(path.utf8)
  }

  /// Of a session, the rules of a block are all that there is.
  private mutating func judge(
    session outcome: Outcome, of client: Client, _ ways: [Way], _ server: Int, _ world: TrialWorld
  ) -> String? {
    let mine = ways.filter { $0.listener == client.attempt.listener && $0.hops.isEmpty }
    func answers(_ server: Int) -> [AccessCondition.Answer] {
      mine.filter { $0.server == server }.map { $0.answer(to: client.way) }
    }
    switch outcome.end {
    case .upstream, .content, .session(.ok):
      reached += 1
      // What is passed on has ways that go on at another listener.
      let found = answers(server)
      if found.isEmpty, world.http.servers[server].root.ways.leads.isEmpty { return "no way leads to \(outcome.words)" }
      return !found.isEmpty && found.allSatisfy { $0 == .refuses }
        ? "each way refuses a session that was let in: \(outcome.words)" : nil
    case .session(.refusedAddress), .session(.refusedCertificate), .session(.refusedRule):
      refused += 1
      certain += 1
      // A handshake that fails says nothing of the block that its name has chosen.
      let place = outcome.end == .session(.refusedAddress) ? server : world.server(of: client.attempt) ?? server
      return answers(place).contains(.admits) ? "a way admits a session that was refused: \(outcome.words)" : nil
    case .session, .status, .handshake, .unknown: return nil
    }
  }

  private func hasContent(_ outcome: Outcome) -> Bool {
    switch outcome.end {
    case .upstream: !outcome.upstreams.isEmpty
    case .content: (outcome.status ?? 200) < 300
    // The text of a `return` behind `error_page 403` comes with status 403.
    case .status(let status): status < 300 || outcome.isAnswered
    case .handshake, .session, .unknown: false
    }
  }

  private func client(_ numbers: inout SeededNumbers, _ world: TrialWorld) -> Client {
    let listener = Int.random(in: 0..<world.http.listeners.count, using: &numbers)
    var persona = Persona.nobody
    switch Int.random(in: 0..<10, using: &numbers) {
    case 0..<3: break
    case 3: persona = .stranger
    default:
      if !world.authorities.isEmpty {
        let issuer = Int.random(in: 0..<world.authorities.count, using: &numbers)
        let name = numbers.pick(RandomConfiguration.clientNames)
        persona = Persona(name, subject: [NamePart("CN", name)], issuer: .authority(issuer))
        if numbers.roll(10) { persona.fault = .expired }
      }
    }
    let host = numbers.pick(RandomConfiguration.hosts)
    let isTLS = world.http.listeners[listener].isTLS
    let name = !isTLS ? "" : numbers.roll(70) ? host : numbers.roll(30) ? "" : numbers.pick(RandomConfiguration.hosts)
    var attempt = Attempt(persona, listener: listener, serverName: name, host: host)
    attempt.method = numbers.pick(["GET", "GET", "GET", "POST", "DELETE", "HEAD"])
    attempt.target = target(&numbers)
    if numbers.roll(30) { attempt.client = .ipv4(address: 0x0A00_0005, port: 40_000) }
    let isFront = if case .ipv4(let address, _) = attempt.client { address >> 24 == 10 } else { false }
    if world.http.listeners[listener].expectsProxyHeader, numbers.roll(50) {
      attempt.proxied = .ipv4(address: numbers.roll(50) ? 0x0A00_0007 : 0xF000_0009, port: 40_000)
    }
    // A front has no certificate here, and a stranger who sends the field changes nothing by it.
    if world.http.listeners[listener].kind == .http, numbers.roll(30) {
      attempt.relayed = persona
      if isFront || numbers.roll(50) { attempt.persona = .nobody }
    }
    let (shown, relayed) = (attempt.persona, attempt.relayed)
    let hasPassword = numbers.roll(20)
    if hasPassword { attempt.fields = ["Authorization: Basic YWxpY2U6eA=="] }
    var way = WayClient(
      address: attempt.client, method: attempt.method,
      lacks: hasPassword ? [.token, .signature] : [.password, .token, .signature]
    ) { server in
      let relaying = world.http.servers[server].root[RealClientCert.self] != nil
      if relaying, isFront {
        // Over TLS, a front must be one whom its handshake has admitted. What it doesn't relay, its client doesn't have.
        if isTLS, shown.issuer != .nobody { return nil }
        guard let relayed else { return .absent }
        return Self.verdict(of: relayed, at: server, world)
      }
      return isTLS ? Self.verdict(of: shown, at: server, world) : .absent
    }
    if isTLS, world.http.servers.isEmpty { way.address = nil }
    let words =
      "\(attempt.method) \(attempt.target) Host \(host) SNI \(name) at \(world.http.listeners[listener].address) by"
      + " \(persona.name) \(persona.issuer) from \(attempt.client.host)\(hasPassword ? " with a password" : "")"
      + " shows \(shown.name), relays \(relayed?.name ?? "nothing"), PROXY \(attempt.proxied?.host ?? "none")"
    return Client(attempt: attempt, way: way, words: words)
  }

  private func target(_ numbers: inout SeededNumbers) -> String {
    let path = numbers.pick(RandomConfiguration.paths)
    return switch Int.random(in: 0..<12, using: &numbers) {
    case 0: path + "zzz"
    case 1: "/" + path
    case 2: path.replacing("a", with: "%61")
    case 3: path.uppercased()
    case 4: path + ";x/"
    case 5: "/q/..\(path)"
    case 6: path + "?x=1"
    case 7: "/r/b"
    case 8: path + "inner"
    default: path
    }
  }

  /// What OpenSSL would say, from how the certificate was made.
  private static func verdict(of persona: Persona, at server: Int, _ world: TrialWorld) -> ClientVerdict? {
    guard let policy = world.http.servers[server].clientPolicy, policy.verification != .off,
      let leaf = world.certificates(of: persona, for: server)?.first
    else { return .absent }
    let isTrusted =
      if case .authority(let index) = persona.issuer { world.authorities[index].servers.contains(server) } else {
        false
      }
    if isTrusted, persona.fault == nil { return .verified(VerifiedChain(unjudged: leaf)) }
    // Without a known CA, `optional_no_ca` asks for no more; an end in the past is another fault.
    if policy.verification == .optionalNoCA, persona.fault == nil { return .unverified(leaf, reason: "self-made") }
    return .refused(leaf, code: 20, reason: "self-made")
  }
}
