import Forward
import HTTP
package import Traffic
import Transport

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

/// `proxy_limit_rate` of a location.
package final class UpstreamRate: ResponseFilter {
  private let rate: CompiledTemplate

  init(_ rate: Template) { self.rate = rate.compiled }

  package override func begin(_ exchange: Exchange) {
    if case .none = exchange.response.body { return }
    let rate = exchange.size(of: self.rate.bytes(exchange)) ?? 0
    if rate > 0 { exchange.append(UpstreamPacer(exchange, UpstreamPace(rate: rate, start: exchange.worker.loop.now))) }
  }
}

/// Has the source of a response wait when it has brought more than the rate allows. It keeps no bytes itself.
package final class UpstreamPacer: BodyFilter {
  private var pace: UpstreamPace
  private var isHolding = false

  init(_ exchange: Exchange, _ pace: UpstreamPace) {
    self.pace = pace
    super.init(exchange)
  }

  package override func send(_ bytes: UnsafeRawBufferPointer) {
    pass(bytes)
    guard !isStopped, let wait = pace.take(bytes.count, now: loop.now) else { return }
    isHolding = true
    exchange.handler?.pauseSource()
    setDeadline(in: wait)
  }

  package override var holdsSource: Bool { isHolding }

  package override func deadlinePassed() {
    isHolding = false
    loop.forgetDeadline(of: self)
    exchange.askForMore()
  }
}
