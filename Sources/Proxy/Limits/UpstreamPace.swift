import Transport
import Upstream

/// How fast a response may be read from an upstream: `proxy_limit_rate` with nginx's arithmetic, as a value. It saturates.
struct UpstreamPace: Equatable {
  /// Bytes per second, above 0.
  let rate: Int
  /// When the body began, in milliseconds.
  let start: UInt64
  private(set) var received = 0

  init(rate: Int, start: UInt64) {
    self.rate = max(1, rate)
    self.start = start
  }

  /// Takes bytes into account. Returns how long nothing may be read now, in milliseconds; nil if more may.
  mutating func take(_ count: Int, now: UInt64) -> Int? {
    received = received.addingReportingOverflow(max(0, count)).overflow ? Int.max : received + max(0, count)
    // As in nginx, each second that has begun allows one rate more.
    let seconds = Int(clamping: (now < start ? 0 : now - start) / 1000)
    let (allowed, overflow) = rate.multipliedReportingOverflow(by: seconds == Int.max ? seconds : seconds + 1)
    guard !overflow, received >= allowed else { return nil }
    let (product, overflowOfProduct) = (received - allowed).multipliedReportingOverflow(by: 1000)
    return (overflowOfProduct ? Int.max - rate : product) / rate + 1
  }
}

/// What `proxy_limit_rate` has decided for one attempt.
enum UpstreamPacing {
  case undecided
  case free
  case paced(UpstreamPacer)

  var holds: Bool { if case .paced(let pacer) = self { pacer.isHolding } else { false } }

  mutating func stop() {
    if case .paced(let pacer) = self { pacer.stop() }
    self = .undecided
  }

  /// Takes bytes of a response that goes on to the client. A response that sallyport keeps for itself isn't paced.
  mutating func take(_ count: Int, _ attempt: UpstreamAttempt, _ handler: ProxyHandler) {
    guard let exchange = handler.exchange, let pass = handler.pass else { return }
    if case .undecided = self {
      guard case .streaming = exchange.progress.state else { return }
      let rate = pass.readRate.flatMap { LiveRate.size($0.bytes(exchange), exchange) } ?? 0
      self =
        rate > 0
        ? .paced(UpstreamPacer(attempt, UpstreamPace(rate: rate, start: exchange.worker.loop.now), exchange)) : .free
    }
    if case .paced(let pacer) = self { pacer.take(count) }
  }
}

/// Pauses the upstream of an attempt, and reads on when the rate allows it.
final class UpstreamPacer: EventTarget {
  // The attempt holds the pacer, and stops it before it goes on.
  private unowned let attempt: UpstreamAttempt
  private unowned let exchange: Exchange
  private var pace: UpstreamPace
  private(set) var isHolding = false

  init(_ attempt: UpstreamAttempt, _ pace: UpstreamPace, _ exchange: Exchange) {
    self.attempt = attempt
    self.exchange = exchange
    self.pace = pace
    super.init(loop: exchange.worker.loop)
  }

  func take(_ count: Int) {
    guard let wait = pace.take(count, now: loop.now), let stream = attempt.stream else { return }
    isHolding = true
    stream.pause()
    setDeadline(in: wait)
  }

  func stop() {
    isHolding = false
    loop.forgetDeadline(of: self)
  }

  override func deadlinePassed() {
    stop()
    // A client that has bytes to take resumes the upstream itself.
    if exchange.waitingBytes == 0 { attempt.resume() }
  }
}
