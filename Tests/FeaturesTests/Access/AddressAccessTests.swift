import ConfigurationSupport
@testable import Features
@testable import Forward
import Observability
import Testing
@testable import Traffic
import Transport

@Suite struct `Rules on addresses` {
  private func rule(_ allows: Bool, _ source: AccessRule.Source) -> AccessRule {
    AccessRule(allows: allows, source: source, location: .init(file: "", line: 0, column: 0))
  }

  @Test func `the first rule that matches an address decides`() {
    let rules = [
      rule(false, .ipv4(network: 0x0A00_0001, mask: .max)), rule(true, .ipv4(network: 0x0A00_0000, mask: 0xFF00_0000)),
      rule(true, .ipv6(high: 0x2001_0db8_0000_0000, low: 0, prefixLength: 32)), rule(true, .unix), rule(false, .all),
    ]
    func allowed(_ peer: SocketAddress) -> Bool { rules.first(for: peer)?.allows ?? true }
    #expect(!allowed(.ipv4(address: 0x0A00_0001, port: 1)))
    #expect(allowed(.ipv4(address: 0x0A00_0002, port: 1)))
    #expect(!allowed(.ipv4(address: 0x0B00_0002, port: 1)))
    #expect(allowed(.ipv6(high: 0x2001_0db8_ffff_0000, low: 9, port: 1)))
    #expect(!allowed(.ipv6(high: 0x2001_0db9_0000_0000, low: 0, port: 1)))
    // An IPv4 client, as a dual-stack socket reports its address.
    #expect(allowed(.ipv6(high: 0, low: 0xFFFF_0A00_0002, port: 1)))
    #expect(!allowed(.ipv6(high: 0, low: 0xFFFF_0A00_0001, port: 1)))
    #expect(allowed(.unix(path: "/s")))
    #expect([AccessRule]().first(for: .unix(path: "")) == nil)
  }

  @Test(
    arguments: [
      // As nginx: rules of IPv6 count for an IPv4 client of a dual-stack socket only where none is of IPv4.
      ("deny ::/0;", false), ("allow ::/0; deny all;", false), ("allow ::/1; deny all;", false),
      ("deny ::/0; allow 10.0.0.0/8;", true), ("allow ::ffff:10.0.0.0/104; deny all;", true),
      ("deny ::ffff:10.0.0.1;", false), ("allow 2001:db8::/32;", nil), ("deny 10.0.0.1; allow all;", false),
    ] as [(String, Bool?)])
  func `an IPv4 client is the same on a dual-stack socket`(lines: String, allowed: Bool?) {
    let rules =
      LoadedText.server("location / { \(lines) return 204; }")
      .settings?.http.servers.first?.root.locations.first?[Access.self]?.rules ?? []
    #expect(!rules.isEmpty)
    let mapped = SocketAddress.ipv6(high: 0, low: 0xFFFF_0A00_0001, port: 1)
    #expect(rules.first(for: mapped)?.allows == allowed)
    if rules.contains(where: \.source.hasIPv4) {
      #expect(rules.first(for: mapped.unmapped)?.allows == allowed)
    }
  }

  @Test func `a network of IPv6 addresses makes no IPv4 client trusted`() {
    let mapped = SocketAddress.ipv6(high: 0, low: 0xFFFF_0A00_0001, port: 1)
    #expect(!AccessRule.Source.ipv6(high: 0, low: 0, prefixLength: 0).contains(mapped))
    #expect(AccessRule.Source.ipv4(network: 0x0A00_0001, mask: .max).contains(mapped))
    #expect(AddressRange.parse("::ffff:10.0.0.0/104")?.range == AddressRange.parse("10.0.0.0/8")?.range)
    #expect(AddressRange.parse("::ffff:0:0/95")?.range.isIPv4 == false)
    #expect(mapped.party == "10.0.0.1")
  }

  @Test func `allow and deny keep their order and are masked`() {
    let rules = LoadedText.server(
      "location / { deny 192.168.1.0/24; allow 2001:db8::/33; allow unix:; deny all; return 204; }"
    )
    .settings?.http.servers.first?.root.locations.first?[Access.self]?.rules
    #expect(rules?.map(\.allows) == [false, true, true, false])
    #expect(
      rules?.map(\.source) == [
        .ipv4(network: 0xC0A8_0100, mask: 0xFFFF_FF00), .ipv6(high: 0x2001_0DB8_0000_0000, low: 0, prefixLength: 33),
        .unix, .all,
      ])
    #expect(
      LoadedText.server("location / { deny 10.0.0.1/8; proxy_pass http://127.0.0.1; }").problems == [
        "2:19 warning: low address bits of \"10.0.0.1/8\" are meaningless | write the network's address"
      ])
    #expect(
      LoadedText.server("location / { deny example.com; proxy_pass http://127.0.0.1; }").problems == [
        "2:19 invalid parameter \"example.com\" | an IP address, ADDRESS/BITS, unix: or all; no names"
      ])
    #expect(LoadedText.server("location / { deny 10.0.0.0/33; return 204; }").errors.count == 1)
  }
}
