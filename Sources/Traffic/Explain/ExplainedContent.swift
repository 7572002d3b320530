import Bytes
import HTTP

/// The content of a location, for `sallyport check --explain`: tells what the content would do, and contacts nobody.
final class ExplainedContent: LiveContent {
  fileprivate let content: LiveContent
  fileprivate let trace: ExplainTrace

  init(_ content: LiveContent, _ trace: ExplainTrace) {
    self.content = content
    self.trace = trace
  }

  override func handler(for worker: Worker) -> ContentHandler? { content.rehearsal(trace) ?? ExplainedHandler(self) }
  override func takes(_ body: RequestBody) -> Bool { content.takes(body) }
}

private final class ExplainedHandler: ContentHandler {
  private let explained: ExplainedContent

  init(_ explained: ExplainedContent) { self.explained = explained }

  private var trace: ExplainTrace { explained.trace }

  override func start(_ exchange: Exchange) {
    trace.enter(exchange)
    let fact = exchange.location.settings.content.map { ExplainTrace.Fact.content($0) }
    if let words = explained.content.explained(exchange) {
      trace.add("content", words, fact)
      return exchange.answer(status: 200, type: "text/plain", body: UnsafeRawBufferPointer(start: nil, count: 0))
    }
    trace.add("content", "of this location itself", fact)
    guard let handler = explained.content.handler(for: exchange.worker) else {
      return exchange.fail(ErrorResponse(404))
    }
    handler.start(exchange)
  }

  override func start(_ session: StreamSession) {
    LocationWords(session, session.location.settings).tellRules(trace)
    let told = explained.content.explained(session)
    trace.add(
      "content", told?.words ?? "of this server itself",
      session.location.settings.content.map { .content($0) })
    session.end(session.variables.isBroken ? .error : told?.result ?? .ok)
  }
}
