import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `Spans for a collector` {
  private static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
  private static let given = "traceparent: 00-\(trace)-00f067aa0ba902b7-01"

  private func exporter(_ port: UInt16, _ more: String = "interval 100ms;", scheme: String = "http") -> String {
    "otel_exporter { endpoint \(scheme)://127.0.0.1:\(port); \(more) } otel_service_name gate; otel_resource_attr zone a;"
  }

  private func ask(_ scene: Scene, _ port: UInt16, _ path: String = "/", _ more: [String] = []) async throws
    -> CurlResult
  {
    try await scene.curl(more + ["http://127.0.0.1:\(port)\(path)"])
  }

  @Test(arguments: ["--http1.1", "--http2-prior-knowledge"])
  func `a request and each of its attempts are spans, and the upstream is told of its own`(version: String) async throws
  {
    let scene = try Scene.ofTest(), collector = try await SpanCollector(scene)
    let (port, upstream, dead) = (try scene.port(), try scene.port(), try scene.port())
    _ = try await Sallyport.serve(
      scene,
      """
      \(exporter(collector.port))
      upstream app { server 127.0.0.1:\(dead); server 127.0.0.1:\(upstream) backup; }
      server { listen 127.0.0.1:\(upstream); location / { return 200 "$http_traceparent $http_tracestate"; } }
      server { listen 127.0.0.1:\(port); http2 on; otel_trace on; otel_trace_context propagate;
        location /api/ { proxy_pass http://app; otel_span_attr team.name "red $arg_a"; otel_span_attr empty $arg_b; } }
      """)
    let answer = try await ask(
      scene, port, "/api/x?a=1&secret=2", [version, "-H", Self.given, "-H", "tracestate: k=v", "-A", "tester/1"])
    try await until("the spans") { collector.spans.count == 3 }
    let spans = collector.spans
    let own = try #require(spans.first { $0.kind == "SPAN_KIND_SERVER" })
    let attempts = spans.filter { $0.kind == "SPAN_KIND_CLIENT" }
    #expect(attempts.count == 2 && spans.allSatisfy { $0.trace == Self.trace && $0.start <= $0.end })
    #expect(spans.allSatisfy { $0.resource == ["service.name": "gate", "zone": "a"] })
    #expect(own.parent == "00f067aa0ba902b7" && own.name == "/api/" && own.status == "STATUS_CODE_UNSET")
    #expect(
      attempts.allSatisfy { $0.parent == own.id && $0.start >= own.start && $0.end <= own.end && $0.name == "GET" })
    #expect(Set(spans.map(\.id)).count == 3)
    #expect(answer.text == "00-\(Self.trace)-\(attempts[1].id)-01 k=v", "\(answer.text)")
    #expect(
      own.attributes == [
        "http.request.method": "GET", "url.path": "/api/x", "url.scheme": "http", "http.route": "/api/",
        "server.address": "127.0.0.1", "client.address": "127.0.0.1", "network.peer.address": "127.0.0.1",
        "network.protocol.version": version == "--http1.1" ? "1.1" : "2", "user_agent.original": "tester/1",
        "team.name": "red 1", "http.response.status_code": "200",
      ])
    #expect(attempts[0].status == "STATUS_CODE_ERROR" && attempts[0].attributes["server.port"] == "\(dead)")
    #expect(attempts[1].status == "STATUS_CODE_UNSET" && attempts[1].attributes["server.port"] == "\(upstream)")
    #expect(attempts[1].attributes["http.response.status_code"] == "200")
    #expect(attempts[1].attributes["http.request.resend_count"] == "1")
  }

  @Test func `the sampled flag of the client decides where that is said, and a variable is what the span has`()
    async throws
  {
    let scene = try Scene.ofTest(), collector = try await SpanCollector(scene)
    let (port, upstream) = (try scene.port(), try scene.port())
    _ = try await Sallyport.serve(
      scene,
      """
      \(exporter(collector.port))
      server { listen 127.0.0.1:\(upstream); location / { return 200 "$http_traceparent"; } }
      server { listen 127.0.0.1:\(port); otel_trace $otel_parent_sampled; otel_trace_context extract;
        location / { otel_trace_context propagate; proxy_pass http://127.0.0.1:\(upstream); }
        location /error { otel_span_name "e $request_method"; return 503; }
        location /ids { return 200 "$otel_trace_id $otel_span_id $otel_parent_id $otel_parent_sampled"; }
        location /new { otel_trace_context inject; proxy_pass http://127.0.0.1:\(upstream); } }
      """)
    let unsampled = try await ask(scene, port, "/", ["-H", Self.given.replacing("-01", with: "-00")]).text
    #expect(unsampled.hasPrefix("00-\(Self.trace)-") && unsampled.hasSuffix("-00"), "\(unsampled)")
    let fresh = try await ask(scene, port, "/new", ["-H", Self.given]).text
    #expect(!fresh.contains(Self.trace) && fresh.hasSuffix("-00"), "\(fresh)")
    let ids = try await ask(scene, port, "/ids", ["-H", Self.given]).text.split(separator: " ").map(String.init)
    #expect(ids.count == 4 && ids[0] == Self.trace && ids[2] == "00f067aa0ba902b7" && ids[3] == "1")
    _ = try await ask(scene, port, "/error", ["-H", Self.given])
    try await until("the spans") { collector.spans.count == 2 }
    // Each worker sends by itself.
    let own = try #require(collector.spans.first { $0.name == "/ids" })
    #expect(own.id == ids[1] && own.parent == ids[2])
    let error = try #require(collector.spans.first { $0.name != "/ids" })
    #expect(error.name == "e GET" && error.status == "STATUS_CODE_ERROR" && error.attributes["error.type"] == "503")
  }

  @Test func `a collector that is gone costs no request, and gets later spans when it is back`() async throws {
    let scene = try Scene.ofTest()
    let (port, away) = (try scene.port(), try scene.port())
    let daemon = try await Sallyport.serve(
      scene,
      """
      \(exporter(away, "interval 100ms; batch_size 1; batch_count 2;"))
      server { listen 127.0.0.1:\(port); otel_trace on; location / { return 200 ok; }
        location = /metrics { otel_trace off; metrics; } }
      """)
    for _ in 0..<20 { #expect(try await ask(scene, port).text == "ok") }
    try await daemon.logged("[warn]", "spans could not be sent to http://127.0.0.1:\(away)/v1/traces (1 in a row)")
    let page = try await ask(scene, port, "/metrics").text
    let dropped = page.firstMatch(of: /sallyport_otel_spans_total\{result="dropped"\} (\d+)/)
    #expect(try #require(dropped.flatMap { Int($0.output.1) }) >= 17, "\(page)")
    let collector = try await SpanCollector(scene, port: away)
    try await until("the spans that waited") { collector.spans.count >= 1 }
    let count = collector.spans.count
    try await until("new spans") {
      let answer = try await ask(scene, port)
      #expect(answer.text == "ok")
      return collector.spans.count > count + 2
    }
  }

  @Test func `what a busy collector refuses comes again, and what it calls wrong does not`() async throws {
    let scene = try Scene.ofTest(), collector = try await SpanCollector(scene)
    let port = try scene.port()
    try collector.say(503, "Retry-After: 1")
    _ = try await Sallyport.serve(
      scene,
      """
      \(exporter(collector.port, "interval 100ms; header X-Token t1;"))
      server { listen 127.0.0.1:\(port); otel_trace on; location / { return 200 ok; } }
      """)
    _ = try await ask(scene, port)
    try await until("the answer") { collector.answers == ["503 t1"] }
    try collector.say(200)
    try await until("the span") { collector.spans.count == 1 }
    try collector.say(400)
    _ = try await ask(scene, port)
    try await until("the answer") { collector.answers.last == "400 t1" }
    try collector.say(200)
    _ = try await ask(scene, port)
    try await until("the next span") { collector.spans.count == 2 }
    #expect(collector.answers == ["503 t1", "200 t1", "400 t1", "200 t1"])
  }

  @Test func `over TLS the collector is verified, and the last spans go out before the end`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let collector = try await SpanCollector(
      scene, identity: try scene.identity("collector", cast.authority.server(names: ["127.0.0.1"])))
    let port = try scene.port()
    func text(_ more: String) -> String {
      configuration(
        exporter(collector.port, more, scheme: "https")
          + "server { listen 127.0.0.1:\(port); otel_trace on; location / { return 200 ok; } }")
    }
    var daemon = try await Sallyport.start(scene, text("interval 100ms;"))
    #expect(try await ask(scene, port).text == "ok")
    try await daemon.logged("spans could not be sent to https://127.0.0.1")
    #expect(collector.answers.isEmpty)
    daemon.process.stop()
    unlink(scene.path("sallyport.pid"))
    daemon = try await Sallyport.start(scene, text("trusted_certificate ca.pem; interval 1h;"))
    #expect(try await ask(scene, port).text == "ok")
    daemon.signal(SIGQUIT)
    _ = try await daemon.process.ended(within: .seconds(20))
    #expect(collector.spans.count == 1)
  }
}
