import Bytes
import Forward
import HTTP
import Language
import Traffic
import Transport

/// `status`: a location with the state of the process, for people and as JSON.
struct StatusLocation: PageFeature {
  static let subject = "the status page"

  static let directives: [DirectiveEntry] = [
    .local(
      "status", .location, .none,
      "Serves the state of the process: a page for people that begins with what is wrong, or with `?format=json` as JSON.",
      example: "status;")
  ]

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.content = StatusPageContent() }

  var showsCounts: Bool { true }
}

/// `status`: responds with the state of the process, as a page for people or as JSON (`?format=json`).
final class StatusPageContent: LiveContent {
  override func handler(for worker: Worker) -> ContentHandler? { StatusPageHandler() }
}

private final class StatusPageHandler: ContentHandler {
  private static let asked = Array("format=json".utf8)

  override func start(_ exchange: Exchange) {
    guard exchange.head.method == .get || exchange.head.method == .head else {
      return exchange.fail(ErrorResponse(405))
    }
    let metrics = exchange.worker.metrics, shared = exchange.worker.shared,
      generation = exchange.session.live.generation
    let overrides = RuntimeOverrides(exchange)
    let isJSON = exchange.arguments.split(separator: 0x26).contains { Array($0) == Self.asked }
    exchange.setOwnFields(
      FieldBlock([
        (Array("Cache-Control".utf8), Array("no-store".utf8)),
        (Array("X-Content-Type-Options".utf8), Array("nosniff".utf8)),
        (Array("Referrer-Policy".utf8), Array("no-referrer".utf8)),
        (Array("Content-Security-Policy".utf8), Array(StatusHTML.policy.utf8)),
      ]))
    PendingWork.run(.pages, for: exchange) {
      let snapshot = MetricsSnapshot(metrics, shared, generation, overrides)
      return Array((isJSON ? StatusJSON.text(snapshot) : StatusHTML.page(snapshot)).utf8)
    } _: { exchange, body in
      body.withUnsafeBytes {
        exchange.answer(status: 200, type: isJSON ? "application/json" : "text/html; charset=utf-8", body: $0)
      }
    }
  }
}
