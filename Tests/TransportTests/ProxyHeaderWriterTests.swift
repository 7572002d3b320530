import TestSupport
import Testing

@testable import Transport

/// The headers that sallyport writes, as its own parser reads them.
@Suite struct ProxyHeaderWriterTests {
  private typealias Extension = ProxyHeaderWriter.Extension

  private static func parsed(_ bytes: [UInt8], followed: [UInt8] = Array("GET /".utf8)) throws -> ProxyHeader? {
    switch (bytes + followed).withUnsafeBytes({ ProxyHeaderParser.parse($0) }) {
    case .header(let header, let length):
      #expect(length == bytes.count)
      return header
    case .incomplete, .broken:
      Issue.record("\(bytes)")
      return nil
    }
  }

  private static func four(_ generator: inout SystemRandomNumberGenerator) -> SocketAddress {
    .ipv4(address: .random(in: 0 ... .max, using: &generator), port: .random(in: 0 ... .max, using: &generator))
  }

  private static func six(_ generator: inout SystemRandomNumberGenerator) -> SocketAddress {
    .ipv6(
      high: .random(in: 0 ... .max, using: &generator), low: .random(in: 0 ... .max, using: &generator),
      port: .random(in: 0 ... .max, using: &generator))
  }

  @Test func `addresses come back as they were written, in both versions`() throws {
    var random = SystemRandomNumberGenerator()
    for round in 0..<400 {
      let isFour = round % 2 == 0
      let source = isFour ? Self.four(&random) : Self.six(&random)
      let destination = isFour ? Self.four(&random) : Self.six(&random)
      let first = try Self.parsed(ProxyHeaderWriter.version1(source: source, destination: destination))
      #expect(first?.source == source && first?.destination == destination)
      let second = try Self.parsed(ProxyHeaderWriter.version2(source: source, destination: destination, tls: nil))
      #expect(second?.source == source && second?.destination == destination)
      #expect(ProxyHeaderWriter.version1(source: source, destination: destination).count <= 107)
    }
  }

  @Test func `addresses of two families become those of one`() throws {
    let four = try #require(SocketAddress(literal: "192.0.2.1", port: 80))
    let six = try #require(SocketAddress(literal: "2001:db8::1", port: 443))
    #expect(
      ProxyHeaderWriter.version1(source: four, destination: six)
        == Array("PROXY TCP6 ::ffff:192.0.2.1 2001:db8::1 80 443\r\n".utf8))
    #expect(
      ProxyHeaderWriter.version1(source: six, destination: four)
        == Array("PROXY TCP6 2001:db8::1 ::ffff:192.0.2.1 443 80\r\n".utf8))
    #expect(
      ProxyHeaderWriter.version1(source: four, destination: .unix(path: "/s"))
        == Array("PROXY TCP4 192.0.2.1 0.0.0.0 80 0\r\n".utf8))
    #expect(
      ProxyHeaderWriter.version1(source: six, destination: nil) == Array("PROXY TCP6 2001:db8::1 :: 443 0\r\n".utf8))
    let header = try Self.parsed(ProxyHeaderWriter.version2(source: four, destination: six, tls: nil))
    #expect(header?.source.unmapped == four && header?.destination == six)
  }

  @Test func `a client on a unix socket has no address, and isn't the proxy itself`() throws {
    let unix = SocketAddress.unix(path: "/s")
    #expect(ProxyHeaderWriter.version1(source: unix, destination: unix) == Array("PROXY UNKNOWN\r\n".utf8))
    let second = ProxyHeaderWriter.version2(source: unix, destination: unix, tls: nil)
    #expect(second.count == 16 && second[12] == 0x21 && second[13] == 0)
    #expect(try Self.parsed(second) == nil)
    #expect(try Self.parsed(ProxyHeaderWriter.ownVersion1) == nil)
    #expect(try Self.parsed(ProxyHeaderWriter.ownVersion2) == nil)
    #expect(ProxyHeaderWriter.ownVersion2[12] == 0x20)
  }

  @Test func `what TLS knows comes back, and an unverified client is told as one`() throws {
    let source = SocketAddress.ipv4(address: 1, port: 2)
    func header(_ proof: ProxyHeaderWriter.ClientSecurity.Proof) throws -> ProxyHeader {
      let tls = ProxyHeaderWriter.ClientSecurity(
        proof: proof, details: [Extension(0x21, Array("TLSv1.3".utf8)), Extension(0x22, Array("alice".utf8))])
      let bytes = ProxyHeaderWriter.version2(
        source: source, destination: source, tls: tls, extensions: [Extension(0xE0, [1, 2, 3])])
      return try #require(try Self.parsed(bytes))
    }
    let verified = try header(.verified(isOfSession: false))
    #expect(verified.value(of: .verification) == Array("0".utf8))
    #expect(verified.value(of: .inner(0x22)) == Array("alice".utf8))
    #expect(verified.value(of: .outer(0xE0)) == [1, 2, 3])
    #expect(verified.value(of: .outer(0x20))?.first == 0x07)
    #expect(try header(.verified(isOfSession: true)).value(of: .outer(0x20))?.first == 0x05)
    let unverified = try header(.unverified)
    #expect(unverified.value(of: .verification) == Array("1".utf8))
    #expect(unverified.value(of: .outer(0x20))?.first == 0x01)
  }

  @Test func `a header never passes what a receiver takes, and what doesn't fit is left out whole`() throws {
    let source = SocketAddress.ipv6(high: 1, low: 2, port: 3)
    for count in [0, 1, 4000, 4020, 4038, 4041, 4042, 4080, 65_535, 70_000] {
      let extensions = [Extension(0xE1, Array(repeating: 7, count: count)), Extension(0xE0, [9])]
      let bytes = ProxyHeaderWriter.version2(source: source, destination: source, tls: nil, extensions: extensions)
      #expect(bytes.count <= ProxyHeaderParser.most)
      let header = try #require(try Self.parsed(bytes))
      let fits = 16 + 36 + 3 + count <= ProxyHeaderParser.most
      #expect(header.value(of: .outer(0xE1))?.count == (fits ? count : nil), "\(count)")
      if count != 4041, count != 4038 { #expect(header.value(of: .outer(0xE0)) == [9], "\(count)") }
    }
  }
}
