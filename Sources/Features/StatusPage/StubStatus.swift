import Forward
import HTTP
import Language
import Observability
import Traffic

/// `stub_status` (nginx: ngx_http_stub_status_module): a location with counts of connections and requests.
struct StubStatus: PageFeature {
  static let subject = "the counts of stub_status"

  static let directives: [DirectiveEntry] = [
    .local(
      "stub_status", [.server, .location], .words(0...1, "[on]"),
      "Serves nginx's page of connections and requests, over all workers, to GET and HEAD.", example: "stub_status;")
  ]

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> StubStatus? {
    guard let line = line(in: level.scope) else { return nil }
    builder.refuseSecondContent(at: line, level.scope)
    // nginx takes any word after it, `off` too, and serves the page all the same.
    if line.arguments.first.map({ $0.text.lowercased() == "on" }) ?? true { return StubStatus() }
    builder.refuse(line, 0, hint: "write `stub_status;`, or leave the directive out")
    return nil
  }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.content = StatusContent() }
}

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
