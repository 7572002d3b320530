import Bytes
import Forward
import HTTP
import Negotiation
import Observability
import TLS
import Traffic
import Transport
import Upstream

/// Checks one server, again and again, on the loop of one worker.
///
///     waiting ──interval──► asking ──result──► waiting …      one check at a time
///
/// Each check opens a connection of its own, under the location's trust: a server that `proxy_pass` would refuse gets no
/// byte of a check either.
final class HealthChecker: EventTarget {
  private unowned let worker: Worker
  private let settings: HealthCheckSettings
  private let health: ServerHealth
  /// nil: the check is of `stream`.
  private let request: HealthCheckRequest?
  private let version: UpstreamVersion
  private let trust: UpstreamTrust
  private let attemptSettings: AttemptSettings
  private let log: ErrorLog
  /// `upstream "NAME": server ADDRESS`, the beginning of each line in the log.
  private let name: String
  /// The one server, so that a check takes no place of a request.
  private let group: UpstreamGroup
  /// The last one until the next begins: a stream calls it without a reference of its own.
  private var attempt: HealthCheckAttempt?
  private var isAsking = false, isStopped = false

  init?(
    _ check: HealthRecords.Check, _ server: ResolvedGroup.Server, _ health: ServerHealth, _ generation: Generation,
    _ worker: Worker
  ) {
    let pass = check.pass
    let context = pass.trust.tls.flatMap { generation.upstreamContexts[$0] }
    // Without the TLS context, the server can't be verified, so no check goes to it. Requests don't either.
    guard pass.scheme == .http || context != nil,
      let tlsName = pass.withoutClient(pass.trust.name, serverName: check.serverName),
      let base = pass.origin.base(in: generation)
    else { return nil }
    self.worker = worker
    self.settings = check.settings
    self.health = health
    request = HealthCheckRequest(check.settings, of: pass, serverName: check.serverName)
    version = pass.version
    let protocols = (pass.tcp?.offeredProtocols ?? []).compactMap {
      pass.withoutClient($0, serverName: check.serverName)
    }
    trust = UpstreamTrust(
      context: context, name: UpstreamPass.nameForTLS(tlsName),
      connection: request == nil ? .tcp : pass.version.connection,
      origin: pass.origin.ofOwnConnections(base), negotiation: pass.negotiationOfOwnConnections,
      protocols: OfferedProtocols(protocols))
    attemptSettings = AttemptSettings(
      timeouts: pass.timeouts,
      headLimits: HeadLimits(
        lineBytes: pass.buffers.head, headBytes: pass.buffers.head, fields: 1000, ignoreInvalidNames: false,
        underscores: true))
    log = generation.errorLogs[check.errorLogs] ?? generation.errorLog
    name = "upstream \"\(check.group.text)\": server \(server.address)"
    group = UpstreamGroup(Self.alone(server, check), loop: worker.loop, budget: worker.budget)
    super.init(loop: worker.loop)
  }

  /// A group of the one server, at the port of the check, whose connections serve one request.
  private static func alone(_ server: ResolvedGroup.Server, _ check: HealthRecords.Check) -> ResolvedGroup {
    let (address, named) = (
      server.address.withPort(check.settings.port), server.settings.address.withPort(check.settings.port)
    )
    var settings = UpstreamGroupSettings(
      name: check.group.text, servers: [UpstreamServerSettings(address: named, location: server.settings.location)],
      location: server.settings.location)
    settings.keepalive.requests = 1
    return ResolvedGroup(
      settings: settings, servers: settings.servers.map { ResolvedGroup.Server(address: address, settings: $0) })
  }

  /// Begins with a check, after a part of the jitter.
  func start() { setDeadline(in: delay) }

  /// Ends the check in progress, without a result. There are no further ones.
  func stop() {
    isStopped = true
    loop.forgetDeadline(of: self)
    attempt?.abandon()
    attempt = nil
    group.close()
  }

  private var delay: Int { settings.jitter > 0 ? Int.random(in: 0...settings.jitter) : 0 }

  override func deadlinePassed() {
    guard !isStopped else { return }
    if isAsking { return attempt?.timePassed() ?? () }
    isAsking = true
    if request == nil { setDeadline(in: settings.timeout) }
    let attempt = HealthCheckAttempt(self, HealthCheckJudge(settings.kind, worker.patternScratch))
    self.attempt = attempt
    var selection = Selection()
    guard let ticket = group.pick(&selection) else { return attempt.attemptDidFail(.noServer) }
    if let failure = group.begin(attempt, on: ticket, trust: trust, settings: attemptSettings, isRetry: false) {
      attempt.attemptDidFail(failure)
    }
  }

  // MARK: Calls of the attempt

  fileprivate var isOfStream: Bool { request == nil }

  /// Sends the request, because the server was verified. From now on, the whole response has `proxy_read_timeout`.
  fileprivate func send(to stream: UpstreamStream) {
    count(stream.session.trustOutcome)
    guard let request else { return attempt?.converse(settings.kind) ?? () }
    let head = OutgoingRequestHead()
    guard request.fill(head) else { return attempt?.end("the request would not be a valid one") ?? () }
    setDeadline(in: attemptSettings.timeouts.read)
    stream.send(head: head, version, request.method, scratch: &worker.scratch)
    request.body?.withUnsafeBytes { stream.send(body: $0) }
    stream.requestDidEnd()
  }

  /// Counts a handshake, as those of requests are.
  fileprivate func count(_ outcome: TrustOutcome) {
    if outcome != .none { worker.counters.upstreams.count(outcome) }
  }

  fileprivate func attemptDidEnd(_ result: ServerHealth.Result, _ reason: String) {
    isAsking = false
    tell(health.take(result), result, reason)
    setDeadline(in: settings.interval &+ delay)
  }

  /// Logs at the level of failed requests, so that a reader of those lines finds these too.
  private func tell(_ change: HealthState.Change?, _ result: ServerHealth.Result, _ reason: String) {
    switch (change, result) {
    case (.wentDown(let failures), _):
      let count = failures > 1 ? "\(failures) health checks in a row failed, the last one" : "health check failed"
      log.error("\(name) is down: \(count): \(reason)")
    case (.cameUp(let passes), _):
      log.error("\(name) is up again: \(passes > 1 ? "\(passes) health checks" : "health check") passed")
    case (.passedFirst, _): log.notice("\(name) is up: its first health check passed")
    case (nil, .failed): log.info("\(name): health check failed: \(reason)")
    case (nil, .skipped): log.warn("\(name): health check skipped: \(reason)")
    case (nil, .passed): break
    }
  }
}

/// One check of one server. Each of its ends is told to the checker once.
private final class HealthCheckAttempt: AttemptObserver {
  // The checker holds the attempt, and ends it before it goes.
  private unowned let checker: HealthChecker
  private var judge: HealthCheckJudge
  private var stream: UpstreamStream?
  private var isOver = false
  /// Whether the check passes as soon as all bytes are sent.
  private var endsWhenSent = false

  init(_ checker: HealthChecker, _ judge: HealthCheckJudge) {
    self.checker = checker
    self.judge = judge
    super.init()
  }

  /// Gives the connection up, without a result.
  func abandon() {
    isOver = true
    let stream = stream
    self.stream = nil
    stream?.abandon()
  }

  func end(_ fault: String?) { end(fault == nil ? .passed : .failed, fault ?? "") }

  private func end(_ result: ServerHealth.Result, _ reason: String) {
    guard !isOver else { return }
    abandon()
    checker.attemptDidEnd(result, reason)
  }

  /// `proxy_read_timeout` has passed since the request went out, although bytes may have come now and then. Or
  /// `health_check_timeout` has since the check began.
  func timePassed() {
    guard checker.isOfStream else {
      return end("upstream timed out (110: Connection timed out): no whole response in proxy_read_timeout")
    }
    let isOpen = stream?.isOpen ?? false
    // Bytes that came last may not have been looked at.
    if isOpen, !endsWhenSent, judge.end(nil) == nil { return end(nil) }
    let reason = isOpen && !endsWhenSent ? judge.end(nil) ?? "" : "no connection in health_check_timeout"
    end("upstream timed out (110: Connection timed out): \(reason)")
  }

  override func attemptDidBegin(_ stream: UpstreamStream) { self.stream = stream }

  override func attemptDidOpen(_ stream: UpstreamStream) { checker.send(to: stream) }

  override func attemptHead(_ head: ResponseHead) -> Bool {
    if head.isInterim { return true }
    guard head.status != 101 else {
      end("upstream switched protocols without being asked")
      return false
    }
    guard let fault = judge.take(head) else { return true }
    end(fault)
    return false
  }

  override func attemptBody(_ bytes: UnsafeRawBufferPointer) {
    guard !isOver, !judge.take(bytes) else { return }
    end(judge.end(nil))
  }

  override func attemptDidEnd(trailers: Trailers?) { end(judge.end(trailers)) }

  // MARK: A server of stream

  /// The connection is open: says what there is to say, and waits for what is expected.
  func converse(_ kind: HealthCheckSettings.Kind) {
    guard let stream, case .tcp(let match?) = kind else { return end(nil) }
    if !match.send.isEmpty {
      match.send.withUnsafeBytes { stream.send(body: $0) }
      stream.flush()
    }
    if match.expected != nil { return stream.resume() }
    endsWhenSent = true
    if stream.waitingBytes == 0 { end(nil) }
  }

  override func attemptDidDrain() { if endsWhenSent { end(nil) } }

  override func tunnelBytes(_ bytes: UnsafeRawBufferPointer) {
    guard !isOver else { return }
    if judge.takeStream(bytes) { end(nil) } else if judge.isFull { end(judge.end(nil)) }
  }

  override func tunnelDidEnd(inGoodOrder: Bool) {
    let fault = endsWhenSent ? "it took not all bytes" : judge.end(nil)
    end(fault.map { "upstream closed the connection: \($0)" })
  }

  override func attemptDidFail(_ failure: AttemptFailure) {
    if case .tls = failure, let peer = stream?.session.peer {
      checker.count(peer.isRefused ? peer.outcome : .incompatible)
    }
    end(failure.isOurs ? .skipped : .failed, failure.description)
  }
}

extension AttemptFailure {
  /// Whether this process lacked something, so that the failure says nothing about the server.
  fileprivate var isOurs: Bool {
    switch self {
    case .noRoom: true
    case .connect(let error), .proxy(_, .connect(let error)): error.isOurs
    default: false
    }
  }
}

/// The checkers of a generation. One worker of the process has them, and all workers read what they find out.
final class HealthCheckers: WorkerPart {
  private var checkers: [HealthChecker] = []

  override func serve(_ live: LiveGeneration) {
    guard worker.loop.index == 0, !worker.isDraining else { return }
    drain()
    let generation = live.generation
    for relief in generation[HealthRecords.self].reliefs {
      relief.tell(generation.errorLogs[relief.errorLogs] ?? generation.errorLog)
    }
    checkers = live.generation[HealthRecords.self].checks.flatMap { check in
      check.servers.compactMap { HealthChecker(check, $0.server, $0.health, live.generation, worker) }
    }
    for checker in checkers { checker.start() }
  }

  override func drain() {
    for checker in checkers { checker.stop() }
    checkers = []
  }
}

extension SocketAddress {
  fileprivate func withPort(_ port: UInt16?) -> SocketAddress { port.map { withPort($0) } ?? self }
}

extension UpstreamAddress {
  /// As the configuration names it, for a proxy that resolves names.
  fileprivate func withPort(_ port: UInt16?) -> UpstreamAddress {
    guard let port else { return self }
    return switch self {
    case .address(let address): .address(address.withPort(port))
    case .name(let name, _): .name(name, port: port)
    }
  }
}
