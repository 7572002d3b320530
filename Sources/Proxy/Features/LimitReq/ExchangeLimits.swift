import Bytes
import Transport

/// What the limits have decided for one exchange, and what they hold for it.
final class ExchangeLimits {
  /// The value of `$limit_req_status` and `$limit_conn_status`.
  enum Verdict {
    case passed, delayed, rejected, delayedDryRun, rejectedDryRun

    var name: StaticString {
      switch self {
      case .passed: "PASSED"
      case .delayed: "DELAYED"
      case .rejected: "REJECTED"
      case .delayedDryRun: "DELAYED_DRY_RUN"
      case .rejectedDryRun: "REJECTED_DRY_RUN"
      }
    }
  }

  /// nil: no limit has judged the exchange yet. After a verdict, an internal redirect doesn't count it again.
  private(set) var requests: Verdict?
  private(set) var connections: Verdict?
  private var isUsed = false
  private var held: [(zone: ConnectionZone, key: [UInt8])] = []
  /// What the exchange waits for by the clock (`limit_req`, `auth_delay`).
  private var delay: OneShotTimer?
  /// Bytes per second, by the upstream's X-Accel-Limit-Rate; 0 is no limit.
  private(set) var rate: Int?

  func judgeRequest(_ verdict: Verdict) {
    isUsed = true
    requests = verdict
  }

  func judgeConnection(_ verdict: Verdict) {
    isUsed = true
    connections = verdict
  }

  /// Keeps a count until the exchange ends.
  func hold(_ key: [UInt8], in zone: ConnectionZone) {
    isUsed = true
    held.append((zone, key))
  }

  /// Hands all counts over to who knows when the client has the response; nil: there are none.
  @inline(__always)
  func takeCounts() -> HeldCounts? { isUsed && !held.isEmpty ? handOver() : nil }

  @inline(never)
  private func handOver() -> HeldCounts {
    defer { held.removeAll() }
    return HeldCounts(held)
  }

  /// Gives all counts back.
  func releaseCounts() {
    for (zone, key) in held { zone.release(key) }
    held.removeAll()
  }

  /// Calls `end` after so many milliseconds, unless the exchange ends or goes on elsewhere before. The wait ends with its
  /// exchange: clients that leave must not pile up what waits for them.
  func wait(_ exchange: Exchange, milliseconds: Int, then end: @escaping (Exchange) -> Void) {
    isUsed = true
    let serial = exchange.serial
    delay = exchange.worker.loop.after(milliseconds) { [unowned self] in
      delay = nil
      if exchange.serial == serial { end(exchange) }
    }
  }

  func setRate(_ rate: Int) {
    isUsed = true
    self.rate = rate
  }

  /// At the end of every exchange.
  @inline(__always)
  func reset() { if isUsed { clear() } }

  @inline(never)
  private func clear() {
    isUsed = false
    requests = nil
    connections = nil
    releaseCounts()
    delay?.cancel()
    delay = nil
    rate = nil
  }
}

/// The counts of `limit_conn` that outlive their exchange: the client has not taken the whole response yet. They are given
/// back with this object.
final class HeldCounts {
  private let counts: [(zone: ConnectionZone, key: [UInt8])]

  fileprivate init(_ counts: [(zone: ConnectionZone, key: [UInt8])]) { self.counts = counts }

  deinit { for (zone, key) in counts { zone.release(key) } }
}

extension ByteBuffer {
  /// Appends nothing without a verdict.
  mutating func append(_ verdict: ExchangeLimits.Verdict?) {
    if let verdict { append(verdict.name) }
  }
}
