import Bytes
import HTTP

/// The trace of one request, once something has asked for it: `trace_context`, or a variable.
struct RequestTrace {
  /// What the upstream gets.
  var parent: TraceParent
  /// Whether the trace is that of the client, so that its tracestate goes on too.
  var isContinued: Bool
}

extension RequestTrace {
  private static let parentField = Array("traceparent".utf8), stateField = Array("tracestate".utf8)

  /// Appends a variable of the trace; nothing where `trace_context` is off.
  static func append(_ variable: SimpleVariable, of exchange: Exchange, to output: inout ByteBuffer) {
    guard let trace = of(exchange) else { return }
    switch variable {
    case .trace_id: output.append(trace.parent.traceID)
    case .span_id: output.append(trace.parent.parentID)
    case .tracestate:
      if trace.isContinued {
        stateField.withUnsafeBytes { exchange.head.append(variableName: $0, to: &output) }
      }
    default: output.append(trace.parent.value)
    }
  }

  /// Makes the trace at the first call. A location that the request enters later has the same trace.
  private static func of(_ exchange: Exchange) -> RequestTrace? {
    if let trace = exchange.variables.trace { return trace }
    let former: TraceParent?
    switch exchange.location.settings.flow.trace {
    case .off: return nil
    case .restart: former = nil
    case .on:
      // Several fields come joined by commas, which is no valid value.
      var text = ByteBuffer()
      parentField.withUnsafeBytes { exchange.head.append(variableName: $0, to: &text) }
      former = TraceParent(text.readable)
    }
    let identifiers = TraceIdentifiers(&exchange.worker.randomWords)
    let trace = RequestTrace(
      parent: TraceParent(continuing: former, trace: identifiers.trace, span: identifiers.span),
      isContinued: former != nil)
    exchange.keep(trace)
    return trace
  }
}

/// Random identifiers, never all zeros, which W3C Trace Context forbids.
struct TraceIdentifiers {
  let trace: [UInt8]
  let span: [UInt8]

  init(_ generator: inout some RandomNumberGenerator) {
    let first: UInt64 = generator.next(), second: UInt64 = generator.next(), third: UInt64 = generator.next()
    trace = Self.hex(first) + Self.hex(first == 0 && second == 0 ? 1 : second)
    span = Self.hex(third == 0 ? 1 : third)
  }

  private static func hex(_ word: UInt64) -> [UInt8] {
    Array(Hex.encode(withUnsafeBytes(of: word.bigEndian) { Array($0) }).utf8)
  }
}
