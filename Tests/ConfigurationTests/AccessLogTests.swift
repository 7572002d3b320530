import Testing

@testable import Configuration

@Suite struct AccessLogTests {
  private func problems(_ line: String) -> [String] {
    LoadedText("events {}\nhttp {\n\(line)\nserver { listen 1; return 204; } }").problems
  }

  @Test func `buffer= and flush= are taken, and what happens instead is said`() {
    let what = "sallyport always buffers 64k or one second of lines"
    #expect(
      problems("access_log a.log combined buffer=32k flush=5s;") == [
        "3:27 notice: \"buffer=32k\" is taken and has no effect: \(what)",
        "3:38 notice: \"flush=5s\" is taken and has no effect: \(what)",
      ])
  }

  @Test func `the journal takes no access log`() {
    #expect(
      problems("access_log journal;") == [
        "3:12 an access log can't go to the journal | a file, stderr or syslog:server=unix:/dev/log"
      ])
  }

  @Test func `every destination that the table offers for access_log is taken`() throws {
    let entry = try #require(DirectiveTable.entries(named: "access_log").first)
    let usage = entry.form.usage
    #expect(!usage.contains("journal"))
    for offered in ["stderr", "off"] {
      #expect(usage.contains(offered))
      #expect(problems("access_log \(offered);").isEmpty)
    }
  }
}
