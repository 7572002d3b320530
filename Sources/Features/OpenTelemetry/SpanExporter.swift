import Bytes
import Forward
import Glibc
import HTTP
import Observability
import Synchronization
import TLS
package import Traffic
import Transport

/// Sends spans to the collector of `otel_exporter`, by OTLP over HTTP, on a thread that may wait.
///
/// Nothing waits for it: `batch_count` batches may be left to send, and spans beyond them are dropped and counted. A
/// collector that does not answer, or says that it is busy, is asked again; what it refuses is dropped.
package final class SpanExporter: SharedPart {
  package struct Counts: Sendable, Equatable {
    package var sent: UInt64 = 0
    package var dropped: UInt64 = 0
    /// Requests that failed, in a row.
    package var failures = 0
    package var reason = ""
  }

  private struct Batch: Sendable {
    var spans: [UInt8]
    var count: Int
  }

  private struct State: Sendable {
    var export: SpanExport?
    var log: ErrorLog?
    var waiting: [Batch] = []
    var isSending = false
    var isClosing = false
    var counts = Counts()
  }

  private let state = Mutex(State())
  private let pool: BlockingPool
  /// Seconds for one request.
  private static let timeLimit = 10
  private static let longestPause = 30

  package init(_ shared: SharedState) { pool = shared.pool }

  /// Sends to this generation's collector from now on. If it has none, no spans come any more, and those that wait are dropped.
  package func serve(_ generation: Generation) {
    let export = generation.http[OpenTelemetry.Block.self].export
    state.withLock { state in
      state.log = generation.errorLog
      if export == nil {
        state.counts.dropped &+= UInt64(state.waiting.reduce(0) { $0 + $1.count })
        state.waiting = []
      }
      state.export = export
    }
  }

  /// nil: the configuration has no collector.
  package var counts: (endpoint: String, counts: Counts)? {
    state.withLock { state in state.export.map { ("\($0.endpoint)", state.counts) } }
  }

  /// Takes a batch of spans, ScopeSpans.spans each.
  func take(_ spans: [UInt8], count: Int) {
    let begins = state.withLock { state -> Bool in
      guard let export = state.export, state.waiting.count < export.sending.batchCount else {
        state.counts.dropped &+= UInt64(count)
        return false
      }
      state.waiting.append(Batch(spans: spans, count: count))
      defer { state.isSending = true }
      return !state.isSending
    }
    if begins { _ = pool.run(.spans, for: "") { self.sendAll() } }
  }

  /// Sends what waits, for a second at most.
  package func close() {
    state.withLock { $0.isClosing = true }
    for _ in 0..<100 where state.withLock({ $0.isSending }) { usleep(10_000) }
  }

  // MARK: On a thread of the pool

  private func sendAll() {
    while let (batch, export) = next() {
      let outcome = send(batch, export)
      let isLast = state.withLock { state -> Bool in
        switch outcome {
        case .taken:
          state.counts.sent &+= UInt64(batch.count)
          (state.counts.failures, state.counts.reason) = (0, "")
        case .refused, .later:
          state.counts.failures = min(state.counts.failures, 1 << 20) + 1
          state.counts.reason = outcome.reason
        }
        guard case .later = outcome, !state.isClosing else {
          if case .taken = outcome {} else { state.counts.dropped &+= UInt64(batch.count) }
          return true
        }
        return false
      }
      if case .taken = outcome { continue }
      tell(export)
      if isLast { continue }
      pause(outcome.retryAfter)
      giveBack(batch)
    }
  }

  private func next() -> (Batch, SpanExport)? {
    state.withLock { state in
      guard let export = state.export, !state.waiting.isEmpty else {
        state.isSending = false
        return nil
      }
      return (state.waiting.removeFirst(), export)
    }
  }

  /// The batch waits again, before the others, if there is still room for it.
  private func giveBack(_ batch: Batch) {
    state.withLock { state in
      if state.waiting.count < state.export?.sending.batchCount ?? 0 {
        state.waiting.insert(batch, at: 0)
      } else {
        state.counts.dropped &+= UInt64(batch.count)
      }
    }
  }

  private func pause(_ seconds: Int?) {
    let failures = state.withLock { $0.counts.failures }
    let wait = max(min(1 << min(max(failures - 1, 0), 5), Self.longestPause), min(seconds ?? 0, Self.longestPause))
    for _ in 0..<wait * 20 where !state.withLock({ $0.isClosing }) { usleep(50_000) }
  }

  /// Tells of the first failure, the second, the fourth and so on.
  private func tell(_ export: SpanExport) {
    let (counts, log) = state.withLock { ($0.counts, $0.log) }
    guard counts.failures & (counts.failures - 1) == 0 else { return }
    log?.warn(
      "spans could not be sent to \(export.endpoint) (\(counts.failures) in a row): \(counts.reason); \(counts.dropped) spans were dropped so far"
    )
  }

  // MARK: One request

  private enum Outcome {
    case taken
    /// The collector does not want it, and would not a second time.
    case refused(String)
    /// `retryAfter`: seconds.
    case later(String, retryAfter: Int?)

    var reason: String {
      switch self {
      case .taken: ""
      case .refused(let reason), .later(let reason, _): reason
      }
    }
    var retryAfter: Int? { if case .later(_, let seconds) = self { seconds } else { nil } }
  }

  private func send(_ batch: Batch, _ export: SpanExport) -> Outcome {
    let endpoint = export.endpoint
    let context: UpstreamTLSContext?
    do { context = endpoint.isTLS ? try ServerTrust.context(export.sending.trustedCertificate) : nil } catch {
      return .later("the CAs that verify the collector can't be taken: \(error)", retryAfter: nil)
    }
    let body = Self.message(batch.spans, export.resource)
    let lines =
      [
        "POST \(endpoint.target) HTTP/1.1", "Host: \(endpoint.authority)",
        "User-Agent: \(Product.name)/\(Product.version)", "Content-Type: application/x-protobuf",
        "Content-Length: \(body.count)", "Connection: close",
      ] + export.sending.headers
    let request = Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8) + body
    let addresses =
      SocketAddress(literal: endpoint.host, port: endpoint.port).map { [$0] }
      ?? Resolver.addresses(of: endpoint.host, port: endpoint.port)
    guard let address = addresses.first else { return .later("the name has no address", retryAfter: nil) }
    let exchange = BlockingExchange(context: context, name: endpoint.host, seconds: Self.timeLimit)
    var answer = CollectorAnswer()
    do throws(BlockingExchangeError) {
      _ = try exchange.perform(at: address, request) { answer.take($0) }
    } catch {
      if answer.status == nil { return .later(error.description, retryAfter: nil) }
    }
    // https://opentelemetry.io/docs/specs/otlp/#otlphttp-response
    guard let status = answer.status else {
      return .later("the collector's answer is none: \(answer.fault)", retryAfter: nil)
    }
    switch status {
    case 200..<300: return .taken
    case 429, 502, 503, 504: return .later("status \(status)", retryAfter: answer.retryAfter)
    default: return .refused("status \(status)")
    }
  }

  /// ExportTraceServiceRequest: one ResourceSpans with one ScopeSpans.
  static func message(_ spans: [UInt8], _ resource: [[String]]) -> [UInt8] {
    var attributes = SpanWriter()
    for pair in resource where pair.count == 2 { attributes.attribute(1, pair[0], Array(pair[1].utf8)) }
    var scope = SpanWriter()
    scope.field(1, Array("\(Product.name)".utf8))
    scope.field(2, Array("\(Product.version)".utf8))
    var inner = SpanWriter()
    inner.field(1, scope.bytes.readable)
    var outer = SpanWriter()
    outer.field(1, attributes.bytes.readable)
    outer.field(2, length: inner.bytes.count + spans.count)
    var whole = SpanWriter()
    whole.field(1, length: outer.bytes.count + inner.bytes.count + spans.count)
    return Array(whole.bytes.readable) + Array(outer.bytes.readable) + Array(inner.bytes.readable) + spans
  }
}

/// Reads the head of the collector's answer.
private struct CollectorAnswer {
  private(set) var status: Int?
  private(set) var retryAfter: Int?
  private(set) var fault = "the connection ended before it"
  private var parser = HeadParser()
  private var input: [UInt8] = []
  private static let limits = HeadLimits(lineBytes: 8192, headBytes: 32_768, fields: 100)

  /// Returns whether more is wanted.
  mutating func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
    input += bytes
    let head = ResponseHead()
    while true {
      switch input.withUnsafeBytes({ parser.response($0, limits: Self.limits, requestMethod: .post, into: head) }) {
      case .incomplete: return true
      case .failed(let error):
        fault = "its head is malformed: \(error.reason)"
        return false
      case .complete(let consumed):
        input.removeFirst(consumed)
        guard !head.isInterim else {
          head.reset()
          parser = HeadParser()
          continue
        }
        status = Int(head.status)
        retryAfter = Array("Retry-After".utf8).withUnsafeBytes { head.value(named: $0) }
          .flatMap { Int(head.bytes.readable[$0].text) }
        return false
      }
    }
  }
}
