import TestSupport
import Testing

@testable import Transport

@Suite struct ForwardedAddressTests {
  private static func address(_ text: String) -> SocketAddress? {
    Array(text.utf8).withUnsafeBytes { SocketAddress(forwarded: $0) }
  }

  @Test(arguments: [
    ("192.0.2.1", "192.0.2.1:0"), ("192.0.2.1:80", "192.0.2.1:80"), ("2001:db8::1", "[2001:db8::1]:0"),
    ("[2001:db8::1]:443", "[2001:db8::1]:443"), ("::ffff:10.0.0.1", "[::ffff:10.0.0.1]:0"),
    ("010.0.0.1", "10.0.0.1:0"), ("255.255.255.255", "255.255.255.255:0"), ("0.0.0.0:65535", "0.0.0.0:65535"),
  ])
  func `an address is read as proxies write it`(text: String, address: String) {
    #expect(Self.address(text)?.description == address)
  }

  @Test(
    arguments: [
      "", "unknown", "_hidden", "1.2.3", "1.2.3.4.5", "1..2.3", "...", ".1.2.3", "1.2.3.", "256.1.1.1", "1.2.3.4:",
      "1.2.3.4:0", "1.2.3.4:65536", "1.2.3.4:-1", "1.2.3.4:8x", "1.2.3.4:000080", "[::1]", "[::1", "[::1]:", "[::1]80",
      "[1.2.3.4]", "::1%lo", ":::", ":", "::1\0", "1.2.3.4\0", " 1.2.3.4", "unix:", "99999999999999999999.1.1.1",
      String(repeating: "1", count: 100_000), String(repeating: ":", count: 64),
    ].map { LongText($0) })
  func `any other text is no address`(argument: LongText) {
    #expect(Self.address(argument.text) == nil)
  }

  @Test func `a mapped address is the one of IPv4 that it stands for`() {
    #expect(Self.address("::ffff:10.0.0.1")?.unmapped == .ipv4(address: 0x0A00_0001, port: 0))
    #expect(Self.address("::fffe:10.0.0.1")?.unmapped == Self.address("::fffe:10.0.0.1"))
  }
}
