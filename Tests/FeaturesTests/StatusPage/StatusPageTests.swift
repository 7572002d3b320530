import Crypto
@testable import Features
@testable import Forward
import Observability
import Testing
@testable import Traffic

@Suite struct `The status page over time` {
  private func snapshot(_ rig: Rig) -> MetricsSnapshot {
    MetricsSnapshot(rig.worker.metrics, rig.worker.shared, rig.live.generation, RuntimeOverrides())
  }

  private func rig() throws -> Rig {
    // Servers are counted where a location shows what was counted.
    try Rig(
      """
      server { listen 80; server_name a; location / { return 204; } location /x { return 500; }
        location = /m { metrics; } }
      """)
  }

  @Test func `begins with the host and the configuration, in which nothing can be markup`() throws {
    let rig = try rig()
    rig.worker.metrics.process.take(configuration: "/etc/<b>.conf")
    var snapshot = snapshot(rig)
    snapshot.host = "edge<1>"
    let page = StatusHTML.page(snapshot)
    #expect(page.contains("<title>edge&lt;1&gt;: sallyport status</title>") && page.contains("<h1>edge&lt;1&gt;</h1>"))
    #expect(page.contains("/etc/&lt;b&gt;.conf"))
    #expect(StatusJSON.text(snapshot).contains(#""host":"edge<1>","configuration":"/etc/<b>.conf""#))
  }

  @Test func `tells the last error with its age and number`() throws {
    var snapshot = snapshot(try rig())
    #expect(!StatusHTML.page(snapshot).contains("Last error"))
    let errors = RecentErrors()
    errors.note(.error, "first", at: 1)
    errors.note(.error, "a <script> failed", at: snapshot.now - 180)
    snapshot.lastError = errors.last
    let page = StatusHTML.page(snapshot)
    #expect(page.contains("<b>Last error</b>, 3 minutes ago") && page.contains("<code>a &lt;script&gt; failed</code>"))
    #expect(StatusJSON.text(snapshot).contains(#""text":"a <script> failed","lines_since_start":2"#))
  }

  @Test func `has rates, a line, and a marked share of server errors, which a timer of the process has followed`()
    throws
  {
    let rig = try rig(), metrics = rig.worker.metrics
    metrics.follow(at: 1000)
    for _ in 0..<9 { _ = try rig.answer("GET / HTTP/1.1\r\nHost: a\r\n\r\n") }
    _ = try rig.answer("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
    // Not due, so it changes nothing.
    metrics.follow(at: 1005)
    let early = StatusHTML.page(snapshot(rig))
    #expect(early.contains(">–</td>") && !early.contains("marked\""))
    metrics.follow(at: 1020)
    let page = StatusHTML.page(snapshot(rig))
    #expect(page.contains("data-n=\"1 min\">30/min</td>") && page.contains("data-n=\"10 min\">30/min</td>"))
    #expect(page.contains("class=\"n marked\" data-n=\"5xx, 10 min\">10 %</td>"))
    metrics.follow(at: 1040)
    #expect(StatusHTML.page(snapshot(rig)).contains("<polyline points=\"0.0,1.0 100.0,19.0 \"/>"))
    #expect(
      StatusJSON.text(snapshot(rig)).contains(
        #""recent":[{"seconds":40,"count":10,"errors":1},{"seconds":40,"count":10,"errors":1}],"per_minute":[30,0]"#))
  }

  @Test func `rates and shares are words that round nothing to zero`() {
    #expect(StatusWords.rate(perMinute: 0) == "0/min" && StatusWords.rate(perMinute: 599) == "599/min")
    #expect(StatusWords.rate(perMinute: 600) == "10/s" && StatusWords.rate(perMinute: 120_000) == "2\u{202F}000/s")
    #expect(
      StatusWords.share(0) == "0 %" && StatusWords.share(0.00001) == "0.1 %" && StatusWords.share(0.123) == "12 %")
    #expect(StatusWords.share(0.0521) == "5.3 %" && StatusWords.share(1) == "100 %")
  }

  @Test func `the policy of the page has the style sheet that the page has, and allows nothing from elsewhere`() throws
  {
    let page = StatusHTML.page(snapshot(try rig()))
    #expect(page.contains("<style>\(StatusHTML.style)</style>"))
    #expect(StatusHTML.policy.hasPrefix("default-src 'none'; style-src 'sha256-"))
    #expect(!page.contains("<script") && !page.contains(" style=") && !page.contains("src="))
  }
}
