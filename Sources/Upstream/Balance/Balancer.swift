import Transport

/// Picks the next server of a group: nginx's smooth weighted round robin with max_fails and fail_timeout, or another
/// method.
///
/// A pure value: the caller brings the time (milliseconds of one monotonic clock) and what the request says. Each worker
/// has its own; with `zone`, all workers have one (`SharedBalancer`).
struct Balancer: Sendable {
  /// The settings of one server.
  struct Peer: Sendable, Hashable {
    /// 1 to 65535.
    let weight: Int
    var maxFails: Int
    var failTimeout: UInt64
    var maxConnections: Int
    var isBackup: Bool
    var isDown: Bool
    /// Milliseconds; 0: the server has its whole weight at once.
    var slowStart: UInt64 = 0
    var isDraining = false
    /// What `sticky` knows the server by.
    var identifier: [UInt8] = []
    /// nil in tests that need none.
    var address: SocketAddress?

    init(
      weight: Int, maxFails: Int, failTimeout: UInt64, maxConnections: Int, isBackup: Bool, isDown: Bool,
      slowStart: UInt64 = 0, isDraining: Bool = false, identifier: [UInt8] = [], address: SocketAddress? = nil
    ) {
      self.weight = min(max(1, weight), 65_535)
      self.maxFails = maxFails
      self.failTimeout = failTimeout
      self.maxConnections = maxConnections
      self.isBackup = isBackup
      self.isDown = isDown
      self.slowStart = slowStart
      self.isDraining = isDraining
      self.identifier = identifier
      self.address = address
    }
  }

  /// The servers and how to pick one of them.
  struct Plan: Sendable, Equatable {
    var peers: [Peer]
    var method = BalanceMethod.roundRobin
    /// For `consistentHash`.
    var ring: HashRing?
    /// `UpstreamGroupSettings.triesFailedServers`.
    var triesFailed = false
  }

  /// As the configuration or DNS has it.
  private var basis: Plan
  /// What was changed of servers since, by their addresses.
  private(set) var patches: [SocketAddress: ServerPatch] = [:]
  /// `basis` with what was changed.
  private(set) var plan: Plan
  var peers: [PeerState] = []
  var generator: PickGenerator
  /// By index: the weights of all servers before it.
  private(set) var starts: [Int] = []
  private(set) var totalWeight = 0
  private var backupWeight = 0
  /// 100 if a server has `slow_start`, because shares are hundredths.
  private var scale = 1
  private var serials: UInt64
  /// The number of the `GroupList` that the plan is of; 0 without one.
  private(set) var list: UInt64 = 0

  /// `serials`: no server gets this serial, or a lower one.
  init(_ plan: Plan, seed: UInt64 = 0, serials: UInt64 = 0) {
    self.plan = Plan(peers: [])
    basis = self.plan
    self.serials = serials
    generator = PickGenerator(seed: seed)
    replace(plan)
  }

  init(peers: [Peer], method: BalanceMethod = .roundRobin, ring: HashRing? = nil, seed: UInt64 = 0) {
    self.init(Plan(peers: peers, method: method, ring: ring), seed: seed)
  }

  var method: BalanceMethod { plan.method }

  /// Replaces the servers as a whole. What is known of a server stays with its address; the attempts of a server that
  /// is gone end without effect.
  mutating func replace(_ plan: Plan) {
    if !patches.isEmpty {
      // A line that says something else now is newer than what was changed.
      func terms(_ plan: Plan) -> [SocketAddress: Peer] {
        Dictionary(plan.peers.compactMap { peer in peer.address.map { ($0, peer) } }) { first, _ in first }
      }
      let (former, fresh) = (terms(basis), terms(plan))
      patches = patches.filter { former[$0.key] == fresh[$0.key] }
    }
    basis = plan
    adopt(patched)
  }

  /// Takes over what was changed of servers in a state that this one follows.
  mutating func inherit(_ former: Balancer) {
    for peer in basis.peers {
      guard let address = peer.address, let patch = former.patches[address], former.basis.peers.contains(peer) else {
        continue
      }
      patches[address] = patch
    }
    if !patches.isEmpty { adopt(patched) }
  }

  /// Changes the server with this serial.
  mutating func patch(serial: UInt64, _ patch: ServerPatch) {
    guard let address = peers.first(where: { $0.serial == serial })?.terms.address else { return }
    patches[address] = patch.over(patches[address])
    adopt(patched)
  }

  func members(now: UInt64) -> [GroupMember] {
    peers.compactMap { peer in
      let address = peer.terms.address
      let isChanged = address.map { patches[$0] != nil } ?? false
      return GroupMember(
        peer, changedFrom: isChanged ? basis.peers.first(where: { $0.address == address }) : nil, now: now)
    }
  }

  private var patched: Plan {
    guard !patches.isEmpty else { return basis }
    var plan = basis
    plan.peers = basis.peers.map { peer in
      peer.address.flatMap { patches[$0] }.map { $0.applied(to: peer) } ?? peer
    }
    return plan
  }

  private mutating func adopt(_ plan: Plan) {
    guard plan != self.plan else { return }
    var known: [SocketAddress: [PeerState]] = [:]
    for state in peers.reversed() { if let address = state.terms.address { known[address, default: []].append(state) } }
    peers = plan.peers.map { terms in
      if let address = terms.address, var state = known[address]?.popLast() {
        state.adopt(terms)
        return state
      }
      serials &+= 1
      return PeerState(terms, serial: serials)
    }
    self.plan = plan
    starts = []
    (totalWeight, backupWeight) = (0, 0)
    for terms in plan.peers {
      starts.append(totalWeight)
      totalWeight += terms.weight
      if terms.isBackup { backupWeight += terms.weight }
    }
    scale = plan.peers.contains { $0.slowStart > 0 } ? 100 : 1
  }

  /// The same, for a list of this number.
  mutating func replace(_ plan: Plan, list: UInt64) {
    self.list = list
    replace(plan)
  }

  // MARK: Picking

  /// The next server that was not tried yet; nil when none may be used. A chosen server counts as active until `end`.
  mutating func pick(now: UInt64, _ selection: inout Selection) -> ServerTicket? {
    if peers.count == 1 {
      // A single server never counts as failed, because there is no other server (as in nginx).
      guard !selection.tried.contains(0), peers[0].isOpen(isBound: isBound(0, selection)) else { return nil }
      return begin(0, now: now)
    }
    return (choose(now: now, &selection) ?? leastRecentlyFailed(selection)).map { begin($0, now: now) }
  }

  /// A server that has failed, if the group's settings allow it: the one whose failure is the longest ago.
  private func leastRecentlyFailed(_ selection: Selection) -> Int? {
    guard plan.triesFailed else { return nil }
    return peers.indices.filter { !selection.tried.contains($0) && peers[$0].isOpen() }
      .min { peers[$0].checkedAt < peers[$1].checkedAt }
  }

  /// Takes this server once more.
  mutating func pick(again index: Int, now: UInt64) -> ServerTicket? {
    guard peers.indices.contains(index), peers[index].isOpen(isBound: true),
      peers.count == 1 || !peers[index].hasFailed(now: now)
    else { return nil }
    return begin(index, now: now)
  }

  private mutating func begin(_ index: Int, now: UInt64) -> ServerTicket {
    let (isSingle, counts) = (peers.count == 1, countsInFlight)
    peers[index].begin(now: now, isSingle: isSingle, countsInFlight: counts)
    return ServerTicket(index: index, serial: peers[index].serial)
  }

  private mutating func choose(now: UInt64, _ selection: inout Selection) -> Int? {
    switch method {
    case .roundRobin: turn(now: now, selection)
    case .hash: hashed(now: now, &selection) ?? turn(now: now, selection)
    case .consistentHash: onRing(now: now, &selection) ?? turn(now: now, selection)
    case .addressHash: byAddress(now: now, &selection) ?? turn(now: now, selection)
    case .random: drawn(now: now, &selection) ?? turn(now: now, selection)
    case .randomTwo(let time): drawnOfTwo(now: now, time, &selection) ?? turn(now: now, selection)
    case .leastConnections, .leastTime:
      leastLoaded(now: now, selection, backup: false) ?? leastLoaded(now: now, selection, backup: true)
    }
  }

  /// nginx's round robin: the backup servers if no other may be used.
  private mutating func turn(now: UInt64, _ selection: Selection) -> Int? {
    turn(now: now, selection, backup: false) ?? (backupWeight > 0 ? turn(now: now, selection, backup: true) : nil)
  }

  private mutating func turn(now: UInt64, _ selection: Selection, backup: Bool) -> Int? {
    let bound = boundServer(selection, now: now, backup: backup)
    if let bound {
      let others = (backup ? backupWeight : totalWeight - backupWeight) - peers[bound].terms.weight
      // A server that bound requests have brought this far back gets no further back, as in nginx.
      if peers[bound].currentWeight <= -others * scale { return bound }
    }
    let (total, next) = Self.raise(&peers, backup: backup, besides: selection.tried, scale: scale, now: now)
    let choice = bound ?? next
    if let choice { peers[choice].currentWeight -= total }
    return choice
  }

  /// Raises the weights of the servers that may be used. Returns what they rose by, and the server that has the most now,
  /// the first of several.
  ///
  /// Every request goes through all servers here, so this is one loop over their memory: through the array's own
  /// subscripts, it took twice the instructions (115 a server).
  private static func raise(
    _ peers: inout [PeerState], backup: Bool, besides tried: TriedServers, scale: Int, now: UInt64
  ) -> (total: Int, choice: Int?) {
    peers.withUnsafeMutableBufferPointer { peers in
      var (total, most) = (0, Int.min)
      var choice: Int?
      for index in peers.indices
      where peers[index].isTurning(backup: backup, now: now) && !(tried.count > 0 && tried.contains(index)) {
        total += peers[index].gain(scale: scale, now: now)
        if choice == nil || peers[index].currentWeight > most {
          (choice, most) = (index, peers[index].currentWeight)
        }
      }
      return (total, choice)
    }
  }

  mutating func gain(_ index: Int, now: UInt64) -> Int { peers[index].gain(scale: scale, now: now) }

  func isUsable(_ index: Int, _ selection: Selection, now: UInt64) -> Bool {
    !selection.tried.contains(index) && peers[index].isOpen() && !peers[index].hasFailed(now: now)
  }

  // MARK: Sticky

  private func isBound(_ index: Int, _ selection: Selection) -> Bool {
    selection.identifier.map { !$0.isEmpty && $0 == peers[index].terms.identifier } ?? false
  }

  /// The server that the request is bound to, if it may be used.
  func boundServer(_ selection: Selection, now: UInt64, backup: Bool? = nil) -> Int? {
    guard selection.identifier != nil else { return nil }
    return peers.indices.first { index in
      (backup == nil || peers[index].terms.isBackup == backup) && isBound(index, selection)
        && !selection.tried.contains(index) && peers[index].isOpen(isBound: true) && !peers[index].hasFailed(now: now)
    }
  }

  // MARK: Events

  /// Takes the health of a server over.
  mutating func setHealth(of index: Int, isHealthy: Bool, now: UInt64) {
    guard peers.indices.contains(index) else { return }
    peers[index].setHealth(isHealthy, now: now)
  }

  enum AttemptResult { case success, failure, unjudged }

  /// The head of a response has come, or what counts as one in `stream`, so its attempt is in flight no more if that
  /// counts.
  mutating func headDidCome(_ ticket: ServerTicket, after age: UInt64, now: UInt64) {
    guard method.endsFlightEarly, let index = index(of: ticket) else { return }
    peers[index].noteTimes {
      $0.addHeader(age)
      $0.land(age: age, now: now)
    }
  }

  /// The server has taken the connection of an attempt, which goes on.
  mutating func didConnect(_ ticket: ServerTicket, now: UInt64) {
    if let index = index(of: ticket) { peers[index].succeed(now: now, isSingle: peers.count == 1) }
  }

  /// Ends what `pick` began.
  mutating func end(_ ticket: ServerTicket, _ result: AttemptResult, _ times: AttemptTimes? = nil, now: UInt64) {
    guard let index = index(of: ticket) else { return }
    let isSingle = peers.count == 1
    peers[index].end(result, now: now, isSingle: isSingle)
    if method.measuresTime { note(times ?? AttemptTimes(), result, of: index, now: now) }
  }

  private mutating func note(_ times: AttemptTimes, _ result: AttemptResult, of index: Int, now: UInt64) {
    let isTold = times.hasToldHead && method.endsFlightEarly
    let landsNow = countsInFlight && !isTold
    peers[index].noteTimes { state in
      if landsNow { state.land(age: times.whole, now: now) }
      // Only successes count, so that a server that fails fast isn't preferred.
      guard result == .success, let header = times.header else { return }
      state.addWhole(times.whole)
      if !isTold { state.addHeader(header) }
    }
  }

  private var countsInFlight: Bool { if case .leastTime(_, countsInFlight: true) = method { true } else { false } }

  private func index(of ticket: ServerTicket) -> Int? {
    if peers.indices.contains(ticket.index), peers[ticket.index].serial == ticket.serial { return ticket.index }
    return peers.firstIndex { $0.serial == ticket.serial }
  }
}
