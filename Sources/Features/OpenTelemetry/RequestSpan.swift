import Bytes
import Forward
import HTTP
import Traffic

/// The span of one request: which trace it belongs to, and whether it is recorded.
struct RequestSpan {
  /// 32 digits.
  let trace: [UInt8]
  /// 16 digits.
  let own: [UInt8]
  /// The client's span; nil: the trace begins here.
  let parent: TraceParent?
  var isSampled = false
  /// The spans of the attempts at upstreams, 16 digits each.
  var attempts: [[UInt8]] = []
}

/// What `OpenTelemetry` keeps of one request.
final class SpanState: FeatureState {
  private(set) var span: RequestSpan?

  /// A subrequest has no span of its own: what it sends belongs to the main request's.
  override func inherit(_ main: FeatureState) { span = (main as? SpanState)?.span }
  override func reset() { span = nil }

  /// Makes the span at the first call, and decides whether it is recorded. A location that the request enters later has
  /// the same. nil: the location has nothing of OpenTelemetry.
  static func of(_ exchange: Exchange) -> SpanState? {
    if let known = exchange.states.known(SpanState.self), known.span != nil { return known }
    guard let tracer = exchange.location.object(LiveOpenTelemetry.self) else { return nil }
    let state = exchange.use(SpanState.self)
    var parent: TraceParent?
    if tracer.settings.context.extracts {
      var text = ByteBuffer()
      field.withUnsafeBytes { exchange.head.append(variableName: $0, to: &text) }
      parent = TraceParent(text.readable)
    }
    let identifiers = TraceIdentifiers(&exchange.worker.randomWords)
    // Before the decision, whose text may have variables of the span.
    state.span = RequestSpan(trace: parent?.traceID ?? identifiers.trace, own: identifiers.span, parent: parent)
    switch tracer.settings.decision {
    case nil: break
    case .always: state.span?.isSampled = true
    case .whereOn:
      let value = tracer.condition?.bytes(exchange)
      state.span?.isSampled = value == Array("1".utf8) || value == Array("on".utf8)
    }
    return state
  }

  private static let field = Array("traceparent".utf8)

  /// The span of an attempt, by its place among the attempts of the request.
  func attempt(_ index: Int, _ exchange: Exchange) -> [UInt8] {
    while (span?.attempts.count ?? .max) <= index {
      span?.attempts.append(TraceIdentifiers(&exchange.worker.randomWords).span)
    }
    return span?.attempts[index] ?? []
  }

  /// The field for the upstream of the attempt in progress: its parent is the attempt's span, if that is recorded.
  func traceparent(of exchange: Exchange) -> [UInt8] {
    guard let span else { return [] }
    let attempts = (exchange.handler as? UpstreamHandler)?.attempt.records.count ?? 0
    let isOfAttempt = span.isSampled && attempts > 0 && !exchange.isSubrequest
    let parent = isOfAttempt ? attempt(attempts - 1, exchange) : span.own
    return Array("00-".utf8) + span.trace + [0x2D] + parent + Array(span.isSampled ? "-01".utf8 : "-00".utf8)
  }
}
