import Testing

@testable import Conversion

@Suite struct `ghostunnel's command line` {
  private func lines(_ words: [String]) -> [String] {
    GhostunnelConversion.convert(arguments: words).text.split(separator: "\n").map { String($0.drop { $0 == " " }) }
  }

  @Test func `words of a file are those of a shell`() throws {
    let text = "# a comment\nExecStart=/usr/bin/ghostunnel server --a 'b c' \\\n  --d=\"e\\\"f\" g\\ h\n"
    let words = try CommandLineText.words(text, file: "f", program: "ghostunnel")
    #expect(words.map(\.text) == ["server", "--a", "b c", "--d=e\"f", "g h"])
    #expect(words.map(\.number) == [2, 2, 2, 3, 3])
  }

  @Test func `only the line that starts the program is read`() throws {
    let text = """
      [Unit]
      # ghostunnel server, as a comment
      Description=Ghostunnel server
      SyslogIdentifier=ghostunnel
      ExecStart=/usr/bin/ghostunnel server --listen=:1 \\
        --target=localhost:2
      Restart=always
      """
    let words = try CommandLineText.words(text, file: "f", program: "ghostunnel")
    #expect(words.map(\.text) == ["server", "--listen=:1", "--target=localhost:2"])
    #expect(words.map(\.number) == [5, 5, 6])
    let background = try CommandLineText.words("./ghostunnel client --a b &\nnext", file: "f", program: "ghostunnel")
    #expect(background.map(\.text) == ["client", "--a", "b"])
  }

  @Test(arguments: ["a & b", "a | b", "a; b", "a 'b", "a > b", "a `b`"]) func `nothing else of a shell's is taken`(
    text: String
  ) {
    #expect(throws: CommandLineText.Fault.self) { try CommandLineText.words(text, file: "f", program: "ghostunnel") }
    #expect(!GhostunnelConversion.convert(text, file: "f").hasServers)
  }

  @Test func `a pattern is an expression that matches no more`() {
    #expect(GhostunnelPattern.expression("spiffe://x/*/a.b") == "spiffe://x/[^/]+/a\\.b/?")
    #expect(GhostunnelPattern.expression("spiffe://x/**") == "spiffe://x(?:/.*)?")
    #expect(GhostunnelPattern.expression("**") == nil)
    #expect(GhostunnelPattern.expression("a/**/b") == nil)
  }

  @Test(arguments: [("10s", 10_000), ("1h30m", 5_400_000), ("300ms", 300), ("0", 0)])
  func `times are Go's`(text: String, milliseconds: Int) {
    #expect(GhostunnelDuration.milliseconds(text) == milliseconds)
  }

  @Test(arguments: ["", "10", "s", "1x", "99999999999999s", "-1s"]) func `others are no times`(text: String) {
    #expect(GhostunnelDuration.milliseconds(text) == nil)
  }

  @Test func `a server of all addresses listens on both families, as Go does`() {
    let found = lines([
      "server", "--listen=:1", "--target=localhost:2", "--cert=c", "--key=k", "--cacert=a", "--allow-all",
    ])
    #expect(found.filter { $0.hasPrefix("listen") } == ["listen 1 ssl;", "listen [::]:1 ssl;"])
  }

  @Test func `what ghostunnel refuses itself has no server`() {
    #expect(
      !lines(["server", "--listen=:1", "--target=10.0.0.1:2", "--cert=c", "--key=k", "--cacert=a", "--allow-all"])
        .contains { $0.hasPrefix("proxy_pass") })
    #expect(
      !lines(["client", "--listen=0.0.0.0:1", "--target=a:2", "--cert=c", "--key=k"]).contains {
        $0.hasPrefix("proxy_pass")
      })
  }

  @Test(arguments: [
    ("http://proxy.test:3128", "proxy_via http://proxy.test:3128;"),
    ("http://proxy.test/", "proxy_via http://proxy.test:8080;"),
    ("http://[::1]:1", "proxy_via http://[::1]:1;"),
  ]) func `a proxy of HTTP stays on the way`(url: String, line: String) {
    let found = lines([
      "client", "--listen=127.0.0.1:1", "--target=a:2", "--cert=c", "--key=k", "--cacert=a", "--proxy=\(url)",
    ])
    #expect(found.contains(line) && found.contains { $0.hasPrefix("proxy_pass") }, "\(found)")
  }

  @Test(arguments: ["https://proxy.test:1", "socks5://proxy.test:1", "http://al:secret@proxy.test:1", "proxy.test:1"])
  func `no other proxy can be had, and nothing goes past it`(url: String) {
    #expect(
      !lines(["client", "--listen=127.0.0.1:1", "--target=a:2", "--cert=c", "--key=k", "--cacert=a", "--proxy=\(url)"])
        .contains { $0.hasPrefix("proxy_pass") })
  }
}
