@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `What came of the requests for a revocation list` {
  @Test func `a failure is trouble without a list, and the third one with a list`() {
    let record = ProcessRecord(), url = "http://ca.test/a.crl"
    record.keepFetches(of: [url])
    #expect(record.troubles(at: 1000).isEmpty)
    record.didFetch(url, .failed, "no route", listEnd: nil)
    #expect(
      record.troubles(at: 1000).map(\.words) == [
        "The revocation list \(url) is not there, so clients of its CA are refused; 1 request failed: no route"
      ])
    #expect(record.troubles(at: 1000).allSatisfy { !$0.isServing })
    record.didFetch(url, .taken, listEnd: 2000)
    #expect(record.troubles(at: 1999).isEmpty)
    for _ in 0..<2 { record.didFetch(url, .failed, "status 500", listEnd: 2000) }
    #expect(record.troubles(at: 1999).isEmpty)
    #expect(record.troubles(at: 2000).first?.words.contains("has ended, so clients of its CA are refused") ?? false)
    record.didFetch(url, .failed, "status 500", listEnd: 2000)
    #expect(
      record.troubles(at: 1999).map(\.words) == [
        "The revocation list \(url) could not be fetched again, 3 requests failed: status 500"
      ])
    record.didFetch(url, .unchanged, listEnd: 2000)
    #expect(record.troubles(at: 1999).isEmpty)
  }
}
