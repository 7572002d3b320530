import HTTP
import Observability

/// `metrics`: responds with the workers' counters in Prometheus text format.
final class MetricsContent: LiveContent {
  override func handler(for worker: Worker) -> ContentHandler? { MetricsHandler() }
}

private final class MetricsHandler: ContentHandler {
  override func start(_ exchange: Exchange) {
    guard exchange.head.method == .get || exchange.head.method == .head else {
      return exchange.fail(ErrorResponse(405))
    }
    let snapshot = MetricsSnapshot(exchange.worker.metrics, exchange.session.live.generation)
    let page = Array(MetricsPage.text(snapshot).utf8)
    page.withUnsafeBytes {
      exchange.answer(status: 200, type: "text/plain; version=0.0.4; charset=utf-8", body: $0)
    }
  }
}
