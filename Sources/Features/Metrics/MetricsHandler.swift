import Forward
import HTTP
import Language
import Observability
import Traffic
import Transport

/// `metrics`: a location with the counters of the process for Prometheus.
struct MetricsLocation: PageFeature {
  static let subject = "the metrics"

  static let directives: [DirectiveEntry] = [
    .local(
      "metrics", .location, .none,
      "Serves counters of requests, handshakes and upstreams, and ages of certificates, as Prometheus text.",
      example: "metrics;")
  ]

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.content = MetricsContent() }

  var showsCounts: Bool { true }
}

/// `metrics`: responds with the workers' counters in Prometheus text format.
final class MetricsContent: LiveContent {
  override func handler(for worker: Worker) -> ContentHandler? { MetricsHandler() }
}

private final class MetricsHandler: ContentHandler {
  override func start(_ exchange: Exchange) {
    guard exchange.head.method == .get || exchange.head.method == .head else {
      return exchange.fail(ErrorResponse(405))
    }
    let metrics = exchange.worker.metrics, shared = exchange.worker.shared,
      generation = exchange.session.live.generation
    let overrides = RuntimeOverrides(exchange)
    PendingWork.run(.pages, for: exchange) {
      Array(MetricsPage.text(MetricsSnapshot(metrics, shared, generation, overrides)).utf8)
    } _: { exchange, page in
      page.withUnsafeBytes {
        exchange.answer(status: 200, type: "text/plain; version=0.0.4; charset=utf-8", body: $0)
      }
    }
  }
}
