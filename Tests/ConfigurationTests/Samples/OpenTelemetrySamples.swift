extension DirectiveSample {
  /// The samples of `otel_exporter` and `otel_trace`.
  static let openTelemetry: [String: DirectiveSample] = {
    let exporter = "otel_exporter { endpoint http://127.0.0.1:4318; }"
    func line(_ other: String, or one: String = "") -> DirectiveSample {
      DirectiveSample(other, or: one, beside: "endpoint http://127.0.0.1:4318;")
    }
    return [
      "otel_exporter": .init(exporter, or: "otel_exporter { endpoint http://127.0.0.1:4319; }"),
      "endpoint": .init("endpoint http://127.0.0.1;", or: "endpoint https://127.0.0.1;"),
      "interval": line("interval 7s;"), "batch_size": line("batch_size 7;"), "batch_count": line("batch_count 7;"),
      "trusted_certificate": line("trusted_certificate ca.pem;"), "otel_exporter/header": line("header a b;"),
      "otel_service_name": .init("otel_service_name a;", beside: exporter),
      "otel_resource_attr": .init("otel_resource_attr a b;", beside: exporter),
      "otel_trace": .init("otel_trace on;", or: "otel_trace $otel_parent_sampled;", http: exporter),
      "otel_trace_context": .init("otel_trace_context extract;", or: "otel_trace_context propagate;"),
      "otel_span_name": .init("otel_span_name a;", beside: "otel_trace on;", http: exporter),
      "otel_span_attr": .init("otel_span_attr a b;", beside: "otel_trace on;", http: exporter),
    ]
  }()
}
