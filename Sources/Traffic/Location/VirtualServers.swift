import Bytes
package import HTTP
import Identity
package import Patterns
package import TLS

/// The server blocks of one listener in one worker: found by SNI in the handshake, and by Host for each request.
///
/// nginx's order: exact name, longest leading wildcard, longest trailing wildcard, first regular expression, default.
package final class VirtualServers: ServerChooser {
  package let settings: ListenerSettings
  package let fallback: LiveServer
  /// The listener has pages for operators, and no other content: its clients get a place where no other client does.
  let isForOperators: Bool
  private let servers: [LiveServer]
  private let hasEarlyData: Bool
  private var exact: [[UInt8]: LiveServer] = [:]
  /// Suffixes with their dot, as `.example.com`; the flag: the bare name matches too.
  private var leading: [[UInt8]: LiveServer] = [:]
  private var trailing: [[UInt8]: LiveServer] = [:]
  private var patterns: [(RegularExpression, [NamedCapture], LiveServer)] = []
  private let scratch = RegularExpression.Scratch()

  /// `all`: by index in HTTPSettings.servers. `challenges`: those that listeners of HTTP answer.
  package init(
    _ settings: ListenerSettings, all: [LiveServer], challenges: ChallengeCertificates?, healthMark: HealthMark? = nil
  ) {
    self.settings = settings
    self.servers = settings.servers.map { all[$0] }
    self.fallback = all[settings.defaultServer]
    var (hasPage, hasOther) = (false, settings.kind != .http)
    for server in servers where !hasOther {
      server.settings.root.visitNested {
        guard let content = $0.content else { return }
        if type(of: content).isForOperators { hasPage = true } else { hasOther = true }
      }
    }
    self.isForOperators = hasPage && !hasOther
    self.hasEarlyData = servers.contains { $0.context?.takesEarlyData ?? false }
    super.init(challenges: settings.kind == .http ? challenges : nil, healthMark: healthMark)
    for server in servers {
      for name in server.settings.names { add(name, server) }
    }
  }

  private func add(_ name: ServerName, _ server: LiveServer) {
    // The first server block with a name keeps the name, as in nginx.
    func claim(_ table: inout [[UInt8]: LiveServer], _ key: String) {
      let key = Array(key.utf8)
      if table[key] == nil { table[key] = server }
    }
    switch name {
    case .exact(let name): claim(&exact, name)
    case .leadingWildcard(let suffix, let matchesBare):
      claim(&leading, suffix)
      if matchesBare { claim(&exact, String(suffix.dropFirst())) }
    case .trailingWildcard(let prefix): claim(&trailing, prefix)
    case .regex(let pattern, let slots): patterns.append((pattern, slots, server))
    }
  }

  /// Whether every Host leads to the same server block.
  var hasOnlyOne: Bool { servers.count == 1 && patterns.isEmpty }

  package override var initial: ServerTLSContext? { fallback.context }
  /// As in nginx, where `error_page 497` can lead such clients to `https`.
  package override var answersInClear: Bool { settings.kind == .http }
  package override var takesEarlyData: Bool { hasEarlyData }

  /// The context of the server block with this name; the default server's if no block has the name.
  package override func choose(_ name: [UInt8]) -> ServerTLSContext? {
    // `server_name ""` is for requests without Host, not for handshakes without SNI (nginx).
    if name.isEmpty { return fallback.context }
    return switch find(name) {
    case .found(let found): found.server.context
    case .default: fallback.context
    case .undecided: nil
    }
  }

  /// Judges by the rules of the server block, because no location is known in the handshake.
  package override func denial(of client: VerifiedClient?, by context: ServerTLSContext) -> String? {
    guard let server = server(of: context) else { return "no server block" }
    guard let rules = server.root.clientRules else { return nil }
    guard case .denied(let place, let reason) = rules.judge(ClientRules.Client(client), scratch: scratch) else {
      return nil
    }
    return ClientRules.message(place, reason)
  }

  /// The server block of a context that a handshake chose.
  package func server(of context: ServerTLSContext) -> LiveServer? { servers.first { $0.context === context } }

  /// Whether a server block takes the word of the session's peer about clients, by its address.
  func hasFront(_ session: ClientSession) -> Bool {
    servers.contains { $0.relayedClientStep?.isFront(session) ?? false }
  }

  /// The listener of another generation with the address of this one.
  package func successor(in fresh: LiveGeneration) -> VirtualServers? {
    fresh.listeners.first {
      $0.settings.address == settings.address && $0.settings.isTLS == settings.isTLS
        && $0.settings.kind == settings.kind
    }
  }

  /// Whether this is a listener with TLS that has a server block with the name, which is not empty.
  package func has(_ name: [UInt8]) -> Bool {
    guard settings.isTLS, !name.isEmpty, case .found = find(name) else { return false }
    return true
  }

  package struct Found {
    package var server: LiveServer
    package var slots: [NamedCapture] = []
    package var captures = Captures()
  }

  package enum Search {
    case found(Found)
    case `default`
    /// A regular expression reached its limit, so the server block is unknown.
    case undecided
  }

  /// `name`: lower-case, without port and trailing dot.
  package func find(_ name: [UInt8]) -> Search {
    if let server = exact[name] { return .found(Found(server: server)) }
    if !leading.isEmpty,
      let server = wildcard(leading, name.indices.lazy.filter { name[$0] == 0x2E }.map { name[$0...] })
    {
      return .found(Found(server: server))
    }
    if !trailing.isEmpty,
      let server = wildcard(trailing, name.indices.reversed().lazy.filter { name[$0] == 0x2E }.map { name[...$0] })
    {
      return .found(Found(server: server))
    }
    for (pattern, slots, server) in patterns {
      var captures = Captures()
      switch name.withUnsafeBytes({ pattern.match($0, scratch: scratch, into: &captures) }) {
      case .match: return .found(Found(server: server, slots: slots, captures: captures))
      case .noMatch: continue
      case .limit: return .undecided
      }
    }
    return .default
  }

  /// The first, so the longest, part of a name that a table has.
  private func wildcard(
    _ table: [[UInt8]: LiveServer], _ parts: some Sequence<ArraySlice<UInt8>>
  ) -> LiveServer? {
    for part in parts {
      if let server = table[Array(part)] { return server }
    }
    return nil
  }
}

/// One `server {}` in one worker.
public final class LiveServer {
  package let settings: ServerSettings
  /// $server_name
  package let name: [UInt8]
  /// nil: nobody's certificate is judged. A server block without TLS has one for the clients of trusted fronts.
  package let context: ServerTLSContext?
  package let root: LiveLocation
  /// What a connection is asked for before its first response.
  package var policy: ResponsePolicy { root.policy }
  /// Steps of the server block itself, before a location is found.
  package let rewrite: [PhaseStep]
  package let locations: LocationTree
  /// The locations of `if` blocks.
  package let conditionals: ConditionalLocations
  package let headLimits: HeadLimits
  /// Who the clients are, which the server block settles before any phase; nil: who they are to the connection.
  package let addressStep: ClientAddressStep?
  /// Whose certificate a request is judged by, where fronts may say that; nil: the connection's client's.
  package let relayedClientStep: RelayedClientStep?
  /// What the metrics count of its requests; nil if no location shows metrics.
  package var meter: RequestMeter?
  /// The same of the sessions of a server of `stream`.
  var sessionMeter: SessionMeter?

  package init(
    settings: ServerSettings, context: ServerTLSContext?, root: LiveLocation, conditionals: ConditionalLocations
  ) {
    self.settings = settings
    self.name = Array(settings.primaryName.utf8)
    self.context = context
    self.root = root
    self.rewrite = root.serverEntry.rewrite
    self.locations = root.inner
    self.conditionals = conditionals
    self.addressStep = root.serverEntry.addressStep
    self.relayedClientStep = root.serverEntry.relayedClientStep
    let bytes = settings.head.bufferSize.multipliedReportingOverflow(by: settings.head.buffers)
    self.headLimits = HeadLimits(
      lineBytes: settings.head.bufferSize,
      headBytes: bytes.overflow ? .max : bytes.partialValue, fields: settings.head.fields,
      ignoreInvalidNames: settings.head.ignoresInvalidFields, underscores: settings.head.underscoresInFields)
  }

  /// Whether a client that `other` verified in the handshake may send requests to this server block: only if both have
  /// the same client policy.
  package func admits(clientOf other: ServerTLSContext) -> Bool {
    guard let context else { return false }
    return context === other || context.clientPolicyDigest == other.clientPolicyDigest
  }
}
