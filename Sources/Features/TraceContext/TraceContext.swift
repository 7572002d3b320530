import Bytes
import Forward
import HTTP
import Language
import Traffic

/// trace_context, which nginx has not: passes on the W3C trace context of requests, with a span of sallyport's own.
struct TraceContext: LocationFeature {
  enum Mode: String, Sendable, Hashable {
    /// A valid traceparent of the client is continued, otherwise a trace begins.
    case on
    /// Every request begins a trace: for clients that must not choose identifiers.
    case restart
  }

  var mode: Mode

  // MARK: Directives

  static let chapter = Chapter.http

  private static let modeLine = DirectiveEntry.value(
    "trace_context", DirectiveContexts.everyHTTP, .oneOf(["off", "on", "restart"]), "off",
    "Passes on the client's W3C trace (`on`) or begins one for each request (`restart`), with a span of sallyport's own in `traceparent`.",
    example: "trace_context on;")

  static let directives = [modeLine]

  private static let parent = variable(
    "traceparent", "The field of W3C Trace Context that the upstream gets."
  ) { trace, _, output in output.append(trace.parent.value) }
  private static let state = variable(
    "tracestate", "The client's tracestate, where its trace is continued."
  ) { trace, exchange, output in
    guard trace.isContinued else { return }
    stateField.withUnsafeBytes { exchange.head.append(variableName: $0, to: &output) }
  }

  static let variables = [
    parent, state,
    variable("trace_id", "The ID of the trace that the request belongs to: 32 hexadecimal digits.") {
      trace, _, output in output.append(trace.parent.traceID)
    },
    variable("span_id", "The ID of the span that the upstream gets as its parent: 16 hexadecimal digits.") {
      trace, _, output in output.append(trace.parent.parentID)
    },
  ]

  private static let stateField = Array("tracestate".utf8)

  /// A variable of the trace; empty where `trace_context` is off.
  private static func variable(
    _ name: String, _ help: String,
    append: @escaping @Sendable (RequestTrace, Exchange, inout ByteBuffer) -> Void
  ) -> FeatureVariable {
    FeatureVariable(name, help, isOursAlone: true) { exchange, output in
      if let trace = RequestTrace.of(exchange) { append(trace, exchange, &output) }
    }
  }

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> TraceContext? {
    mode(level.scope).map { TraceContext(mode: $0) }
  }

  /// nil: off, so that the client's fields go on as any others.
  private static func mode(_ scope: Scope) -> Mode? {
    modeLine.text(in: scope).flatMap { Mode(rawValue: $0.lowercased()) }
  }

  static func upstreamFields(_ scope: Scope) -> [(name: String, value: Template)] {
    mode(scope) == nil ? [] : [parent, state].map { ($0.name, Template([.variable(.feature($0))])) }
  }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.objects.append(LiveTrace(mode)) }
}

/// `trace_context` of a location in one worker.
final class LiveTrace {
  let mode: TraceContext.Mode
  init(_ mode: TraceContext.Mode) { self.mode = mode }
}
