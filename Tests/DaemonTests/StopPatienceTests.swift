import Testing

@testable import Daemon

@Suite struct `How long a stop may take` {
  @Test(arguments: [
    ("20", 20_000), ("1", 1000), ("86400", 86_400_000), ("0", 0), ("-1", 0), ("86401", 0), ("", 0), ("20s", 0),
    ("99999999999999999999", 0),
  ])
  func `a text that is no number of seconds sets no bound`(text: String, milliseconds: Int) {
    #expect(StopPatience.parsed(text) == milliseconds)
  }
}
