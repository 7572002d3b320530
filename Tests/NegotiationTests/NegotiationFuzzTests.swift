import TestSupport
import Testing

@testable import Negotiation

/// What the fuzzer starts from and what it once found, read again by every test run.
@Suite struct `Fuzzed negotiations` {
  @Test(arguments: FuzzInput.all(of: "FuzzNegotiation"))
  func `end in the same way whether their bytes come at once or one by one`(input: FuzzInput) {
    guard let choice = input.bytes.first else { return }
    let kind = NegotiatedProtocol.allCases[Int(choice >> 2) % NegotiatedProtocol.allCases.count]
    switch choice & 3 {
    case 0:
      let whole = Talk(client: kind).hearing(input.text)
      guard whole.reason != ClientNegotiation.injection else { return }
      let pieces = Talk(client: kind).hearing(input.text, size: 1)
      #expect(whole.said == pieces.said && whole.next == pieces.next)
    case 1, 2:
      let goal: UpstreamNegotiation.Goal = choice & 3 == 1 ? .tls : .greetingOnly
      let whole = Talk(upstream: kind, goal).hearing(input.text)
      guard whole.reason != UpstreamNegotiation.injection, whole.reason != UpstreamNegotiation.earlyAnswer else {
        return
      }
      let pieces = Talk(upstream: kind, goal).hearing(input.text, size: 1)
      // A question is no longer sent when the same input ends the connection.
      #expect(whole.said == pieces.said || whole.reason != nil && pieces.said.starts(with: whole.said))
      #expect(whole.next == pieces.next && whole.machine.greeting == pieces.machine.greeting)
    default:
      let whole = `A ClientHello that is only looked at`.read(input.text)
      for count in input.text.indices {
        let part = `A ClientHello that is only looked at`.read(Array(input.text[..<count]))
        #expect(part == .incomplete || part == whole)
      }
    }
  }

  @Test func `a hello of OpenSSL is read`() {
    for (name, version): (String, UInt16) in [("hello-openssl", 0x0304), ("hello-openssl-1.2", 0x0303)] {
      let input = FuzzInput.all(of: "FuzzNegotiation").first { $0.name == "Corpus/\(name)" }
      let facts = ClientHelloFacts(
        serverName: Array("www.example.com".utf8), protocols: [Array("h2".utf8), Array("http/1.1".utf8)],
        version: version)
      #expect(input.map { `A ClientHello that is only looked at`.read($0.text) } == .hello(facts))
    }
  }

  @Test func `there is something to replay`() { #expect(FuzzInput.all(of: "FuzzNegotiation").count > 11) }
}
