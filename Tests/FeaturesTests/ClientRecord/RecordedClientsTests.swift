import Bytes
import Crypto
import TestSupport
import Testing

@testable import Features

@Suite struct `A record of clients` {
  private let alice: [UInt8] = [1, 2, 3], bob: [UInt8] = [4, 5]

  private func record(_ visits: [([UInt8], RecordedVisit)], at listener: String = "0.0.0.0:443") -> RecordedClients {
    var record = RecordedClients()
    for (der, visit) in visits {
      let chain = [record.add(certificate: der)]
      record.add(visit, of: .init(chain: chain, listener: listener, name: "a.test", isStream: false))
    }
    return record
  }

  private func visit(_ moment: Int64, _ verdict: RecordedVerdict = .verified, isResumed: Bool = false) -> RecordedVisit
  {
    var visit = RecordedVisit(at: moment, verdict)
    visit.count(at: moment, verdict, reason: verdict.isLetIn ? "" : "it \"is\" refused", isResumed: isResumed)
    return visit
  }

  @Test func `what is written is what is read`() throws {
    var full = visit(100)
    full.server = "a.test"
    full.handshake.version = "TLSv1.2"
    full.handshake.cipher = "ECDHE-ECDSA-AES256-GCM-SHA384"
    full.handshake.group = "X25519"
    full.handshake.groups = "X25519:prime256v1"
    full.handshake.signatures = "ed25519"
    full.handshake.ciphers = "ECDHE-ECDSA-AES256-GCM-SHA384"
    var record = record([(alice, full), (bob, visit(50, .refused, isResumed: true))])
    let relayed = RecordedVisit.Key(
      chain: [record.add(certificate: alice)], listener: "0.0.0.0:443", name: "a.test", isStream: false,
      front: "CN=lb")
    record.add(visit(60), of: relayed)
    #expect(try RecordedClients(reading: record.text) == record && record.visits.count == 3)
    #expect(record.chains == 2)
    let key = try #require(record.visits.keys.first { record.visits[$0]?.verdict == .refused })
    #expect(record.visits[key]?.reason == "it \"is\" refused" && record.visits[key]?.resumed == 1)
    #expect(record.chain(key) == [bob])
  }

  @Test func `lines about one visit add up, and the last one says how the client is`() throws {
    let (early, late) = (record([(alice, visit(100))]), record([(alice, visit(200, .refused))]))
    for (one, other) in [(early, late), (late, early)] {
      let text = one.text + other.text.drop { $0 != 0x0A }.dropFirst()
      let read = try RecordedClients(reading: Array(text))
      var sum = one
      sum.add(other)
      #expect(read == sum && read.visits.count == 1)
      let visit = try #require(read.visits.values.first)
      #expect((visit.first, visit.last, visit.admitted, visit.refused) == (100, 200, 1, 1))
      #expect(visit.verdict == .refused && visit.count == 2)
    }
  }

  @Test func `records of two machines join`() {
    var one = record([(alice, visit(1))], at: "10.0.0.1:443")
    one.add(record([(alice, visit(2)), (bob, visit(3))], at: "10.0.0.2:443"))
    #expect(one.visits.count == 3 && one.certificates.count == 2 && one.chains == 2)
  }

  @Test func `a last line without its end is passed over, wherever it is cut`() throws {
    let record = record([(alice, visit(1))]), text = record.text
    let lines = text.split(separator: 0x0A, omittingEmptySubsequences: false)
    for end in lines[0].count + 1..<text.count {
      let read = try RecordedClients(reading: Array(text[..<end]))
      #expect(read.visits.isEmpty)
    }
    #expect(throws: ClientRecordError.foreign) { try RecordedClients(reading: Array(text[..<lines[0].count])) }
    #expect(throws: ClientRecordError.foreign) { try RecordedClients(reading: []) }
  }

  @Test(
    arguments: [
      ("not JSON", "it is no JSON"), ("[]", "it is no JSON object"), (#"{"certificate":"?"}"#, "no certificate"),
      (#"{"certificate":""}"#, "no certificate"), (#"{"chain":[]}"#, "no list of 1 to 64"),
      (#"{"chain":["AAAA"]}"#, "names a certificate that no line before it has"),
    ])
  func `a line that is none of a record is named by its number`(line: String, reason: String) {
    let text = RecordedClients.firstLine + "{}\n" + line + "\n"
    do throws(ClientRecordError) {
      _ = try RecordedClients(reading: Array(text.utf8))
      Issue.record("\(line) was taken")
    } catch {
      #expect("\(error)".hasPrefix("line 3: ") && "\(error)".contains(reason))
    }
  }

  @Test(
    arguments: [
      (#""verdict":"verified""#, #""verdict":"fine""#, "is none of verified, pinned"),
      (#""first":7"#, #""first":-1"#, "\"first\" is no whole number"),
      (#""last":7"#, #""last":6"#, "\"last\" is before \"first\""),
      (#""listener":"0.0.0.0:443""#, #""listener":7"#, "\"listener\" is no text"),
    ])
  func `a visit with a wrong member is refused`(right: String, wrong: String, reason: String) throws {
    let text = String(decoding: record([(alice, visit(7))]).text, as: UTF8.self)
    try #require(text.contains(right))
    do throws(ClientRecordError) {
      _ = try RecordedClients(reading: Array(text.replacing(right, with: wrong).utf8))
      Issue.record("\(wrong) was taken")
    } catch {
      #expect("\(error)".contains(reason))
    }
  }

  @Test func `a later version is named, and what this version does not know is passed over`() throws {
    #expect(throws: ClientRecordError.later(version: 2)) {
      try RecordedClients(reading: Array("{\"sallyport_clients\":2}\n".utf8))
    }
    for text in ["{\"sallyport_clients\":0}\n", "{\"sallyport_clients\":\"1\"}\n", "{}\n", "\n", "{\"version\":1}\n"] {
      #expect(throws: ClientRecordError.foreign) { try RecordedClients(reading: Array(text.utf8)) }
    }
    let record = record([(alice, visit(1))])
    let text = String(decoding: record.text, as: UTF8.self)
    let later = text.replacing("\"listener\"", with: "\"mood\":[1,{\"a\":null}],\"listener\"") + "{\"future\":true}\n"
    #expect(try RecordedClients(reading: Array(later.utf8)) == record)
  }

  @Test func `who has not come for long is forgotten, with the certificates that nobody else has`() {
    var record = record([(alice, visit(10)), (bob, visit(20))])
    record.prune(before: 15, limit: 10)
    #expect(record.visits.count == 1 && Array(record.certificates.values) == [bob])
  }

  @Test func `at the limit, strangers go first, and then who came longest ago`() {
    var record = record(
      (0..<40).map { index in ([UInt8(index)], visit(Int64(index), index % 2 == 0 ? .verified : .refused)) })
    record.prune(before: 0, limit: 16)
    let kept = record.visits.values
    #expect(record.chains == 16)
    #expect(kept.filter { !$0.verdict.isLetIn }.map(\.last).sorted() == [37, 39])
    #expect(kept.filter { $0.verdict.isLetIn }.map(\.last).min() == 12)
  }

  @Test(arguments: FuzzInput.all(of: "FuzzClientRecord")) func `inputs of the fuzzer are read or refused`(
    input: FuzzInput
  ) throws {
    guard let record = try? RecordedClients(reading: input.bytes) else { return }
    #expect(try RecordedClients(reading: record.text) == record)
  }
}
