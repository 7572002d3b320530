import Observability
import Testing

private enum Colour: String, CaseIterable { case red, green, none = "" }

@Suite struct `The exposition of metrics` {
  @Test func `a sample's labels are escaped`() {
    var page = PrometheusText()
    page.family("a_total", .counter, "What it is.")
    page.sample("a_total", ["who": "CN=\"x\\y\"\nb", "side": "client"], 3)
    page.sample("a_total", [:], -1)
    #expect(
      page.text == """
        # HELP a_total What it is.
        # TYPE a_total counter
        a_total{who="CN=\\"x\\\\y\\"\\nb",side="client"} 3
        a_total -1

        """)
  }

  @Test func `a tally tells every label, those that never came too`() {
    let tally = Counter<Colour>()
    tally.count(.green)
    tally.count(.green)
    tally.count(.none)
    var page = PrometheusText()
    page.tally("c_total", "Colours.", label: "colour", [tally, Counter()])
    #expect(page.text.hasSuffix("c_total{colour=\"red\"} 0\nc_total{colour=\"green\"} 2\n"))
  }
}
