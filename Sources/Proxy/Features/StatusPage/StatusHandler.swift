import HTTP

/// `stub_status`: responds with nginx's page of counts, over all workers.
final class StatusContent: LiveContent {
  override func handler(for worker: Worker) -> ContentHandler? { StatusHandler() }
}

private final class StatusHandler: ContentHandler {
  override func start(_ exchange: Exchange) {
    guard exchange.head.method == .get || exchange.head.method == .head else {
      return exchange.fail(ErrorResponse(405))
    }
    Array(exchange.worker.metrics.traffic.totals.page.utf8).withUnsafeBytes {
      exchange.answer(status: 200, type: "text/plain", body: $0)
    }
  }
}
