import Testing

@testable import DNS

@Suite struct `Counts of questions to DNS servers` {
  @Test func `have a name of nginx Plus for each kind and result`() throws {
    let name = try #require(DNSName("a.test"))
    let counts = DNSCounts()
    counts.note(DNSQuestion(name, .addresses))
    for _ in 0..<2 { counts.note(DNSQuestion(name, .services)) }
    #expect(counts.totals[.name] == 1 && counts.totals[.srv] == 2)
    let results: [(DNSResult, DNSTotals.Response)] = [
      (.success(DNSRecords()), .noerror), (.failure(.refusal(code: 1)), .formerr),
      (.failure(.refusal(code: 2)), .servfail), (.failure(.notFound), .nxdomain),
      (.failure(.refusal(code: 4)), .notimp), (.failure(.refusal(code: 5)), .refused),
      (.failure(.refusal(code: 9)), .unknown), (.failure(.malformed), .unknown), (.failure(.invalidName), .unknown),
      (.failure(.timedOut), .timedout),
    ]
    for (result, response) in results {
      let before = counts.totals[response]
      counts.note(result)
      #expect(counts.totals[response] == before + 1, "\(result)")
    }
  }
}
