package import HTTP
public import Observability
import Synchronization
public import TLS
import Transport

/// How a TLS session began.
public enum HandshakeKind: String, CaseIterable, Sendable {
  case full, resumed
}

/// What one worker counts. Only its own loop writes, and `Metrics` adds up the counts of all workers.
public final class WorkerCounters: Sendable {
  /// That of the worker's loop.
  package let index: Int
  public let clients = Counter<ClientOutcome>()
  public let handshakeCauses = Counter<HandshakeCause>()
  public let certificateFaults = Counter<CertificateFault>()
  public let sessions = Counter<HandshakeKind>()
  public let keyExchanges = Counter<KeyExchange>()
  public let refusals = Counter<ClientRefusal>()
  /// Requests in progress that were cut because their client is refused by now (`ssl_revoked_connections`).
  public let revoked = Counter<RevokedRequest>()
  /// Requests that would have been refused (`ssl_verify_report_only`).
  public let reports = Counter<ClientRefusal>()
  /// One for each handshake with an upstream.
  public let upstreams = Counter<TrustOutcome>()
  /// Requests in progress whose upstream is not trusted any more (`proxy_ssl_revoked_connections`), by the reason.
  public let revokedUpstreams = Counter<TrustOutcome>()
  public let upstreamSessions = Counter<HandshakeKind>()
  public let upstreamKeyExchanges = Counter<KeyExchange>()
  /// What clients of HTTP/2 did too much of.
  package let http2 = Counter<HTTP2Limit>()
  package let limits = Counter<LimitEvent>()
  package let lag = LoopLag()
  /// The connections that a worker holds, and may hold, when it was asked last.
  private let places = Mutex((used: 0, limit: Int.max))
  /// Of the generation that serves. The lock is for reload and for readers: requests use the meters that their server
  /// blocks and groups hold.
  private let meters = Mutex(MeterTable())
  private let formerMeters = Mutex(MeterTable())

  package init(index: Int) { self.index = index }

  func handshakeDidComplete(_ tls: TLSStream) {
    clients.count(ClientOutcome(tls.clientVerdict))
    sessions.count(tls.isResumed ? .resumed : .full)
    keyExchanges.count(tls.keyExchange)
    if let fault = tls.refusedCertificate { certificateFaults.count(fault) }
  }

  func noteConnections(_ used: Int, of limit: Int) { places.withLock { $0 = (used, limit) } }

  /// What is wrong if no further client has a place; nil if one has.
  package var shortage: String? {
    let (used, limit) = places.withLock { $0 }
    guard used >= limit else { return nil }
    return "worker \(index) has no connection left, all \(limit) are taken: new clients wait, and then are refused"
  }

  package func withMeters<Value>(_ body: (inout MeterTable) -> Value) -> Value where Value: Sendable {
    meters.withLock { table in body(&table) }
  }

  /// The meters of what the configuration has no more, or doesn't show. A later one that has it again counts on.
  func withFormerMeters<Value>(_ body: (inout MeterTable) -> Value) -> Value where Value: Sendable {
    formerMeters.withLock { table in body(&table) }
  }
}

/// How late a worker's loop is: the timer of each second measures it. A loop that is late has too much to do, or
/// something blocks it.
package final class LoopLag: Sendable {
  private static let sum = TimeBuckets.count, thisMinute = sum + 1, lastMinute = sum + 2, ticks = sum + 3
  private static let these = sum + 4, last = sum + 5
  private let row = CountRow(LoopLag.sum + 6)

  package func note(_ time: UInt64) {
    row.add(at: TimeBuckets.place(of: time))
    row.add(time, at: Self.sum)
    if row.value(at: Self.ticks) % 60 == 59 {
      row.set(row.value(at: Self.thisMinute), at: Self.lastMinute)
      row.set(0, at: Self.thisMinute)
    }
    if row.value(at: Self.ticks) % 10 == 9 {
      row.set(row.value(at: Self.these), at: Self.last)
      row.set(0, at: Self.these)
    }
    row.add(at: Self.ticks)
    if time > row.value(at: Self.thisMinute) { row.set(time, at: Self.thisMinute) }
    if time > row.value(at: Self.these) { row.set(time, at: Self.these) }
  }

  package var times: TimeHistogram {
    var times = TimeHistogram()
    for place in 0..<TimeBuckets.count { times.buckets[place] = row.value(at: place) }
    times.sum = row.value(at: Self.sum)
    return times
  }

  /// The worst of the last ten to twenty seconds, in milliseconds.
  package var recent: UInt64 { max(row.value(at: Self.these), row.value(at: Self.last)) }

  /// The worst of the last one to two minutes, in milliseconds.
  package var worst: UInt64 { max(row.value(at: Self.thisMinute), row.value(at: Self.lastMinute)) }
}
