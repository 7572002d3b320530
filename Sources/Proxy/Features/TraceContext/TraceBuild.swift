import Language

extension Scope {
  /// `trace_context`
  var traceMode: TraceMode { text("trace_context").flatMap { TraceMode(rawValue: $0.lowercased()) } ?? .off }
}
