import Observability
package import Traffic

extension OpenTelemetry {
  package static func measure(_ snapshot: MetricsSnapshot, _ page: inout MetricsWriter) {
    guard let (_, counts) = snapshot.shared[SpanExporter.self].counts else { return }
    page[.spans].family("sallyport_otel_spans_total", .counter, "Spans, by what became of them.")
    for (result, count) in [("sent", counts.sent), ("dropped", counts.dropped)] {
      page[.spans].sample("sallyport_otel_spans_total", ["result": result], count)
    }
    page[.spans].family(
      "sallyport_otel_failures", .gauge, "Requests to the collector that failed since the last one that did not.")
    page[.spans].sample("sallyport_otel_failures", [:], UInt64(counts.failures))
  }

  package static func problems(_ shared: SharedState, _ generation: Generation, at now: Int64) -> [StatusProblem] {
    guard let (endpoint, counts) = shared[SpanExporter.self].counts, counts.failures > 0 else { return [] }
    return [
      StatusProblem(
        .spans, .warning, "Spans could not be sent to \(endpoint), \(counts.failures) in a row: \(counts.reason)")
    ]
  }
}
