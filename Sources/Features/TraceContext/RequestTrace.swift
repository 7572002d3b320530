import Bytes
import Forward
import HTTP
import Traffic

/// The trace of one request, once something has asked for it: `trace_context`, or a variable.
struct RequestTrace {
  /// What the upstream gets.
  var parent: TraceParent
  /// Whether the trace is that of the client, so that its tracestate goes on too.
  var isContinued: Bool

  private static let field = Array("traceparent".utf8)

  /// Makes the trace at the first call. A location that the request enters later has the same trace. nil: no trace is
  /// wanted.
  static func of(_ exchange: Exchange) -> RequestTrace? {
    if let trace = exchange.states.known(TraceState.self)?.trace { return trace }
    var former: TraceParent?
    switch exchange.location.object(LiveTrace.self)?.mode {
    case nil: return nil
    case .restart: break
    case .on:
      // Several fields come joined by commas, which is no valid value.
      var text = ByteBuffer()
      field.withUnsafeBytes { exchange.head.append(variableName: $0, to: &text) }
      former = TraceParent(text.readable)
    }
    let identifiers = TraceIdentifiers(&exchange.worker.randomWords)
    let trace = RequestTrace(
      parent: TraceParent(continuing: former, trace: identifiers.trace, span: identifiers.span),
      isContinued: former != nil)
    exchange.use(TraceState.self).trace = trace
    return trace
  }
}

/// The trace of a request, which its subrequests share.
final class TraceState: FeatureState {
  fileprivate(set) var trace: RequestTrace?

  override func inherit(_ main: FeatureState) { trace = (main as? TraceState)?.trace }
  override func reset() { trace = nil }
}
