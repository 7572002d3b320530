import ConfigurationSupport
@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `otel_exporter and otel_trace` {
  private func load(_ http: String, _ location: String = "") -> LoadedText {
    LoadedText("http { \(http) server { listen 127.0.0.1:80; location / { \(location) return 204; } } }")
  }

  @Test(arguments: [
    ("http://c.test:4318", "http://c.test:4318/v1/traces"), ("https://C.test", "https://c.test/v1/traces"),
    ("http://[::1]:1/x?y=z", "http://[::1]:1/x?y=z"),
  ])
  func `the path of a collector is v1/traces unless one is written`(url: String, asked: String) throws {
    let export = try #require(
      load("otel_exporter { endpoint \(url); }").settings?.http[OpenTelemetry.Block.self].export)
    #expect("\(export.endpoint)" == asked)
    #expect(export.resource == [["service.name", "unknown_service:sallyport"]])
  }

  @Test(arguments: [
    ("otel_exporter { }", "", "has no \"endpoint\""),
    ("otel_exporter { endpoint 127.0.0.1:4317; }", "", "is no URL of a collector"),
    ("otel_exporter { endpoint http://a/; header Host b; }", "", "can't be a field"),
    ("otel_exporter { endpoint http://a/; header \"x y\" b; }", "", "can't be a field"),
    ("", "otel_trace on;", "without \"otel_exporter\""),
    ("otel_exporter { endpoint http://a/; }", "otel_trace yes;", "invalid value \"yes\""),
    ("otel_exporter { endpoint http://a/; }", "otel_trace_context inject; trace_context on;", "both write traceparent"),
  ])
  func `what can't be is refused`(http: String, location: String, words: String) {
    let loaded = load(http, location)
    #expect(loaded.settings == nil && loaded.errors.contains { $0.contains(words) }, "\(loaded.errors)")
  }

  @Test func `extract goes with trace_context, and nothing is read where nothing is said`() throws {
    let exporter = "otel_exporter { endpoint http://a/; }"
    #expect(load(exporter, "otel_trace_context extract; trace_context on;").settings != nil)
    let settings = try #require(load(exporter, "otel_trace off;").settings)
    #expect(settings.http.servers[0].root.locations[0][OpenTelemetry.self] == nil)
  }
}
