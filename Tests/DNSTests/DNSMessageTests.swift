import TestSupport
import Testing
import Transport

@testable import DNS

@Suite struct `A message of a DNS server` {
  private let name = DNSName("www.example.com")
  private func wire(_ text: String) -> [UInt8] { (DNSName(text)?.wire ?? []) + [0] }
  private func two(_ value: Int) -> [UInt8] { [UInt8(value >> 8 & 255), UInt8(value & 255)] }

  private func record(_ owner: [UInt8], _ type: Int, _ data: [UInt8], ttl: Int = 60, form: Int = 1) -> [UInt8] {
    owner + two(type) + two(form) + two(ttl >> 16) + two(ttl) + two(data.count) + data
  }

  private func message(
    _ records: [[UInt8]], flags: Int = 0x8180, question: String = "www.example.com", type: Int = 1, count: Int? = nil
  ) -> [UInt8] {
    two(7) + two(flags) + two(1) + two(count ?? records.count) + two(0) + two(0) + wire(question) + two(type) + two(1)
      + records.flatMap { $0 }
  }

  private func read(_ bytes: [UInt8], _ type: DNSMessage.RecordType = .ipv4) throws -> DNSMessage.Answer {
    DNSMessage.answer(in: bytes, about: try #require(name), type)
  }

  /// The question's name, which stands at byte 12.
  private let same: [UInt8] = [0xC0, 12]

  private func addresses(_ answer: DNSMessage.Answer) -> [String] {
    if case .records(let records) = answer { records.addresses.map(\.host) } else { [] }
  }

  @Test func `gives the addresses of the name in their order, and the least TTL`() throws {
    let bytes = message([
      record(same, 1, [192, 0, 2, 1], ttl: 300), record(wire("WWW.Example.COM"), 1, [192, 0, 2, 2], ttl: 30),
      record(same, 28, [UInt8](repeating: 1, count: 16)), record(same, 1, [192, 0, 2, 3], form: 3),
    ])
    #expect(
      try read(bytes)
        == .records(
          DNSRecords(
            addresses: [
              .ipv4(address: 0xC000_0201, port: 0), .ipv4(address: 0xC000_0202, port: 0),
            ], ttl: 30)))
    let six = message([record(same, 28, [0x20, 1] + [UInt8](repeating: 0, count: 13) + [9])], type: 28)
    #expect(addresses(try read(six, .ipv6)) == ["2001::9"])
  }

  @Test func `follows the aliases of the name, in any order, and takes no record of another name`() throws {
    let bytes = message([
      record(wire("b.example.com"), 1, [192, 0, 2, 1]), record(wire("a.example.com"), 5, wire("b.example.com"), ttl: 9),
      record(same, 5, wire("a.example.com")), record(wire("evil.test"), 1, [192, 0, 2, 66]),
      record(same, 1, [192, 0, 2, 67]),
    ])
    let answer = try read(bytes)
    #expect(addresses(answer) == ["192.0.2.1"])
    guard case .records(let records) = answer else { return }
    #expect(records.ttl == 9)
    let open = message([record(same, 5, wire("else.test"), ttl: 5), record(wire("evil.test"), 1, [192, 0, 2, 66])])
    #expect(try read(open) == .alias(try #require(DNSName("else.test")), ttl: 5))
  }

  @Test func `with aliases in a circle, or too many in a row, is malformed`() throws {
    let circle = message([
      record(same, 5, wire("a.test")), record(wire("a.test"), 5, wire("b.test")),
      record(wire("b.test"), 5, wire("a.test")),
    ])
    #expect(try read(circle) == .failure(.malformed))
    let own = message([record(same, 5, same)])
    #expect(try read(own) == .failure(.malformed))
    func chain(_ count: Int) -> [UInt8] {
      var (records, owner) = ([[UInt8]](), wire("www.example.com"))
      for number in 0..<count {
        records.append(record(owner, 5, wire("n\(number).test")))
        owner = wire("n\(number).test")
      }
      return message(records + [record(owner, 1, [192, 0, 2, 1])])
    }
    #expect(addresses(try read(chain(DNSMessage.aliasLimit))) == ["192.0.2.1"])
    #expect(try read(chain(DNSMessage.aliasLimit + 1)) == .failure(.malformed))
  }

  @Test func `gives services with port and target, and leaves out those that are none`() throws {
    func service(_ priority: Int, _ weight: Int, _ port: Int, _ target: [UInt8]) -> [UInt8] {
      record(same, 33, two(priority) + two(weight) + two(port) + target)
    }
    let bytes = message(
      [
        service(10, 5, 8080, wire("A.test")), service(1, 0, 81, [0]), service(1, 0, 0, wire("b.test")),
        service(20, 1, 82, [1, 0x2F, 0]), service(0, 65_535, 65_535, [1, 0x63] + same),
      ], type: 33)
    guard case .records(let records) = try read(bytes, .service) else {
      Issue.record("no records")
      return
    }
    #expect(
      records.services.map { "\($0.priority) \($0.weight) \($0.port) \($0.target)" } == [
        "10 5 8080 a.test", "0 65535 65535 c.www.example.com",
      ])
    #expect(try read(message([service(1, 1, 1, wire("a.test") + [0])], type: 33), .service) == .failure(.malformed))
  }

  @Test func `gives at most so many records`() throws {
    let many = (0..<1000).map { record(same, 1, [10, 0, UInt8($0 >> 8), UInt8($0 & 255)]) }
    #expect(addresses(try read(message(many))).count == DNSMessage.recordLimit)
  }

  @Test func `says why there are no records`() throws {
    #expect(try read(message([])) == .failure(.notFound))
    #expect(try read(message([], flags: 0x8183)) == .failure(.notFound))
    #expect(try read(message([], flags: 0x8182)) == .failure(.refusal(code: 2)))
    #expect(try read(message([record(same, 1, [1, 2, 3, 4])], flags: 0x8185)) == .failure(.refusal(code: 5)))
    #expect("\(DNSFailure.notFound)" == "3: Host not found")
    #expect("\(DNSFailure.refusal(code: 2))" == "2: Server failure")
    #expect("\(DNSFailure.timedOut)" == "110: Operation timed out")
    #expect("\(DNSFailure.malformed)" == "1: Format error")
  }

  @Test func `that isn't the answer to the question, or is cut anywhere, is malformed`() throws {
    let whole = message([
      record(same, 5, wire("a.example.com")), record(wire("a.example.com"), 1, [192, 0, 2, 1]),
    ])
    #expect(addresses(try read(whole)) == ["192.0.2.1"])
    for length in whole.indices { #expect(try read(Array(whole[..<length])) == .failure(.malformed), "\(length)") }
    let faults: [[UInt8]] = [
      message([], flags: 0x0180), message([], question: "evil.test"), message([], type: 28), message([], count: 1),
      message([record(same, 1, [1, 2, 3])]), message([record(same, 5, same + [0])]),
      message([record([0xC0, 200], 1, [])]),
      message([record([0xC0, 33], 1, [1, 2, 3, 4])]), message([record([0x40, 1], 1, [1, 2, 3, 4])]),
      message([record([UInt8](repeating: 1, count: 300), 1, [1, 2, 3, 4])]),
    ]
    for (index, bytes) in faults.enumerated() { #expect(try read(bytes) == .failure(.malformed), "\(index)") }
  }

  @Test func `with a TTL that is no number of seconds counts for none`() throws {
    guard case .records(let records) = try read(message([record(same, 1, [1, 2, 3, 4], ttl: 0x8000_0000)])) else {
      Issue.record("no records")
      return
    }
    #expect(records.ttl == 0)
    var policy = DNSPolicy()
    #expect(policy.seconds(of: .success(records)) == 1)
    #expect(policy.seconds(of: .success(DNSRecords(ttl: .max))) == 86_400)
    #expect(policy.seconds(of: .failure(.notFound)) == 5)
    policy.valid = 7
    #expect(policy.seconds(of: .success(records)) == 7)
    #expect(policy.seconds(of: .failure(.timedOut)) == 1)
  }

  @Test func `of any bytes is read without harm`() throws {
    let whole = message([record(same, 5, wire("a.test")), record(wire("a.test"), 1, [1, 2, 3, 4])])
    var generator = SystemRandomNumberGenerator()
    for _ in 0..<20_000 {
      var bytes = whole
      for _ in 0..<Int.random(in: 1...6, using: &generator) {
        bytes[Int.random(in: bytes.indices, using: &generator)] = .random(in: 0...255, using: &generator)
      }
      for type in [DNSMessage.RecordType.ipv4, .ipv6, .service] { _ = try read(bytes, type) }
    }
    for input in FuzzInput.all(of: "FuzzDNSMessage") { _ = try read(input.bytes) }
  }
}

@Suite struct `A name for a question` {
  @Test func `has letters, digits, hyphens and underscores in labels`() {
    #expect(DNSName("WWW.Example.com.")?.text == "www.example.com")
    #expect(DNSName("_http._tcp.a-b.test")?.text == "_http._tcp.a-b.test")
    #expect(DNSName("a.test")?.prefixed("_x._tcp")?.text == "_x._tcp.a.test")
    let long = String(repeating: "a", count: 63)
    #expect(DNSName("\(long).b") != nil)
    #expect(DNSName([long, long, long, String(repeating: "a", count: 61)].joined(separator: ".")) != nil)
    for text in [
      "", ".", "..", "a..b", ".a", "a b", "a\nb", "a\\.b", "a\\032", "ä", "a/b", "a:1", "a\0b", "*.a", "\(long)a",
      [long, long, long, String(repeating: "a", count: 62)].joined(separator: "."),
    ] {
      #expect(DNSName(text) == nil, "\(text)")
    }
  }
}
