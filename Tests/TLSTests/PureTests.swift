@testable import TLS
import Testing

@Suite struct `Names and versions` {
  private func extensionBytes(_ name: [UInt8]) -> [UInt8] {
    let count = name.count
    return [UInt8((count + 3) >> 8), UInt8((count + 3) & 255), 0, UInt8(count >> 8), UInt8(count & 255)] + name
  }

  private func parse(_ bytes: [UInt8]) -> String? {
    bytes.withUnsafeBufferPointer { ServerNameExtension.parse($0) }.map { String(decoding: $0, as: UTF8.self) }
  }

  @Test func `a server name is read lower-case and without its last dot`() {
    #expect(parse(extensionBytes(Array("WWW.Example.ORG.".utf8))) == "www.example.org")
  }

  @Test(
    arguments: [
      [], [0, 0], [0, 5, 0, 0, 0], [0, 4, 1, 0, 1, 0x61], [0, 4, 0, 0, 2, 0x61], [0, 9, 0, 0, 1, 0x61],
      [0, 8, 0, 0, 1, 0x61, 0, 0, 1, 0x62],
    ] as [[UInt8]])
  func `a malformed server_name extension is no name`(bytes: [UInt8]) {
    #expect(parse(bytes) == nil)
  }

  @Test(arguments: ["a b", "a/b", "a\u{0}b", "a\u{7F}", "é", ""])
  func `a name of bytes that no host has is none`(name: String) {
    #expect(parse(extensionBytes(Array(name.utf8))) == nil)
  }

  @Test func `a version that is left out between two others is forbidden, not skipped`() throws {
    let range = try #require(VersionRange([.tls10, .tls12]))
    let whole = try #require(VersionRange([.tls10, .tls11, .tls12, .tls13]))
    #expect(range.lowest == whole.lowest && range.highest < whole.highest)
    #expect(whole.holes == 0 && range.holes != 0)
    #expect(VersionRange([]) == nil)
  }
}
