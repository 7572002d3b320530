import ConfigurationSupport
@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `Shares of clients` {
  @Test func `a client's share is that of MurmurHash2`() {
    for (text, hash) in MurmurVectors.all { #expect(MurmurHash2.hash(Array(text.utf8)) == hash, "\(text)") }
  }

  @Test(arguments: [
    ("split_clients $uri $s { 50% a; 50.01% b; }", "2:32 percent total is greater than 100% | "),
    ("split_clients $uri $s { 0% a; }", "2:25 invalid percent value \"0%\" | "),
    ("split_clients $uri $s { 1.234% a; }", "2:25 invalid percent value \"1.234%\" | "),
    ("split_clients $uri $s { 5 a; }", "2:25 invalid percent value \"5\" | "),
  ])
  func `a computed variable that can't be is told at its place`(lines: String, problem: String) {
    let problems = LoadedText.http(lines).errors
    #expect(problems.contains { $0.hasPrefix(problem) }, "\(problems)")
  }

  @Test(arguments: [("50% a; * b;", "b"), ("50% a;", ""), ("0.01% x; 49.99% a; 50% b;", "b")])
  func `a client has the share that its hash is in, or none`(shares: String, other: String) throws {
    let http = try #require(LoadedText.http("split_clients $arg_a $s { \(shares) }").settings?.http)
    guard let split = http.computed.values.first?.settings as? SplitSettings else {
      Issue.record("no split_clients")
      return
    }
    for (text, hash) in MurmurVectors.all where hash > 1 << 20 {
      let value = String(decoding: split.value(of: Array(text.utf8)), as: UTF8.self)
      #expect(value == (hash < 0x7FFF_FFFF ? "a" : other), "\(text)")
    }
  }
}
