import Bytes
import Observability

/// The spans of one worker that wait to be sent, as they go over the wire.
final class SpanBuffer {
  private let exporter: SpanExporter
  private let batchSize: Int
  private let interval: UInt64
  private var spans = SpanWriter()
  private var one = SpanWriter()
  private var count = 0
  /// Milliseconds of the loop's clock; nil: nothing waits.
  private var beganAt: UInt64?
  /// A batch is sent before it has as many bytes: collectors take 4 MiB or more.
  private static let mostBytes = 1 << 20

  init(_ export: SpanExport, _ exporter: SpanExporter) {
    self.exporter = exporter
    batchSize = export.batchSize
    interval = UInt64(export.interval)
  }

  /// Adds a span, which `write` writes without its length.
  func add(_ write: (inout SpanWriter) -> Void) {
    one.reset()
    write(&one)
    // ScopeSpans.spans
    spans.field(2, one.bytes.readable)
    count += 1
    if count >= batchSize || spans.bytes.count >= Self.mostBytes { flush() }
  }

  /// `now`: milliseconds of the loop's clock, about every second.
  func flush(ifOlderThan now: UInt64) {
    guard count > 0 else { return }
    guard let beganAt else { return self.beganAt = now }
    if now &- beganAt &+ 1000 >= interval { flush() }
  }

  func flush() {
    guard count > 0 else { return }
    exporter.take(Array(spans.bytes.readable), count: count)
    spans.reset()
    count = 0
    beganAt = nil
  }
}
