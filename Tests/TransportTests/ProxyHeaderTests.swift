import TestSupport
import Testing

@testable import Transport

@Suite struct ProxyHeaderTests {
  private enum Read: Equatable {
    case incomplete
    case broken(String)
    case none(Int)
    case header(String, String, Int)
  }

  private static func read(_ bytes: [UInt8]) -> Read {
    switch bytes.withUnsafeBytes({ ProxyHeaderParser.parse($0) }) {
    case .incomplete: .incomplete
    case .broken(let fault): .broken(fault.description)
    case .header(nil, let length): .none(length)
    case .header(let header?, let length):
      .header(header.source.description, header.destination.description, length)
    }
  }

  private static func read(_ text: String) -> Read { read(Array(text.utf8)) }

  /// Version 2 with a command, a family and contents.
  private static func version2(_ content: [UInt8]) -> [UInt8] { version2(0x21, 0x11, content) }

  private static func version2(_ command: UInt8, _ family: UInt8, _ content: [UInt8]) -> [UInt8] {
    [
      13, 10, 13, 10, 0, 13, 10, 0x51, 0x55, 0x49, 0x54, 10, command, family, UInt8(content.count >> 8),
      UInt8(content.count & 255),
    ] + content
  }

  private static let four: [UInt8] = [192, 0, 2, 1, 198, 51, 100, 7, 0x1F, 0x90, 1, 0xBB]
  private static func tlv(_ type: UInt8, _ value: [UInt8]) -> [UInt8] {
    [type, UInt8(value.count >> 8), UInt8(value.count & 255)] + value
  }

  @Test func `a header of version 1 is read up to its line end, and no further`() {
    #expect(
      Self.read("PROXY TCP4 192.0.2.1 198.51.100.7 8080 443\r\nGET /")
        == .header("192.0.2.1:8080", "198.51.100.7:443", 44))
    #expect(
      Self.read("PROXY TCP6 2001:db8::1 ::1 65535 0\r\n") == .header("[2001:db8::1]:65535", "[::1]:0", 36))
    #expect(Self.read("PROXY UNKNOWN\r\nGET") == .none(15))
    #expect(Self.read("PROXY UNKNOWN ff:: x 1 2\r\r\n") == .none(27))
  }

  @Test func `every beginning of a header is incomplete`() {
    let headers = [
      Array("PROXY TCP4 192.0.2.1 198.51.100.7 8080 443\r\n".utf8), Array("PROXY TCP6 ::1 ::2 1 2\r\n".utf8),
      Array("PROXY UNKNOWN a b\r\n".utf8), Self.version2(Self.four + Self.tlv(1, [1, 2])),
    ]
    for header in headers {
      for count in 0..<header.count { #expect(Self.read(Array(header[..<count])) == .incomplete) }
      #expect(Self.read(header) != .incomplete)
    }
  }

  @Test(arguments: [
    "GET / HTTP/1.1\r\n", "PROXYTCP4", "PROXY TCP5 ", "PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n", "proxy ",
    "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n", "PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n",
    "PROXY TCP4 1.2.3.4 1.2.3.4 -1 2\r\n", "PROXY TCP4 1.2.3.4 1.2.3.4  2\r\n", "PROXY TCP4  1.2.3.4 1.2.3.4 1 2\r\n",
    "PROXY TCP4 ::1 ::1 1 2\r\n", "PROXY TCP6 1.2.3.4 ::1 1 2\r\n", "PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n",
    "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\0", "PROXY TCP4 1.2.3.4\0 1.2.3.4 1 2\r\n",
    "PROXY UNKNOWNX\r\n", "PROXY UNKNOWN " + String(repeating: "x", count: 100),
    "PROXY TCP6 " + String(repeating: "1", count: 60),
    // Others read a leading zero as octal, and the specification permits none.
    "PROXY TCP4 010.1.1.1 1.2.3.4 1 2\r\n", "PROXY TCP4 1.2.3.4 1.2.3.04 1 2\r\n",
    "PROXY TCP4 1.2.3.00 1.2.3.4 1 2\r\n", "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
    "PROXY TCP6 ::1 ::1 1 00\r\n",
  ])
  func `what is no header of version 1 is broken`(text: String) {
    guard case .broken(let reason) = Self.read(text) else {
      Issue.record("\(text): \(Self.read(text))")
      return
    }
    #expect(reason.hasPrefix("broken header: \""))
  }

  @Test func `the line of a broken header is told without its control characters`() {
    #expect(Self.read("G\u{1B}\"\r\nx") == .broken(#"broken header: "G\x1B\x22""#))
  }

  @Test func `a header of version 2 is read with its TLVs`() throws {
    let inner = [7, 0, 0, 0, 1] + Self.tlv(0x21, Array("TLSv1.3".utf8)) + Self.tlv(0x22, Array("alice".utf8))
    let bytes = Self.version2(Self.four + Self.tlv(1, Array("h2".utf8)) + Self.tlv(0x20, inner) + Self.tlv(0xEA, []))
    guard case .header(let header?, bytes.count) = (bytes + [9]).withUnsafeBytes({ ProxyHeaderParser.parse($0) }) else {
      Issue.record("no header")
      return
    }
    func value(_ name: String) throws -> String? {
      header.value(of: try #require(ProxyTLV(name: name))).map { String(decoding: $0, as: UTF8.self) }
    }
    #expect(header.source.description == "192.0.2.1:8080")
    #expect(try value("alpn") == "h2")
    #expect(try value("0x01") == "h2")
    #expect(try value("0x1") == "h2" && value("0x00001") == "h2" && value("ssl_0x0021") == "TLSv1.3")
    #expect(try value("0xea")?.isEmpty == true)
    #expect(try value("authority") == nil)
    #expect(try value("ssl_cn") == "alice")
    #expect(try value("ssl_0x21") == "TLSv1.3")
    #expect(try value("ssl_verify") == "1")
    #expect(try value("ssl_cipher") == nil)
    for name in ["", "x", "0x", "0x123", "0x+1", "0xg", "ssl_", "ssl_alpn", "cn"] {
      #expect(ProxyTLV(name: name) == nil)
    }
  }

  @Test func `a header of version 2 that names no client of TCP is taken whole`() {
    #expect(Self.read(Self.version2(0x20, 0x00, []) + [1]) == .none(16))
    #expect(Self.read(Self.version2(0x20, 0x11, [1, 2, 3])) == .none(19))
    #expect(Self.read(Self.version2(0x21, 0x31, [UInt8](repeating: 0, count: 216))) == .none(232))
    let six = [UInt8](repeating: 0, count: 15) + [1] + [UInt8](repeating: 0, count: 15) + [2, 0, 1, 0, 2]
    #expect(Self.read(Self.version2(0x21, 0x21, six)) == .header("[::1]:1", "[::2]:2", 52))
  }

  @Test(arguments: [0x12, 0x22, 0x32, 0x41, 0x13, 0x01, 0xFF] as [UInt8])
  func `datagrams, and a family or transport that the specification reserves, are broken`(family: UInt8) {
    guard case .broken = Self.read(Self.version2(0x21, family, Self.four)) else {
      Issue.record("\(Self.read(Self.version2(0x21, family, Self.four)))")
      return
    }
  }

  @Test func `a header of version 2 with a fault is broken`() {
    #expect(Self.read(Self.version2(0x11, 0x11, Self.four)) == .broken("unknown PROXY protocol version: 1"))
    #expect(
      Self.read(Array(Self.version2([]).dropLast(2)) + [0x0F, 0xF1]) == .broken("header is too large"))
    #expect(Self.read(Array(Self.version2([]).dropLast(2)) + [0x0F, 0xF0]) == .incomplete)
    for bytes in [
      Self.version2(0x22, 0x11, Self.four), Self.version2(Array(Self.four.dropLast())),
      Self.version2(0x21, 0x21, Self.four), Self.version2(Self.four + [1]), Self.version2(Self.four + [1, 0, 1]),
      Self.version2(Self.four + [1, 255, 255, 1]), [13, 10, 13, 10, 0, 13, 10, 0x51, 0x55, 0x49, 0x54, 11],
    ] {
      #expect(Self.read(bytes) == .broken("broken header: \"\""))
    }
  }

  /// A length that leads past the header, past its own TLV or past that around it is never read.
  @Test func `CVE-2026-47692: a TLV that is longer than what holds it is no part of a header`() {
    let name = Self.tlv(0x22, Array("alice".utf8))
    for (length, isRead) in [(0, false), (1, false), (5, true), (6, false), (7, false), (255, false), (65535, false)] {
      // Within PP2_TYPE_SSL, where the list around it is whole: then the name isn't there.
      let inner = [1, 0, 0, 0, 0, 0x22, UInt8(length >> 8), UInt8(length & 255)] + Array("alice".utf8)
      let bytes = Self.version2(Self.four + Self.tlv(0x20, inner))
      guard case .header(let header?, bytes.count) = bytes.withUnsafeBytes({ ProxyHeaderParser.parse($0) }) else {
        if case .broken = Self.read(bytes) { continue }
        Issue.record("\(length)")
        continue
      }
      let found = ProxyTLV(name: "ssl_cn").flatMap { header.value(of: $0) }.map { Array($0) }
      #expect(found == (isRead ? Array("alice".utf8) : length < 5 ? found : nil), "\(length)")
      #expect((found?.count ?? 0) <= 5)
    }
    for length in [6, 7, 255, 4000, 65535] {
      let torn = [0x22, UInt8(length >> 8), UInt8(length & 255)] + Array("alice".utf8)
      #expect(Self.read(Self.version2(Self.four + torn)) == .broken("broken header: \"\""), "\(length)")
      #expect(Self.read(Self.version2(Self.four + name + torn)) == .broken("broken header: \"\""), "\(length)")
    }
    // What follows the header is the client's, whatever a TLV's length says.
    let whole = Self.version2(Self.four + Self.tlv(1, []))
    #expect(
      Self.read(whole + Array("GET / HTTP/1.1".utf8)) == .header("192.0.2.1:8080", "198.51.100.7:443", whole.count))
  }

  @Test func `a checksum is a value like others, and any is taken`() throws {
    for sum in [Array("4321".utf8), [0, 0, 0, 0], [1, 2, 3], []] {
      let bytes = Self.version2(Self.four + Self.tlv(3, sum))
      guard case .header(let header?, bytes.count) = bytes.withUnsafeBytes({ ProxyHeaderParser.parse($0) }) else {
        Issue.record("\(sum)")
        continue
      }
      #expect(header.value(of: try #require(ProxyTLV(name: "0x3"))) == sum)
    }
  }

  @Test func `headers once fuzzed are bounded, and cut in any place they are incomplete or broken alike`() {
    let inputs = FuzzInput.all(of: "FuzzProxyProtocol")
    #expect(inputs.count > 5)
    for input in inputs {
      switch Self.read(input.bytes) {
      case .none(let length), .header(_, _, let length):
        #expect(length <= min(input.bytes.count, ProxyHeaderParser.most))
        #expect(Self.read(Array(input.bytes.prefix(length))) == Self.read(input.bytes))
      case .incomplete: #expect(input.bytes.count < ProxyHeaderParser.most)
      case .broken: break
      }
    }
  }
}
