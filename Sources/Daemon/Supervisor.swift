import CLinux
import Configuration
import Dispatch
import Features
import Forward
import Glibc
import Language
import Loading
import Observability
import SPIFFE
import Systemd
import Traffic
import Transport
import UpstreamAuth

/// Starts the workers, handles signals, and decides when a generation changes or the process ends.
///
/// The supervisor runs on the main queue. Work that blocks (files, names, keys) runs on other queues, and serving runs
/// on the event loops.
@MainActor
final class Supervisor {
  /// What a reload has made, ready to serve.
  struct Successor: Sendable {
    let preparation: Preparation
    /// nil: the process accepts no connections any more.
    let sockets: ListeningSockets?
  }

  /// How the work of a reload ended that was not refused.
  private enum Prepared: Sendable {
    case successor(Successor)
    /// The files that could not be loaded still can't be.
    case nothingNew
  }

  let source: ConfigurationSource
  private let wording: @Sendable (Diagnostic) -> Diagnostic
  let logs: LogFiles
  let shared: SharedState
  let inherited: [InheritedSocket]
  private let kept: KeptSockets
  private let store = SocketStore()
  private let status: ServiceStatus
  private(set) var results = ReloadResults()
  /// How the last USR1 went; nil: there was none yet.
  private(set) var reopening: ReloadResult?
  private let confinement: Confinement
  let fleet: WorkerFleet
  private var pidFile: PidFile?
  private let announced: @MainActor () -> Void

  /// The generation that serves.
  private(set) var current: Preparation
  /// nil once the process accepts no connections any more: the last worker that releases the sockets closes them.
  private(set) var sockets: ListeningSockets?
  private var state = SupervisorState<Successor>()
  private let signals = SignalSources()
  private var watchdog: WatchdogTimer?
  private let healthNames: [HealthName]
  private var health: HealthListener?
  private var fileWatcher: FileWatcher?
  private let stapling: StapleRefresh
  private let upkeep: AuthorityUpkeep
  private var fetching: RevocationRefresh?
  private let renewer: CertificateRenewer
  private var revocationAges = RevocationAges()
  private var retry = RetryTurns()
  private let predecessor: Predecessor?
  private var workload: WorkloadFollower?
  private var replacement: BinaryReplacement?
  private var hasReleasedCode = false
  /// Another process has taken this one's place.
  private var isReplaced = false
  private var isDrainingAll = false
  private var rounds = StopRounds()
  /// What the start found, for the log.
  private let found: [Diagnostic]
  /// The units without effect that the log has told of.
  private var toldStale: [StaleMaterial] = []
  private var hasToldForgotten = false
  /// Whether the last configuration that was read again is not the one that serves.
  private var hasRefusedConfiguration = false

  init(_ start: Start, fleet: WorkerFleet, announced: @escaping @MainActor () -> Void) {
    source = start.source
    wording = start.wording
    healthNames = start.healthNames
    logs = start.logs
    shared = start.shared
    stapling = StapleRefresh(pool: start.shared.pool, faults: start.shared.ongoing)
    upkeep = AuthorityUpkeep(start.shared)
    renewer = CertificateRenewer(start.shared, start.confinement.hook)
    inherited = start.inherited
    kept = start.kept
    predecessor = start.predecessor
    status = ServiceStatus(fleet.metrics)
    confinement = start.confinement
    pidFile = start.pidFile
    current = start.preparation
    found = start.diagnostics
    sockets = start.sockets
    self.fleet = fleet
    self.announced = announced
  }

  var errorLog: ErrorLog { current.generation.errorLog }

  func start() {
    Signals.block([SIGQUIT, SIGTERM, SIGINT])
    signals.heed(SIGHUP) { [self] in handle { $0.reloadAsked(.configuration) } }
    signals.heed(SIGQUIT) { [self] in handle { $0.drainAsked() } }
    signals.heed(SIGTERM) { [self] in handle { $0.stopAsked() } }
    signals.heed(SIGINT) { [self] in handle { $0.stopAsked() } }
    signals.heed(SIGUSR1) { [self] in reopenLogs() }
    signals.heed(SIGUSR2) { [self] in handle { $0.replacementAsked() } }
    let workload = WorkloadFollower(shared.workload) { [unowned self] in
      errorLog
    } reload: { [unowned self] in
      loadFiles()
    }
    self.workload = workload
    workload.follow(WorkloadEndpoint.path(of: current.settings))
    workload.whenAnswered { [self] in takeIdentity() }
  }

  /// Loads what the SPIFFE agent has given meanwhile, or why it has given nothing, and serves. Without an identity, servers
  /// that need it refuse handshakes until it comes.
  private func takeIdentity() {
    guard shared.workload.current.endpoint != nil else { return serveFirst() }
    _ = shared.pool.run(.reload, for: source.name) { [self, logs, shared, current] in
      let loaded = Result { () throws(Refusal) in
        let next = try Preparation(
          current.settings, after: [], number: current.generation.number, logs: logs, sharing: shared,
          former: current, onlyFiles: true)
        AuthState.takeOver(next.generation, shared)
        return next
      }
      DispatchQueue.main.async {
        MainActor.assumeIsolated {
          if case .success(let next) = loaded { self.current = next }
          self.serveFirst()
        }
      }
    }
  }

  private func serveFirst() {
    guard let sockets, state.phase == .starting else { return }
    predecessor?.handOverOrEnd(errorLog) { [shared] in shared.takeDenials($0) != nil }
    serve(current, on: sockets) { $0.handle { $0.started() } }
  }

  /// Applies an event to the state and performs the action that follows.
  func handle(_ event: (inout SupervisorState<Successor>) -> SupervisorState<Successor>.Action) {
    switch event(&state) {
    case .none: break
    case .announce: announce()
    case .reload(let reload): self.reload(reload)
    case .swap(let successor): swap(successor)
    case .drain: drain()
    case .replace: replace()
    case .stop: stop()
    }
  }

  // MARK: Serving

  /// Gives every worker a generation. Sockets that the generation lacks close when the last worker has released them.
  private func serve(
    _ next: Preparation, on sockets: ListeningSockets?, then done: @escaping @MainActor @Sendable (Supervisor) -> Void
  ) {
    let former = self.sockets
    // As in nginx, the former configuration decides how long its connections may stay.
    let patience = current.settings.main.shutdownTimeout
    self.sockets = sockets
    current = next
    fleet.each { [self] index, worker in
      withExtendedLifetime(former) {
        worker.serve(next.generation, sockets: sockets?.sockets(worker: index) ?? [], patience: patience) { error in
          DispatchQueue.main.async { MainActor.assumeIsolated { self.listenFailed(error) } }
        }
      }
    } then: { [self] in
      // The former ones close with their last reference.
      guard let sockets else { return done(self) }
      retire(sockets.replaced(of: former).flatMap(\.all).map { fcntl($0, F_DUPFD_CLOEXEC, 0) }.filter { $0 >= 0 })
      done(self)
    }
  }

  /// Gives whoever waits at these sockets to the listeners that have their addresses now, and closes them.
  private func retire(_ leaving: [Int32]) {
    if !leaving.isEmpty { RetiringSockets(leaving) { [self] in fleet.take($0, for: sockets) } }
  }

  private func listenFailed(_ error: SocketError) {
    errorLog.emerg("a worker can't listen: \(error)")
    guard state.phase == .starting else { return }
    Daemon.print([Diagnostic(.error, at: nil, "a worker can't listen: \(error)")])
    pidFile?.abandon()
    sockets?.removeFiles()
    confinement.close()
    _exit(1)
  }

  private func announce() {
    fleet.take(kept.waiting, for: sockets)
    // Before the pid file and READY=1: who waits for them may ask at once.
    health = HealthListener(healthNames, fleet) { [unowned self] in
      errorLog
    } describe: { [unowned self] in
      healthAnswer
    }
    do throws(PidFileError) {
      try pidFile?.write()
    } catch {
      errorLog.alert("\(error)")
    }
    // The start printed these to stderr, which not every system keeps; or left them to the log (`Daemon.run`).
    if current.settings.main.errorLogs.contains(where: { $0.destination != .stderr }) { log(found) }
    tellStale()
    errorLog.notice("configuration: \(source.phrase)")
    errorLog.notice("sallyport/\(Product.version) serves: \(summary)")
    errorLog.notice(confinement.summary)
    status.tell("Serving: \(summary)\(staleWords)", with: .ready)
    fleet.metrics.process.take(.sample())
    fleet.metrics.process.take(configuration: source.phrase)
    fleet.metrics.follow()
    fleet.metrics.process.follow(logs)
    if let sockets {
      store.begin(kept, sockets)
      let (replaced, others) = kept.unused(besides: sockets)
      for descriptor in others { close(descriptor) }
      retire(replaced)
    }
    results.announce()
    // What the start has read and needs no more.
    shared.memory.generationEnded()
    watchdog = WatchdogTimer(fleet, log: errorLog)
    fileWatcher = FileWatcher { [unowned self] in
      filesChanged($0)
    } tick: { [unowned self] in
      watchRevocations()
      workload?.watchEnd()
      watchHelpers()
      followDenials()
      shared.memory.returnIfDue(shared.pool)
      stapling.look()
      shared[UnwrittenStates.self].retry(shared.pool, errorLog)
      releaseCodeOnce()
      fetching?.tick()
      fleet.metrics.process.take(.sample())
      fleet.metrics.follow()
      logs.losses.tell(errorLog)
      shared.challenges.retry()
      if retry.isDue() { handle { $0.reloadAsked(.retry) } }
    }
    fetching = RevocationRefresh(shared, fleet.metrics.process)
    watchFiles()
    announced()
    // A message that came while the first generation was made.
    if shared.workload.current.material?.digest != current.material.workloadDigest {
      handle { $0.reloadAsked(.files) }
    }
  }

  /// Most of the program's code is for commands and for reading a configuration. Seconds after the start, since the first
  /// clients would wait while the kernel maps the pages that serve them once more.
  private func releaseCodeOnce() {
    if !hasReleasedCode { linux_release_code() }
    hasReleasedCode = true
  }

  private var summary: String {
    let addresses = sockets?.addresses.map(\.description).joined(separator: ", ") ?? "nothing"
    return "generation \(current.generation.number), \(fleet.count) "
      + (fleet.count == 1 ? "worker" : "workers") + ", on \(addresses)"
  }

  /// USR1.
  private func reopenLogs() {
    errorLog.notice("reopening logs")
    fleet.each { _, worker in
      worker.flushLogs()
    } then: { [self] in
      let errors = logs.reopenAll()
      for error in errors { errorLog.emerg(error.message) }
      reopening = ReloadResult(
        number: (reopening?.number ?? 0) &+ 1, state: errors.isEmpty ? .done : .refused,
        words: errors.first?.message ?? "the logs are open anew")
    }
  }

  // MARK: Reload

  /// Runs the two phases that can fail without interrupting the traffic: parse and load, then bind.
  private func reload(_ reload: SupervisorState<Successor>.Reload) {
    if reload == .configuration {
      errorLog.notice("reconfiguring")
      if !source.isReadAgain {
        errorLog.notice("\(source.phrase) can't be read again: its text stays, and the files that it names are loaded")
      }
      results.began()
      status.tell("Reloading: \(source.phrase)", with: .reloadingNow)
    }
    let number = current.generation.number + 1
    // One reload runs at a time, alone in its class, so the pool always accepts it.
    _ = shared.pool.run(.reload, for: source.name) {
      [
        self, source, logs, shared, inherited, sockets, current, confinement, workers = fleet.count,
        isListening = !isDrainingAll
      ] in
      let outcome = Result { () throws(Refusal) in
        var (settings, found) =
          switch reload {
          case .configuration: try read(source, sharing: shared, by: confinement.opener)
          case .files, .retry: (settings: current.settings, diagnostics: [Diagnostic]())
          }
        if reload == .configuration { found += UnnamedSockets.warnings(inherited, settings.http.listeners) }
        do throws(Refusal) { try confinement.check(settings, configuration: source) } catch {
          // A link that leads elsewhere now: that file can't be loaded, and stops no other one.
          guard reload != .configuration else { throw error }
          found += error.diagnostics.map { $0.asWarning }
        }
        awaitIdentity(WorkloadEndpoint.path(of: settings))
        let next = try Preparation(
          settings, after: found, number: number, logs: logs, sharing: shared, former: current,
          onlyFiles: reload != .configuration)
        if reload == .retry, next.stale == current.stale { return Prepared.nothingNew }
        // A process that drains binds nothing any more.
        let bound =
          try isListening
          ? ListeningSockets(
            for: settings.http.listeners, workers: workers, inherited: inherited, keeping: sockets,
            by: confinement.opener)
          : nil
        AuthState.takeOver(next.generation, shared)
        return .successor(Successor(preparation: next, sockets: bound))
      }
      DispatchQueue.main.async {
        MainActor.assumeIsolated {
          switch outcome {
          case .success(.successor(let successor)):
            self.handle { $0.prepared(successor) }
          case .success(.nothingNew):
            self.shared.memory.generationEnded()
            self.retry.failed()
            self.handle { $0.reloadEnded() }
          case .failure(let refusal): self.refuse(refusal)
          }
        }
      }
    }
  }

  /// Reads the configuration. The opener reads it first, because it opens only what it has read itself.
  private nonisolated func read(
    _ source: ConfigurationSource, sharing shared: SharedState, by opener: PrivilegedOpener?
  ) throws(Refusal) -> (settings: Settings, diagnostics: [Diagnostic]) {
    guard let opener else { return try Preparation.read(source, sharing: shared) }
    _ = opener.refusal(of: OpenerRequest(.configuration))
    return try Preparation.read(source, sharing: shared, files: SourceFiles.disk.completed(by: opener.files))
  }

  /// Waits for the first message of an agent that a new configuration names as the first one does: servers that have
  /// served by files until now would refuse clients for a moment.
  private nonisolated func awaitIdentity(_ path: String?) {
    guard let path, shared.workload.current.endpoint == nil else { return }
    let answered = DispatchSemaphore(value: 0)
    DispatchQueue.main.async {
      MainActor.assumeIsolated {
        self.workload?.follow(path)
        self.workload?.whenAnswered { answered.signal() }
      }
    }
    _ = answered.wait(timeout: .now() + WorkloadFollower.patience)
  }

  private func swap(_ successor: Successor) {
    let next = successor.preparation
    if reloadKind == .configuration { for error in logs.reopenMoved() { errorLog.emerg(error.message) } }
    log(next.diagnostics + RestartOnly.differences(from: current.settings.main, to: next.settings.main))
    // The drain may have begun to accept nobody while this was prepared.
    let listening = isDrainingAll ? nil : successor.sockets
    if let listening { store.follow(listening) }
    serve(next, on: listening) { supervisor in
      supervisor.errorLog.notice("reconfigured: \(supervisor.summary)")
      supervisor.tellStale()
      supervisor.watchFiles()
      supervisor.workload?.follow(WorkloadEndpoint.path(of: supervisor.current.settings))
      // Files follow a configuration that was refused, and don't mend it.
      if supervisor.reloadKind == .configuration || !supervisor.hasRefusedConfiguration {
        supervisor.health?.refusedReload = nil
        supervisor.hasRefusedConfiguration = false
      }
      supervisor.fleet.metrics.process.didReload(supervisor.reloadKind)
      let words = supervisor.staleWords
      supervisor.endReload(words.isEmpty ? .done : .partial, "Serving: \(supervisor.summary)\(words)")
    }
  }

  private func refuse(_ refusal: Refusal) {
    shared.memory.generationEnded()
    log(refusal.diagnostics)
    workload?.follow(WorkloadEndpoint.path(of: current.settings))
    let count = refusal.errors.count
    if reloadKind == .configuration { hasRefusedConfiguration = true }
    fleet.metrics.process.didReload(reloadKind, refusal: refusal.summary(wording))
    health?.refusedReload =
      "\(refusal.errors.first.map(wording)?.description ?? "no reason")\(fleet.metrics.process.reloads.refusalTimes)"
    let words = "\(count) \(count == 1 ? "error" : "errors"): generation \(current.generation.number) serves on"
    switch reloadKind {
    case .files:
      errorLog.error("the changed files were not loaded, \(words) with the old ones")
      retry.failed()
    case .configuration: errorLog.emerg("the new configuration is refused, \(words)")
    }
    endReload(
      .refused, "Reload refused, \(refusal.summary(wording)): generation \(current.generation.number) serves on")
  }

  /// That of the reload that ends.
  private var reloadKind: ReloadKind {
    if case .reloading(.configuration, _) = state.phase { .configuration } else { .files }
  }

  // MARK: Files without effect

  /// Tells the log of the units that are without effect since the last generation, and of those that have it again.
  private func tellStale() {
    let stale = current.stale
    for unit in stale where !toldStale.contains(unit) {
      let line = unit.words + (unit.place.map { " (\($0))" } ?? "") + (unit.hint.map { " (\($0))" } ?? "")
      errorLog.log(unit.state == .changed ? .crit : .warn, line)
    }
    for unit in toldStale where !stale.contains(where: { $0.isOf(unit.kind, unit.files) }) {
      errorLog.notice("in effect again: \(unit.kind) \(unit.files.joined(separator: ", "))")
    }
    toldStale = stale
    fleet.metrics.process.take(
      WatchedFiles(paths: current.files.paths, forbidden: current.files.forbidden, stale: stale))
  }

  /// For `systemctl status`; empty if every file is in effect.
  private var staleWords: String {
    let files = current.stale.filter { $0.state == .changed }.flatMap(\.files)
    return files.isEmpty ? "" : "; NOT in effect: \(files.joined(separator: ", "))"
  }

  // MARK: Changed files

  private func watchFiles() {
    fetching?.prepare(current.settings.http, log: errorLog)
    fileWatcher?.watch(current.files)
    retry = RetryTurns()
    if !current.stale.isEmpty { retry.failed() }
    shared[UnwrittenStates.self].follow(
      current.settings.http, denials: DenialState.folder.map { DenialState(folder: $0).path })
    stapling.refresh(Array(current.material.staples.values), log: errorLog)
    fetching?.follow(current.material.fetched, current.settings.http, log: errorLog)
    shared.serve(current.generation)
    // The next process renews what both have.
    if !isDraining {
      upkeep.keep(current.settings.http, log: errorLog)
      renewer.follow(current.settings.http, log: errorLog) { [unowned self] in
        handle { $0.reloadAsked(.files) }
      }
    }
    revocationAges = RevocationAges(current.material, current.settings.http.clientLimits.expiryNotice)
  }

  private func filesChanged(_ paths: [String]) {
    errorLog.notice("changed: \(paths.joined(separator: ", "))")
    loadFiles()
  }

  private func loadFiles() { handle { $0.reloadAsked(.files) } }

  /// Ends the connections of clients that the API of the process in this one's place has denied since. This process isn't
  /// asked any more, but both have the same state directory.
  private func followDenials() {
    guard isReplaced else { return }
    let denied = shared.takeDenialsOfSuccessor()
    if denied.isEmpty { return }
    errorLog.notice("denied by the process that has taken this one's place: \(denied.count) certificates")
    fleet.each({ _, worker in for client in denied { _ = worker.cut(clientsNamed: client) } }, then: {})
  }

  /// Tells once of a process beside this one that has ended, such as one that somebody or the kernel killed. Serving goes
  /// on with what has been read.
  private func watchHelpers() {
    if confinement.opener?.hasEnded ?? false,
      shared.ongoing.note(.helper, "opener", "the process that opens root's files has ended: restart, or send USR2")
    {
      errorLog.alert("the process that opens root's files has ended: restart, or replace the process (USR2)")
    }
    if confinement.starter?.hasEnded ?? false,
      shared.ongoing.note(.helper, "starter", "the process that starts a new binary (USR2) has ended: restart")
    {
      errorLog.alert("the process that starts a new binary (USR2) has ended: restart instead of replacing the process")
    }
    if confinement.hook?.hasEnded ?? false,
      shared.ongoing.note(.helper, "hook", "the process that runs the programs of dns-01 has ended: restart")
    {
      errorLog.alert(
        "the process that runs the programs of dns-01 has ended: restart, or no certificate is renewed by it")
    }
  }

  private func watchRevocations() {
    if revocationAges.haveChanged(in: current.material) { loadFiles() }
  }

  /// systemd waits for READY=1 after a reload even when nothing changed, and hears it before `sallyport reload`, which
  /// ExecReload= runs, reads the result and ends.
  private func endReload(_ result: ReloadResult.State, _ words: String) {
    switch state.phase {
    case .reloading(.configuration, _):
      status.tell(words, with: .ready)
      results.ended(result, words)
    case .reloading(.files, _), .reloading(.retry, _): status.tell(words)
    case .starting, .serving, .draining, .stopping: break
    }
    handle { $0.reloadEnded() }
  }

  private func log(_ diagnostics: [Diagnostic]) { errorLog.log(diagnostics.folded.map(wording)) }

  // MARK: Replacement of the binary

  /// USR2: as in nginx, the new process takes the listening sockets, and this one drains once the new one serves.
  private func replace() {
    guard let sockets else { return }
    errorLog.notice("signal USR2: starting the new binary")
    let owned = sockets.byKeptName.map { (name: $0.name, descriptors: $0.socket.all) }
    let units = inherited.map { (name: $0.name, descriptors: [$0.descriptor]) }
    do throws(CannotReplace) {
      replacement = try BinaryReplacement(owned + units, by: confinement.starter) { [unowned self] outcome in
        switch outcome {
        case .serves(let process): handOver(to: process)
        case .failed(let reason): replacementFailed(reason)
        }
      }
    } catch {
      replacementFailed(error.description)
    }
  }

  private func replacementFailed(_ reason: String) {
    replacement = nil
    health?.noteFailedReplacement(reason)
    errorLog.alert("the new binary did not start, this process serves on: \(reason)")
    handle { $0.replacementFailed() }
  }

  /// systemd must know the new main process before that process notifies, and gets no more from this one.
  private func handOver(to process: Int32) {
    errorLog.notice("process \(process) of the new binary serves: this one drains")
    for (_, socket) in sockets?.byKeptName ?? [] { socket.handOn(true) }
    Notification.send(.mainProcess(process))
    let replacement = replacement
    self.replacement = nil
    DispatchQueue(label: "sallyport.handover").async { [self] in
      Notification.waitUntilProcessed(microseconds: 5_000_000)
      DispatchQueue.main.async {
        MainActor.assumeIsolated {
          guard replacement?.letGo(handing: self.shared.handedDenials) ?? false else { return self.takeBack() }
          self.pidFile = nil
          self.isReplaced = true
          Notification.holdBack(true)
          self.handle { $0.replacementServes() }
        }
      }
    }
  }

  /// The new process ended before it served.
  private func takeBack() {
    for (_, socket) in sockets?.byKeptName ?? [] { socket.handOn(false) }
    Notification.send(.mainProcess(getpid()))
    replacementFailed("it ended before it served")
  }

  // MARK: End

  /// QUIT: running exchanges may complete, for as long as `worker_shutdown_timeout` allows.
  ///
  /// While systemd's store keeps the sockets, only the next process could accept from them, which systemd starts when this
  /// one has ended. So this one serves new clients meanwhile (`StopRounds`).
  private func drain() {
    errorLog.notice("gracefully shutting down")
    tellForgotten()
    renewer.stop()
    let bound = stopPatience
    guard !isReplaced, let sockets, store.keeps(sockets) else { return drainAll(within: bound) }
    status.tell("Draining, and serving new clients meanwhile", with: .stopping)
    waitForPresent(pausing: false)
    guard bound > 0 else { return }
    let last = min(bound / 2, StopRounds.pause)
    after(bound - last) { $0.drainAll(within: last) }
  }

  private var isDraining: Bool { if case .draining = state.phase { true } else { false } }

  private func after(_ milliseconds: Int, _ body: @escaping @MainActor @Sendable (Supervisor) -> Void) {
    DispatchQueue.main.asyncAfter(deadline: .now() + .milliseconds(milliseconds)) { [self] in
      MainActor.assumeIsolated { body(self) }
    }
  }

  private func perform(_ action: StopRounds.Action) {
    switch action {
    case .none: break
    case .pause:
      waitForPresent(pausing: true)
      after(StopRounds.pause) { $0.perform($0.rounds.pauseIsOver()) }
    case .serve: fleet.each({ _, worker in worker.resumeAccepting() }, then: {})
    // Who is left hasn't come to the end of a handshake.
    case .end: drainAll(within: StopRounds.pause)
    }
  }

  private func waitForPresent(pausing: Bool) {
    fleet.eachUntil { _, worker, ended in
      if pausing { worker.pauseAccepting() }
      worker.endPresent(ended)
    } then: { [self] in
      perform(rounds.presentEnded())
    }
  }

  /// Milliseconds; 0: no bound. One that was replaced has no part in what systemd stops.
  private var stopPatience: Int {
    let own = current.settings.main.shutdownTimeout
    return own > 0 || isReplaced ? own : StopPatience.milliseconds
  }

  /// Accepts nobody any more, and ends when everybody has ended. `bound`: in milliseconds; 0: none.
  private func drainAll(within bound: Int) {
    guard isDraining, !isDrainingAll else { return }
    isDrainingAll = true
    health?.close()
    status.tell("Draining", with: .stopping)
    let former = sockets
    sockets = nil
    fleet.eachUntil { _, worker, drained in
      withExtendedLifetime(former) { worker.drain(drained) }
    } then: { [self] in
      handle { $0.stopAsked() }
    }
    guard bound > 0 else { return }
    DispatchQueue.main.asyncAfter(deadline: .now() + .milliseconds(bound)) { [self] in
      MainActor.assumeIsolated { handle { $0.stopAsked() } }
    }
  }

  /// Names what the API has changed, and certificates that could not be written: the next process begins without them.
  ///
  /// A certificate isn't handed over with its key: while the disk takes nothing, the next process orders none, and then one
  /// order too many is told here.
  private func tellForgotten() {
    guard !hasToldForgotten else { return }
    hasToldForgotten = true
    let log = errorLog
    for path in shared[UnkeptCertificates.self].paths {
      log.warn(
        "forgotten with this process, no state keeps it: the certificate that could not be written to \"\(path)\";"
          + " the next process orders another one")
    }
    fleet.each { index, worker in
      guard index == 0 else { return }
      for line in worker.forgottenChanges { log.warn("forgotten with this process, no state keeps it: \(line)") }
    } then: {
    }
  }

  /// Stops on TERM or INT, or when the drain is complete.
  private func stop() {
    tellForgotten()
    Notification.send(.stopping, .status("Stopping"))
    health?.close()
    fleet.each { _, worker in
      worker.stopAtOnce()
      worker.flushLogs()
      worker.loop.stop()
    } then: { [self] in
      end()
    }
    // A worker that hangs must not keep the process alive.
    DispatchQueue.main.asyncAfter(deadline: .now() + .seconds(2)) { [self] in
      MainActor.assumeIsolated { () -> Void in end() }
    }
  }

  private func end() -> Never {
    sockets?.removeFiles()
    shared.close()
    logs.drain(within: 1000)
    logs.losses.tell(errorLog)
    errorLog.notice("exit")
    confinement.close()
    fflush(nil)
    // Last: who waits for it may start the next process. Not exit(): its handlers free OpenSSL's state, which a loop uses.
    pidFile?.remove()
    _exit(0)
  }
}
