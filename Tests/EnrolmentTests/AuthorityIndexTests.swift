import Crypto
import Enrolment
import Testing

@Suite struct `The index of an authority` {
  private static let text = """
    V\t271121093000Z\t\t0A0B\tunknown\t/CN=alice
    R\t271121093000Z\t261122080000Z,keyCompromise\t7F00\tunknown\t/C=SE/CN=bob
    E\t20500101000000Z\t\t01\tunknown\t/CN=J\\xC3\\xB6rg

    """

  private func parse(_ text: String) throws -> AuthorityIndex {
    try Array(text.utf8).withUnsafeBytes { try AuthorityIndex(parsing: $0) }
  }

  private func fault(_ text: String) -> String {
    do {
      _ = try parse(text)
      return "none"
    } catch {
      return "\(error)"
    }
  }

  @Test func `what openssl ca wrote is read, and written as it stood`() throws {
    let index = try parse("# a comment\n\n" + Self.text)
    #expect(index.text == Self.text)
    #expect(index.entries.map(\.serial) == ["0A0B", "7F00", "01"])
    #expect(index.entries.map(\.notAfter) == [1_826_789_400, 1_826_789_400, 2_524_608_000])
    #expect(index.revoked.map(\.serial) == ["7F00"])
    #expect(index.revoked.map(\.reason) == [.keyCompromise])
    #expect(index.revoked.map(\.date) == [1_795_334_400])
  }

  @Test(arguments: [
    ("V\t271121093000Z\t\t01\tunknown", "line 3: 5 fields; expected 6"),
    ("X\t271121093000Z\t\t01\tunknown\t/CN=a", "line 3: \"X\" is no state"),
    ("V\t271121093000Z\t261122080000Z\t01\tunknown\t/CN=a", "line 3: a certificate that is not revoked"),
    ("R\t271121093000Z\t\t01\tunknown\t/CN=a", "line 3: a revoked certificate without the date"),
    (
      "R\t271121093000Z\t261122080000Z,because\t01\tunknown\t/CN=a",
      "line 3: \"261122080000Z,because\" is no revocation"
    ),
    ("V\t270231093000Z\t\t01\tunknown\t/CN=a", "line 3: \"270231093000Z\" is no time"),
    ("V\t2711210930Z\t\t01\tunknown\t/CN=a", "line 3: \"2711210930Z\" is no time"),
    ("V\t271121093000Z\t\t0a\tunknown\t/CN=a", "line 3: \"0a\" is no serial"),
    ("V\t271121093000Z\t\t123\tunknown\t/CN=a", "line 3: \"123\" is no serial"),
    ("V\t271121093000Z\t\t\tunknown\t/CN=a", "line 3: \"\" is no serial"),
    ("V\t271121093000Z\t\t7F00\tunknown\t/CN=a", "line 3: serial 7F00 is in an earlier line already"),
    ("V\t271121093000Z\t\t01\tunknown\t/CN=a\r", "line 3: a control character"),
  ])
  func `a faulty line is named with its number`(line: String, reason: String) {
    let before = "V\t271121093000Z\t\t0A0B\tunknown\t/CN=a\nV\t271121093000Z\t\t7F00\tunknown\t/CN=a\n"
    #expect(fault(before + line + "\n").hasPrefix(reason))
  }

  @Test func `a line has a bound`() {
    let name = String(repeating: "a", count: AuthorityIndex.lineLimit)
    #expect(fault("V\t271121093000Z\t\t01\tunknown\t/CN=\(name)\n") == "line 1: longer than 8192 bytes")
  }

  @Test func `no serial stands there twice, and no revocation is overwritten`() throws {
    var index = try parse(Self.text)
    let isAdded = index.add(index.entries[0])
    let isRevoked = ["0A0B", "0A0B", "FF"].enumerated().map { place, serial in
      index.revoke(serial, AuthorityIndex.Revocation(date: 1_795_334_400 + Int64(place)))
    }
    #expect(!isAdded && isRevoked == [true, false, false])
    #expect(index.text.hasPrefix("R\t271121093000Z\t261122080000Z\t0A0B\t"))
  }
}
