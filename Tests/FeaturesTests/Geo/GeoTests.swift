import ConfigurationSupport
@testable import Features
@testable import Forward
import Testing
@testable import Traffic
import Transport

@Suite struct `A variable by address` {
  @Test func `the smallest network decides, and ends of the address space are addresses too`() throws {
    let networks = ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.255.255", "255.255.255.255"]
    let table = GeoTable(
      try networks.enumerated().map { (try #require(AddressRange.parse($0.element)).range, $0.offset) })
    for (address, index) in [
      ("0.0.0.0", 0), ("9.255.255.255", 0), ("10.0.0.0", 1), ("10.1.0.0", 2), ("10.1.255.254", 2), ("10.1.255.255", 3),
      ("10.2.0.0", 1), ("11.0.0.0", 0), ("255.255.255.254", 0), ("255.255.255.255", 4),
    ] {
      let number = try #require(SocketAddress(literal: address, port: 0).flatMap { AddressRange.number($0) })
      #expect(table.find(number) == index, "\(address)")
    }
    let all = try #require(AddressRange.parse("::/0")).range
    #expect(GeoTable([(all, 0)]).find(.max) == 0 && GeoTable([(all, 0)]).find(0) == 0 && GeoTable([]).find(7) == nil)
    #expect(!all.contains(try #require(AddressRange.number(.ipv4(address: 1, port: 0)))))
    for text in ["", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "::/129", "a", "10.0.0.0/8/8", "1.2.3.4/0x8"] {
      #expect(AddressRange.parse(text) == nil, "\(text)")
    }
    #expect(AddressRange.parse("10.0.0.1/8")?.isExact == false && AddressRange.parse("::/0")?.isExact == true)
  }

  @Test(arguments: [
    ("geo $g { 10.0.0.0/40 a; }", "2:10 invalid network \"10.0.0.0/40\" | "),
    ("geo $g { ranges; 10.0.0.9-10.0.0.1 a; }", "2:18 invalid range \"10.0.0.9-10.0.0.1\" | "),
    ("geo $g { 10.0.0.0/8 a; ranges; }", "2:24 the \"ranges\" directive must be the first directive"),
    ("geo $g { proxy x; }", "2:16 invalid network \"x\" | "),
  ])
  func `a computed variable that can't be is told at its place`(lines: String, problem: String) {
    let problems = LoadedText.http(lines).errors
    #expect(problems.contains { $0.hasPrefix(problem) }, "\(problems)")
  }
}
