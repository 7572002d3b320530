import Forward
import HTTP
import Observability
import Traffic
import Transport

/// `mirror`: a step of the precontent phase. It sends copies of the request, whose responses are dropped.
final class MirrorStep: PhaseStep {
  private let settings: Mirror

  init(_ settings: Mirror) { self.settings = settings }

  override var words: String { settings.paths.map { "mirror \(LogEscape.text($0))" }.joined(separator: ", ") }

  override func rehearse(_ exchange: Exchange, _ trace: ExplainTrace) -> StepOutcome { .next }

  override func run(_ exchange: Exchange) -> StepOutcome {
    // As in nginx, only main requests have mirrors.
    if exchange.stream?.isSubrequest == true { return .next }
    guard settings.sendsBody, needsBody(exchange) else { return send(exchange) }
    let kept = RequestBodySender.storage(for: exchange)
    kept.await(MirroredBody(self))
    exchange.collectBody(in: kept)
    return .wait
  }

  /// Whether the request has a body that no step or handler has read.
  private func needsBody(_ exchange: Exchange) -> Bool {
    switch exchange.body.state {
    case .none, .held:
      exchange.head.framing != .none && exchange.redirection.keepsBody && exchange.stream?.isBodyRead == false
    case .collecting, .collected, .streaming, .streamed: false
    }
  }

  /// Begins the mirrors. Nothing of them changes the outcome.
  fileprivate func send(_ exchange: Exchange) -> StepOutcome {
    var body: RequestBody?
    // What came in an envelope must not leave in plain text.
    if settings.sendsBody, case .collected(let kept) = exchange.body.state, !kept.isOpened { body = kept }
    for path in settings.paths {
      let mirrors = exchange.worker[RunningMirrors.self]
      guard mirrors.hasRoom else {
        exchange.tellOfRepeated(.warn, "a mirror was left out: \(RunningMirrors.limit) of them are in progress")
        break
      }
      let mirror = MirrorSubrequest(under: exchange)
      mirrors.add(mirror)
      mirror.run(under: exchange, .whole, path: path, body: body)
    }
    return .next
  }
}

/// A body that is collected before the mirrors get it.
private final class MirroredBody: BodyWaiter {
  private let step: MirrorStep

  init(_ step: MirrorStep) { self.step = step }

  override func bodyDidEnd(_ kept: RequestBody, _ exchange: Exchange) { exchange.resume(step.send(exchange)) }
}

/// One copy of a request. It belongs to the worker: the main exchange and its client may end earlier.
final class MirrorSubrequest: Subrequest {
  private var isOver = false

  override func didEnd(isWhole: Bool) {
    guard !isOver else { return }
    isOver = true
    // Not within the upstream's event: a generation may close with this.
    let box = LoopBox(self)
    loop.post { box.value.session.worker[RunningMirrors.self].remove(box.value) }
  }
}

/// The mirrors in progress of one worker. Each keeps its generation.
final class RunningMirrors: WorkerPart {
  private var running: [ObjectIdentifier: MirrorSubrequest] = [:]

  /// More are left out: a slow mirror must not take all memory and connections.
  static let limit = 1024

  var hasRoom: Bool { running.count < Self.limit }
  override var isBusy: Bool { !running.isEmpty }

  func add(_ mirror: MirrorSubrequest) {
    running[ObjectIdentifier(mirror)] = mirror
    mirror.generation.clients += 1
  }

  func remove(_ mirror: MirrorSubrequest) {
    guard running.removeValue(forKey: ObjectIdentifier(mirror)) != nil else { return }
    mirror.generation.clients -= 1
    worker.didLoseClient()
  }

  override func cut(of generation: LiveGeneration?) {
    for mirror in Array(running.values) where generation == nil || mirror.generation === generation {
      mirror.abandon(.workerStops)
    }
  }
}
