import Bytes
import Forward
import Observability
import Traffic

/// The spans of one worker that wait to be sent, as they go over the wire.
final class SpanBuffer: WorkerPart {
  /// Where spans go; nil: none are written.
  private var export: SpanExport?
  private var spans = SpanWriter()
  private var one = SpanWriter()
  private var count = 0
  /// Milliseconds of the loop's clock; nil: nothing waits.
  private var beganAt: UInt64?
  /// A batch is sent before it has as many bytes: collectors take 4 MiB or more.
  private static let mostBytes = 1 << 20

  var isOpen: Bool { export != nil }

  override func serve(_ live: LiveGeneration) {
    flush()
    export = live.generation.http[OpenTelemetry.Block.self].export
  }

  /// Adds a span, which `write` writes without its length.
  func add(_ write: (inout SpanWriter) -> Void) {
    one.reset()
    write(&one)
    // ScopeSpans.spans
    spans.field(2, one.bytes.readable)
    count += 1
    if count >= export?.sending.batchSize ?? 0 || spans.bytes.count >= Self.mostBytes { flush() }
  }

  override func tick(now: UInt64) {
    guard count > 0, let export else { return }
    guard let beganAt else { return self.beganAt = now }
    if now &- beganAt &+ 1000 >= UInt64(clamping: export.sending.interval) { flush() }
  }

  override func flush() {
    guard count > 0 else { return }
    worker.shared[SpanExporter.self].take(Array(spans.bytes.readable), count: count)
    spans.reset()
    count = 0
    beganAt = nil
  }
}
