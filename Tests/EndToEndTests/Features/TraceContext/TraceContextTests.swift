import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `Trace context` {
  private static let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

  private func ask(_ scene: Scene, _ port: UInt16, _ path: String, _ fields: [String]) async throws -> String {
    try await scene.curl(fields.flatMap { ["-H", $0] } + ["http://127.0.0.1:\(port)\(path)"]).text.lowercased()
  }

  private func lines(_ text: String, _ name: String) -> [String] {
    text.split(whereSeparator: \.isNewline).map(String.init).filter { $0.hasPrefix("\(name):") }
      .map { String($0.dropFirst(name.count + 1).drop { $0 == " " }) }.filter { !$0.isEmpty }
  }

  @Test func `a client's trace is continued, begun anew, or left alone, as trace_context says`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port(), upstream = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      log_format trace "trace=$trace_id span=$span_id field=$traceparent state=$tracestate";
      access_log trace.log trace;
      server { listen 127.0.0.1:\(upstream); access_log off;
        location / { return 200 "traceparent: $http_traceparent\\ntracestate: $http_tracestate\\n"; } }
      server { listen 127.0.0.1:\(port); server_name a;
        location /off { proxy_pass http://127.0.0.1:\(upstream); }
        location /on { trace_context on; proxy_pass http://127.0.0.1:\(upstream); }
        location /restart { trace_context restart; proxy_pass http://127.0.0.1:\(upstream); }
        location /own { trace_context on; proxy_set_header traceparent mine; proxy_pass http://127.0.0.1:\(upstream); }
      }
      """)
    let client = ["traceparent: \(Self.given)", "tracestate: a=1"]

    let off = try await ask(scene, port, "/off", client)
    #expect(lines(off, "traceparent") == [Self.given])
    #expect(lines(off, "tracestate") == ["a=1"])
    #expect(lines(try await ask(scene, port, "/off", []), "traceparent").isEmpty)

    let on = try await ask(scene, port, "/on", client)
    let passed = try #require(lines(on, "traceparent").first)
    #expect(lines(on, "traceparent").count == 1)
    #expect(passed.hasPrefix("00-4bf92f3577b34da6a3ce929d0e0e4736-") && passed.hasSuffix("-01"))
    #expect(passed != Self.given)
    #expect(lines(on, "tracestate") == ["a=1"])
    let span = passed.split(separator: "-")[2]
    try await until("the line") {
      scene.text("trace.log").contains(
        "trace=4bf92f3577b34da6a3ce929d0e0e4736 span=\(span) field=\(passed) state=a=1\n")
    }

    // An invalid one, and two of them, are replaced; nothing of theirs goes on.
    for fields in [["traceparent: 00-xyz", "tracestate: a=1"], client + ["traceparent: \(Self.given)"], []] {
      let made = try await ask(scene, port, "/on", fields)
      #expect(lines(made, "traceparent").count == 1)
      #expect(lines(made, "traceparent").first?.wholeMatch(of: /00-[0-9a-f]{32}-[0-9a-f]{16}-01/) != nil)
      #expect(!made.contains("4bf92f35") && lines(made, "tracestate").isEmpty)
    }

    let restarted = try await ask(scene, port, "/restart", client)
    #expect(lines(restarted, "traceparent").count == 1)
    #expect(!restarted.contains("4bf92f35") && lines(restarted, "tracestate").isEmpty)
    let again = try await ask(scene, port, "/restart", client)
    #expect(lines(again, "traceparent") != lines(restarted, "traceparent"))

    #expect(lines(try await ask(scene, port, "/own", client), "traceparent") == ["mine"])
    _ = daemon
  }
}
