public import DNS
public import Transport

/// Asks for one followed name, again when its answer's time ends, and tells the group's list.
///
/// What DNS says counts, also that there is no such name. Without an answer, the list stays as it is.
public final class NameFollower: EventTarget {
  public enum Event: Sendable {
    /// The servers of the group are these now.
    case changed([SocketAddress])
    /// The first failure of its kind in a row.
    case failed(DNSFailure)
  }

  private static let targetLimit = 64
  private let name: FollowedName
  private let list: GroupList
  private let resolver: DNSResolver
  private let policy: DNSPolicy
  private let timeout: Int
  private let told: (Event) -> Void
  private var lastFailure: DNSFailure?
  private var isStopped = false
  /// The SRV records of the round, and the answers about their targets.
  private var services: [ServiceRecord] = []
  private var answers: [DNSName: DNSResult] = [:]
  private var openTargets = 0
  private var lifetime = 0

  /// `resolver`: this follower's own. Another asker's answers would be kept for less than their time.
  public init(
    _ name: FollowedName, _ list: GroupList, resolver: DNSResolver, policy: DNSPolicy, timeout: Int,
    told: @escaping (Event) -> Void
  ) {
    self.name = name
    self.list = list
    self.resolver = resolver
    self.policy = policy
    self.timeout = timeout
    self.told = told
    super.init(loop: resolver.loop)
  }

  public func start() {
    guard !isStopped else { return }
    guard let service = name.service else {
      resolver.resolve(DNSQuestion(name.name, .addresses), timeout: timeout) { [weak self] in self?.take($0) }
      return
    }
    resolver.resolve(DNSQuestion(service, .services), timeout: timeout) { [weak self] in self?.takeServices($0) }
  }

  public func stop() {
    isStopped = true
    resolver.close()
    loop.forgetDeadline(of: self)
  }

  public override func deadlinePassed() { start() }

  private func take(_ result: DNSResult) {
    guard !isStopped else { return }
    switch result {
    case .failure(let reason): fail(reason)
    case .success(let records):
      finish(
        records.addresses.map { FollowedAddress(address: $0.withPort(name.port)) },
        lifetime: policy.seconds(of: result))
    }
  }

  private func takeServices(_ result: DNSResult) {
    guard !isStopped else { return }
    guard case .success(let records) = result else {
      if case .failure(let reason) = result { fail(reason) }
      return
    }
    lifetime = policy.seconds(of: result)
    services = records.services.sorted { $0.priority < $1.priority }
    answers = [:]
    var targets: [DNSName] = []
    for service in services where !targets.contains(service.target) { targets.append(service.target) }
    targets = Array(targets.prefix(Self.targetLimit))
    openTargets = targets.count
    guard !targets.isEmpty else { return finish([], lifetime: lifetime) }
    for target in targets {
      resolver.resolve(DNSQuestion(target, .addresses), timeout: timeout) { [weak self] result in
        self?.takeTarget(target, result)
      }
    }
  }

  private func takeTarget(_ target: DNSName, _ result: DNSResult) {
    guard !isStopped else { return }
    answers[target] = result
    openTargets -= 1
    guard openTargets == 0 else { return }
    var found: [FollowedAddress] = []
    let first = services.first?.priority
    for service in services {
      switch answers[service.target] {
      case .success(let records)?:
        lifetime = min(lifetime, policy.seconds(of: .success(records)))
        for address in records.addresses {
          found.append(
            FollowedAddress(
              address: address.withPort(service.port), weight: service.weight == 0 ? nil : Int(service.weight),
              isSecond: service.priority != first))
        }
      // A part of the servers would get the load of all.
      case .failure(let reason)? where !reason.isDefinite: return fail(reason)
      case .failure?, nil: break
      }
    }
    finish(found, lifetime: lifetime)
  }

  private func finish(_ addresses: [FollowedAddress], lifetime: Int) {
    lastFailure = nil
    change(addresses)
    askAgain(after: lifetime)
  }

  private func fail(_ reason: DNSFailure) {
    if lastFailure != reason { told(.failed(reason)) }
    lastFailure = reason
    if reason.isDefinite { change([]) }
    askAgain(after: reason.isDefinite ? policy.seconds(of: .failure(reason)) : 1)
  }

  private func change(_ addresses: [FollowedAddress]) {
    if let group = list.update(name, addresses) { told(.changed(group.servers.map(\.address))) }
  }

  private func askAgain(after seconds: Int) {
    guard !isStopped else { return }
    // The answer is kept until then.
    let (product, overflow) = max(1, seconds).multipliedReportingOverflow(by: 1000)
    setDeadline(in: overflow ? 86_400_000 : min(product, 86_400_000 * 365) + 1)
  }
}
