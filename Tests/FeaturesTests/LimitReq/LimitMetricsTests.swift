@testable import Features
@testable import Forward
import Glibc
import Observability
import Testing
@testable import Traffic

@Suite struct `What limits tell` {
  private func snapshot(_ rig: Rig) -> MetricsSnapshot {
    MetricsSnapshot(rig.worker.metrics, rig.worker.shared, rig.live.generation, RuntimeOverrides())
  }

  private func samples(_ rig: Rig, _ family: String) -> [String] {
    MetricsPage.text(snapshot(rig)).split(separator: "\n").map(String.init).filter { $0.hasPrefix(family) }
  }

  @Test func `each zone has its verdicts, and a refusal counts as limited instead of as a server's error`() throws {
    let rig = try Rig(
      """
      limit_req_zone $arg_k zone=slow:1m rate=1r/m; limit_conn_zone $arg_k zone=count:1m;
      server { listen 80; limit_req zone=slow; limit_conn count 5; location / { empty_gif; }
        location = /m { metrics; } }
      """)
    let get = "GET /?k=a HTTP/1.1\r\nHost: a\r\n\r\n"
    #expect(try rig.answer(get).hasPrefix("HTTP/1.1 200 "))
    #expect(try rig.answer(get).hasPrefix("HTTP/1.1 503 "))
    #expect(
      samples(rig, "sallyport_limit_req_requests_total") == [
        "sallyport_limit_req_requests_total{zone=\"slow\",result=\"passed\"} 1",
        "sallyport_limit_req_requests_total{zone=\"slow\",result=\"delayed\"} 0",
        "sallyport_limit_req_requests_total{zone=\"slow\",result=\"rejected\"} 1",
        "sallyport_limit_req_requests_total{zone=\"slow\",result=\"delayed_dry_run\"} 0",
        "sallyport_limit_req_requests_total{zone=\"slow\",result=\"rejected_dry_run\"} 0",
      ])
    #expect(
      samples(rig, "sallyport_limit_conn_requests_total") == [
        "sallyport_limit_conn_requests_total{zone=\"count\",result=\"passed\"} 1",
        "sallyport_limit_conn_requests_total{zone=\"count\",result=\"rejected\"} 0",
        "sallyport_limit_conn_requests_total{zone=\"count\",result=\"rejected_dry_run\"} 0",
      ])
    let totals = try #require(snapshot(rig).servers.first?.totals)
    #expect(totals.limited == 1 && totals.serverErrors == 0)
    let page = StatusHTML.page(snapshot(rig))
    #expect(page.contains("<h2>Limits</h2>") && page.contains(">requests</td>") && page.contains(">Limited</th>"))
    #expect(StatusJSON.text(snapshot(rig)).contains(#"{"zone":"slow","limit":"requests","passed":1,"#))
  }

  @Test
  func `a zone that refuses a large share of requests is told of, with its key and the address that most are from`()
    throws
  {
    let rig = try Rig(
      """
      limit_req_zone $arg_k zone=slow:1m rate=1r/m; limit_conn_zone $arg_k zone=count:1m;
      server { listen 80; limit_req zone=slow; location / { empty_gif; } }
      """)
    func problems() -> [StatusProblem] { rig.worker.shared.problems(rig.live.generation, at: Int64(time(nil))) }
    for key in ["a", "b"] {
      for _ in 0..<10 { _ = try rig.answer("GET /?k=\(key) HTTP/1.1\r\nHost: a\r\n\r\n") }
    }
    // 18 refusals are what a limit is for.
    #expect(problems().isEmpty)
    for _ in 0..<2 { _ = try rig.answer("GET /?k=a HTTP/1.1\r\nHost: a\r\n\r\n") }
    let problem = try #require(problems().first)
    #expect(problem.severity == .warning && problems().count == 1)
    #expect(
      problem.text.hasPrefix("limit_req zone \"slow\", which counts by $arg_k, has refused 20 of 2")
        && problem.text.contains("requests (9") && problem.text.contains(", at least 20 of them from "), "\(problem)")
    #expect(rig.worker.shared.refusals(rig.live.generation, at: Int64(time(nil))) == [problem.text])
  }

  @Test func `a page that takes the place of a limit's refusal counts by its own status`() throws {
    let rig = try Rig(
      """
      limit_req_zone $arg_k zone=slow:1m rate=1r/m;
      server { listen 80; error_page 503 = /busy; location / { limit_req zone=slow; empty_gif; }
        location = /busy { return 500; } location = /m { metrics; } }
      """)
    let get = "GET /?k=a HTTP/1.1\r\nHost: a\r\n\r\n"
    _ = try rig.answer(get)
    #expect(try rig.answer(get).hasPrefix("HTTP/1.1 500 "))
    #expect(snapshot(rig).servers.first?.totals.serverErrors == 1)
    #expect(snapshot(rig).servers.first?.totals.limited == 0)
  }

  @Test func `without zones there is neither a family nor a table`() throws {
    let rig = try Rig("server { listen 80; location / { return 204; } }")
    #expect(samples(rig, "sallyport_limit_").isEmpty)
    #expect(!StatusHTML.page(snapshot(rig)).contains("<h2>Limits</h2>"))
  }

  @Test func `of two zones, only the one that decides the delay counts it, and no count ever falls`() throws {
    let rig = try Rig(
      """
      limit_req_zone $arg_k zone=fast:1m rate=100r/s; limit_req_zone $arg_k zone=slow:1m rate=1r/m;
      server { listen 80; limit_req zone=fast burst=9; limit_req zone=slow burst=9; limit_req_dry_run on;
        location / { empty_gif; } }
      """)
    for _ in 0..<3 { _ = try rig.answer("GET /?k=a HTTP/1.1\r\nHost: a\r\n\r\n") }
    let counts = Dictionary(
      LimitZoneCounts.all(snapshot(rig)).map { ($0.name, $0.counts) }, uniquingKeysWith: { one, _ in one })
    #expect(counts["slow"]?[.passed] == 1 && counts["slow"]?[.delayedDryRun] == 2)
    #expect(counts["fast"]?[.passed] == 3 && counts["fast"]?[.delayedDryRun] == 0)
  }
}
