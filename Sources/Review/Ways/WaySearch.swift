import Features
import Forward
import Observability
import TLS
import Traffic
import Transport

/// Finds all ways of a configuration, by its settings alone.
///
/// Each request begins at a listener, in a server block that its name chooses, and comes to a location by its path. From there
/// the leads that features name (`RequestLead`) go on. On the way stand gates. A way by which nobody passes who doesn't pass
/// by another one to the same location is left out: what leads there is said of the other.
struct WaySearch {
  /// A request before a location.
  private struct Arrival {
    var entry: Way.Entry
    var gates: [AccessGate]
    var hops: [Way.Hop]
    /// It may enter `internal` locations.
    var isInternal = false
    var isSubrequest = false
    var hidesMethod = false
    /// The content of the location around an `if` or a `limit_except`.
    var outer: LocationSettings?
    /// The location that a path has led to last; nil: none has.
    var origin: LocationSettings?
    /// Each client may say which address it has, in the location.
    var claimsAddress = false
    /// It comes from `limit_except`, and is in the location already.
    var isOther = false
  }

  private struct Reach {
    let location: LocationSettings
    let arrival: Arrival
  }

  /// What is known of those who have come to a location.
  private struct Seen {
    let keys: Set<String>
    let isInternal: Bool
    let isSubrequest: Bool
    /// Their method may be another one than the client's, so that what asks for a method may admit them.
    let hidesMethod: Bool
  }

  private let http: HTTPSettings
  private let paths = PathSearch()
  private(set) var ways: [Way] = []
  /// false: there are more leads than are followed, so that a way may be missing.
  private(set) var isComplete = true
  private var traits: [ObjectIdentifier: LocationWays] = [:]
  /// The server blocks that take somebody's word about addresses.
  private var believing: Set<Int> = []
  // Of the server block that is searched.
  private var listener = 0
  private var server = 0
  private var open: [Reach] = []
  /// Leads to locations that are known already.
  private var otherHops: [ObjectIdentifier: [Way.Hop]] = [:]
  private var seen: [ObjectIdentifier: [Seen]] = [:]

  /// Of one server block at one listener.
  private static let mostReaches = 20_000
  private static let mostHops = 12

  init(_ http: HTTPSettings) {
    self.http = http
    for (server, location) in http.everyLocation where !traits(of: location).addressesSaidBy.isEmpty {
      believing.insert(server)
    }
    for listener in http.listeners.indices {
      for server in http.listeners[listener].servers where http.servers.indices.contains(server) {
        search(listener, server, gates: [], hops: [])
      }
    }
    removeCovered()
  }

  private mutating func traits(of location: LocationSettings) -> LocationWays {
    let key = ObjectIdentifier(location)
    if let known = traits[key] { return known }
    let ways = location.ways
    traits[key] = ways
    return ways
  }

  // MARK: Servers

  private mutating func search(_ listener: Int, _ server: Int, gates: [AccessGate], hops: [Way.Hop]) {
    let settings = http.servers[server], isTLS = http.listeners[listener].isTLS
    (self.listener, self.server) = (listener, server)
    var gates = gates
    let root = traits(of: settings.root)
    if let policy = policy(of: server, at: listener), let admission = admission(policy) {
      gates.append(gate([], admission: admission, in: server, listener))
    }
    if settings.stream != nil { return searchSession(root, gates, hops) }
    // The handshake is refused by the rules of the server block, whatever its locations say.
    if isTLS, settings.tls?.rejection == .handshake {
      let rules = root.conditions.filter { $0.phase == .entry && $0.kind == .certificate }
      if !rules.isEmpty { gates.append(gate(rules, in: server, listener)) }
    }
    open = []
    seen = [:]
    let arrival = Arrival(entry: .admitted, gates: gates, hops: hops)
    beginAtPaths(arrival, root)
    beginAtRefusals(root, hops)
    follow(root)
  }

  /// By what a server block judges the clients of a listener; nil: nobody there can show a certificate.
  private func policy(of server: Int, at listener: Int) -> ServerTLSSettings? {
    let settings = http.servers[server]
    if http.listeners[listener].isTLS { return settings.tls }
    guard traits[ObjectIdentifier(settings.root)]?.certificatesSaidBy.isEmpty == false else { return nil }
    // There is no handshake that could be rejected.
    var policy = settings.clientPolicy
    policy?.rejectsHandshake = false
    return policy
  }

  /// nil: the block has no lines about clients that anybody must meet. A block that rejects handshakes still gets the requests
  /// of clients who have shaken hands with another block that judges them alike.
  private func admission(_ policy: ServerTLSSettings) -> ServerTLSSettings? {
    guard policy.rejectsHandshake else { return policy }
    let others = http.listeners[listener].servers.filter { $0 != server }.compactMap { http.servers[$0].tls }
    if let alike = others.first(where: { !$0.rejectsHandshake && $0.judgesClients(as: policy) }) { return alike }
    // A front says who the client is, so it may have shaken hands with any of them.
    guard traits[ObjectIdentifier(http.servers[server].root)]?.certificatesSaidBy.isEmpty == false,
      others.contains(where: { !$0.rejectsHandshake })
    else { return policy }
    var told = policy
    told.rejectsHandshake = false
    return told
  }

  private func gate(
    _ conditions: [AccessCondition], oneIsEnough: Bool = false, admission: ServerTLSSettings? = nil, in server: Int,
    _ listener: Int, _ arrival: Arrival? = nil
  ) -> AccessGate {
    let isOfRefused = if case .refused? = arrival?.entry { true } else { false }
    let hidesAddress = believing.contains(server) || http.listeners[listener].expectsProxyHeader
    let claimsAddress = arrival?.claimsAddress ?? claimsAddress(server, listener)
    return AccessGate(
      conditions, oneIsEnough: oneIsEnough, admission: admission, in: server, isOfRefused: isOfRefused,
      hidesMethod: arrival?.hidesMethod ?? false, hidesAddress: hidesAddress, claimsAddress: claimsAddress,
      isTLS: http.listeners[listener].isTLS, takesCertificates: policy(of: server, at: listener) != nil)
  }

  /// Whether a server block takes the word of each client of a listener about its address. In `stream`, only a PROXY header
  /// says it.
  private func claimsAddress(_ server: Int, _ listener: Int) -> Bool {
    let settings = http.servers[server]
    return traits[ObjectIdentifier(settings.root)]?.addressesSaidByAnybody == true
      && (settings.stream == nil || http.listeners[listener].expectsProxyHeader)
  }

  /// Requests with paths: the rewrite directives of the server block run first, then any location can follow.
  private mutating func beginAtPaths(_ arrival: Arrival, _ root: LocationWays) {
    var arrival = arrival
    for response in root.responses { add(response, of: http.servers[server].root, arrival) }
    for lead in root.leads { if case .rewrite = lead.departure { go(lead, arrival) } }
    fail(root.leads, arrival)
    let rewrite = root.conditions.filter { $0.phase == .rewrite }
    if !rewrite.isEmpty { arrival.gates.append(gate(rewrite, in: server, listener, arrival)) }
    if root.endsEarly { return }
    let settings = http.servers[server].root
    // Each path begins with a slash.
    if !settings.locations.contains(where: { ["/", ""].contains($0.match.prefixText ?? "no") }) {
      reach(byPath: settings, arrival)
    }
    for location in Self.byPath(settings) { reach(byPath: location, arrival) }
  }

  /// The locations inside another one that a path can choose.
  private static func byPath(_ outer: LocationSettings) -> [LocationSettings] {
    outer.locations.flatMap { location -> [LocationSettings] in
      if case .named = location.match { return [] }
      return [location] + byPath(location)
    }
  }

  /// Error pages of requests that the server block refuses before it looks at a path.
  private mutating func beginAtRefusals(_ root: LocationWays, _ hops: [Way.Hop]) {
    let settings = http.servers[server], isTLS = http.listeners[listener].isTLS
    var codes: Set<Int> = [400, 408, 414, 494]
    if isTLS { codes.formUnion([421, 497]) }
    if let policy = settings.clientPolicy, policy.verification != .off { codes.formUnion([495, 496]) }
    for lead in root.leads {
      guard case .failure(let statuses) = lead.departure else { continue }
      let found = statuses.intersection(codes)
      guard !found.isEmpty else { continue }
      let arrival = Arrival(entry: .refused(found.sorted()), gates: [], hops: hops, isInternal: true, hidesMethod: true)
      go(lead, arrival)
    }
  }

  // MARK: Sessions of stream

  private mutating func searchSession(_ root: LocationWays, _ gates: [AccessGate], _ hops: [Way.Hop]) {
    let location = http.servers[server].root
    var gates = gates
    // The rules on addresses of the listener's own block come first, and without TLS or ssl_preread no name chooses another.
    let first = http.listeners[listener].defaultServer
    if first != server, hops.isEmpty {
      let readsNames = http.listeners[listener].isTLS || http.servers[first].stream?.preread.isOn == true
      guard readsNames else { return }
      for condition in traits(of: http.servers[first].root).conditions
      where [.limit, .access].contains(condition.phase) {
        gates.append(gate([condition], in: first, listener))
      }
    }
    for condition in binding(root.conditions) { gates.append(gate([condition], in: server, listener)) }
    for lead in root.leads {
      guard case .listener(let template) = lead.target else { continue }
      let hop = Way.Hop(words: lead.words, place: lead.place)
      guard hops.count < 8 else {
        isComplete = false
        continue
      }
      let (from, block) = (listener, server)
      let targets: [Int]
      var gates = gates
      if let text = template.constant {
        targets = Self.listener(named: String(decoding: text, as: UTF8.self), http).map { [$0] } ?? []
      } else {
        targets = http.listeners.indices.filter { $0 != from }
        gates.append(
          gate(
            [AccessCondition(asking: .variable, .content, "\(template.asWritten) names this listener")], in: server,
            from))
      }
      for target in targets {
        for other in http.listeners[target].servers where http.servers.indices.contains(other) {
          let first = ways.count
          search(target, other, gates: gates, hops: hops + [hop])
          // They begin at the listener that the client connects to.
          for index in first..<ways.count { ways[index] = ways[index].beginning(at: from) }
          (listener, server) = (from, block)
        }
      }
    }
    guard let content = content(of: location, within: nil), !root.leads.contains(where: \.isToListener) else { return }
    ways.append(
      Way(
        listener: listener, server: server, entry: .admitted, hops: hops, location: location, content: content,
        gates: gates, isSubrequest: false, origin: nil))
  }

  private static func listener(named text: String, _ http: HTTPSettings) -> Int? {
    guard let addresses = try? SettingsBuilder.listenAddresses(text, defaultPort: nil), let address = addresses.first
    else { return nil }
    return http.listeners.index(of: address)
  }

  // MARK: Locations

  private mutating func reach(byPath location: LocationSettings, _ arrival: Arrival) {
    var arrival = arrival
    arrival.origin = location
    reach(location, arrival)
  }

  private mutating func reach(_ location: LocationSettings, _ arrival: Arrival) {
    guard open.count < Self.mostReaches, arrival.hops.count <= Self.mostHops else {
      isComplete = false
      return
    }
    let keys = AccessGate.keys(arrival.gates), key = ObjectIdentifier(location)
    let isKnown = seen[key, default: []].contains { known in
      known.keys.isSubset(of: keys) && (known.isInternal || !arrival.isInternal || !location.isInternal)
        && (!known.isSubrequest || arrival.isSubrequest) && (known.hidesMethod || !arrival.hidesMethod)
    }
    if isKnown {
      // The other way says what leads here, too.
      if let hop = arrival.hops.last, otherHops[key, default: []].count < 8, !otherHops[key, default: []].contains(hop)
      {
        otherHops[key, default: []].append(hop)
      }
      return
    }
    seen[key, default: []].append(
      Seen(
        keys: keys, isInternal: arrival.isInternal, isSubrequest: arrival.isSubrequest, hidesMethod: arrival.hidesMethod
      ))
    open.append(Reach(location: location, arrival: arrival))
  }

  private mutating func follow(_ root: LocationWays) {
    var index = 0
    let first = ways.count
    while index < open.count {
      let next = open[index]
      index += 1
      enter(next.location, next.arrival, root)
    }
    for index in first..<ways.count {
      let hops = otherHops[ObjectIdentifier(ways[index].location)] ?? []
      ways[index].others = hops.filter { !ways[index].hops.contains($0) }
    }
    open = []
    otherHops = [:]
  }

  private mutating func enter(_ location: LocationSettings, _ arrival: Arrival, _ root: LocationWays) {
    let traits = traits(of: location)
    let isRoot = location === http.servers[server].root
    var arrival = arrival
    arrival.claimsAddress = traits.addressesSaidByAnybody || root.addressesSaidByAnybody
    fail(traits.leads, arrival)
    if location.isInternal, !arrival.isInternal { return }
    for lead in traits.leads { if case .entrance = lead.departure { go(lead, arrival, from: location) } }
    let isOther = arrival.isOther
    arrival.isOther = false
    pass(traits.conditions.filter { $0.phase == .entry }, &arrival)
    if !isRoot, !isOther {
      for response in traits.responses { add(response, of: location, arrival) }
      for lead in traits.leads { if case .rewrite = lead.departure { go(lead, arrival, from: location) } }
      pass(traits.conditions.filter { $0.phase == .rewrite }, &arrival)
      if traits.endsEarly { return }
    }
    pass(traits.conditions.filter { $0.phase == .limit }, &arrival)
    if !arrival.isSubrequest {
      for lead in traits.leads { if case .question = lead.departure { go(lead, arrival) } }
      pass(traits.conditions.filter { $0.phase == .access }, &arrival, oneIsEnough: traits.oneIsEnough)
    }
    pass(traits.conditions.filter { $0.phase == .behind }, &arrival)
    for lead in traits.leads { if case .copy = lead.departure { go(lead, arrival) } }
    pass(traits.conditions.filter { $0.phase == .content }, &arrival)
    for lead in traits.leads { if case .content = lead.departure { go(lead, arrival) } }
    if let content = content(of: location, within: arrival.outer) { add(content, of: location, arrival) }
  }

  /// Error pages, of whatever has failed where the request has arrived. A subrequest has none.
  private mutating func fail(_ leads: [RequestLead], _ arrival: Arrival) {
    if arrival.isSubrequest { return }
    var failed = arrival
    failed.isInternal = true
    failed.hidesMethod = true
    for lead in leads { if case .failure = lead.departure { go(lead, failed) } }
  }

  private func pass(_ all: [AccessCondition], _ arrival: inout Arrival, oneIsEnough: Bool = false) {
    let conditions = binding(all)
    if conditions.isEmpty { return }
    let gates =
      oneIsEnough
      ? [gate(conditions, oneIsEnough: true, in: server, listener, arrival)]
      : conditions.map { gate([$0], in: server, listener, arrival) }
    let known = AccessGate.keys(arrival.gates)
    arrival.gates += gates.filter { !known.contains($0.key) }
  }

  /// Those that refuse somebody: what rules on certificates say may be only reported, too.
  private func binding(_ conditions: [AccessCondition]) -> [AccessCondition] {
    guard policy(of: server, at: listener)?.rejection == .reportOnly else { return conditions }
    return conditions.filter { !$0.isOfCertificates }
  }

  private mutating func add(_ content: WayContent, of location: LocationSettings, _ arrival: Arrival) {
    ways.append(
      Way(
        listener: listener, server: server, entry: arrival.entry, hops: arrival.hops, location: location,
        content: content, gates: arrival.gates, isSubrequest: arrival.isSubrequest, origin: arrival.origin))
  }

  private mutating func add(_ response: EarlyResponse, of location: LocationSettings, _ arrival: Arrival) {
    // A redirect has no content, and a refusal is none.
    guard response.status < 300 else { return }
    var arrival = arrival
    if let condition = response.condition { pass([condition], &arrival) }
    add(WayContent(.response, response.words, at: location.location), of: location, arrival)
  }

  private func content(of location: LocationSettings, within outer: LocationSettings?) -> WayContent? {
    guard let content = location.content ?? outer?.content else {
      if http.servers[server].stream != nil { return nil }
      // Nobody has put files where no line says a folder.
      return location.ways.files.map { WayContent(.content, $0) }
    }
    if let pass = content as? UpstreamPass { return WayContent(.upstream, pass.destination(http)) }
    return WayContent(.content, content.words(http), at: location.location)
  }

  // MARK: Leads

  /// `from`: the location around a block.
  private mutating func go(_ lead: RequestLead, _ arrival: Arrival, from outer: LocationSettings? = nil) {
    var next = arrival
    next.hops.append(Way.Hop(words: lead.words, place: lead.place))
    if let condition = lead.condition { pass([condition], &next) }
    switch lead.target {
    case .block(let block):
      next.outer = outer.flatMap { $0.content == nil ? next.outer : $0 }
      if case .entrance = lead.departure { next.isOther = true }
      return reach(block, next)
    case .listener: return
    case .path, .named, .anywhere: break
    }
    next.outer = nil
    next.isInternal = true
    switch lead.departure {
    case .question, .copy: next.isSubrequest = true
    case .failure: next.hidesMethod = true
    case .entrance, .rewrite, .content: break
    }
    switch lead.target {
    case .named(let name):
      for location in http.servers[server].root.locations {
        if case .named(name) = location.match { reach(location, next) }
      }
    case .anywhere:
      // A subrequest's response leads nowhere.
      if arrival.isSubrequest { return }
      next.hidesMethod = true
      let root = http.servers[server].root
      // Nobody names the block of an `if` or a `limit_except`.
      for location in root.locations where location.match.isNamed { reach(location, next) }
      for location in Self.byPath(root) {
        // Clients come to the others by themselves, and are asked for no more there.
        if arrival.entry == .admitted, !location.isInternal { continue }
        reach(byPath: location, next)
      }
    case .path(let template):
      if case .rewrite = lead.departure {
        go(toPath: template, next, beginsAnew: false)
      } else {
        go(toPath: template, next)
      }
    case .block, .listener: break
    }
  }

  /// `beginsAnew`: the directives of the server block run before the location is found, as with each new path but that of
  /// `rewrite`.
  private mutating func go(toPath template: Template, _ arrival: Arrival, beginsAnew: Bool = true) {
    let root = http.servers[server].root
    var text: [UInt8] = []
    var isWhole = true
    for part in template.parts {
      guard case .literal(let bytes) = part else {
        isWhole = false
        break
      }
      text += bytes
    }
    if let end = text.firstIndex(of: 0x3F) {
      text.removeSubrange(end...)
      isWhole = true
    }
    var arrival = arrival
    if beginsAnew {
      let server = traits(of: root)
      pass(server.conditions.filter { $0.phase == .rewrite }, &arrival)
      if server.endsEarly { return }
    }
    if isWhole {
      switch paths.find(text, in: root.locations) {
      case .location(let location): return reach(byPath: location, arrival)
      case .none: return reach(byPath: root, arrival)
      case .redirect: return
      case .undecided: break
      }
    }
    for location in PathSearch.candidates(isWhole ? [] : text, in: root.locations) { reach(byPath: location, arrival) }
    reach(byPath: root, arrival)
  }

  // MARK: The rest

  private mutating func removeCovered() {
    var groups: [String: [Int]] = [:]
    for (index, way) in ways.enumerated() {
      groups["\(way.listener) \(way.server) \(ObjectIdentifier(way.location)) \(way.content.key)", default: []].append(
        index)
    }
    var covered: Set<Int> = []
    for indices in groups.values where indices.count > 1 {
      for index in indices where !covered.contains(index) {
        for other in indices where other != index && !covered.contains(other) && ways[other].isCovered(by: ways[index])
        {
          // Of two that ask for the same, the shorter one stays.
          if ways[index].isCovered(by: ways[other]), ways[other].hops.count < ways[index].hops.count { continue }
          covered.insert(other)
          if let hop = ways[other].hops.last, !ways[index].others.contains(hop), !ways[index].hops.contains(hop) {
            ways[index].others.append(hop)
          }
        }
      }
    }
    ways = ways.indices.filter { !covered.contains($0) }.map { ways[$0] }
  }
}

extension LocationMatch {
  fileprivate var isNamed: Bool { if case .named = self { true } else { false } }
}

extension RequestLead {
  fileprivate var isToListener: Bool { if case .listener = target { true } else { false } }
}

extension Way {
  fileprivate func beginning(at listener: Int) -> Way {
    var way = Way(
      listener: listener, server: server, entry: entry, hops: hops, location: location, content: content, gates: gates,
      isSubrequest: isSubrequest, origin: origin)
    way.others = others
    return way
  }
}
