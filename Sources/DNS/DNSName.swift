/// A host name as a question to a DNS server can have it: without the root's dot, letters in lower case.
///
/// Only letters, digits, `-`, `_` and `.`, so that what a client brings can neither hold an escape of c-ares nor a
/// line break for the log. Labels have 1 to 63 bytes, and the name at most 253 (RFC 1035 §2.3.4).
public struct DNSName: Sendable, Hashable, CustomStringConvertible {
  public let text: String
  public var description: String { text }

  public init?(_ name: some StringProtocol) {
    var bytes = Array(name.utf8)
    if bytes.last == UInt8(ascii: ".") { bytes.removeLast() }
    self.init(ofLabels: bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false))
  }

  init?(ofLabels labels: some Collection<some Collection<UInt8>>) {
    var bytes: [UInt8] = []
    for label in labels {
      guard (1...63).contains(label.count), label.allSatisfy(Self.isAllowed) else { return nil }
      if !bytes.isEmpty { bytes.append(UInt8(ascii: ".")) }
      bytes += label.map(Self.lower)
    }
    guard (1...253).contains(bytes.count) else { return nil }
    text = String(decoding: bytes, as: UTF8.self)
  }

  /// The name with labels before it: `_http._tcp` before `example.com`; nil if it is then too long, or no name.
  public func prefixed(_ labels: String) -> DNSName? { DNSName("\(labels).\(text)") }

  /// The name as a message has it, without the root's byte.
  var wire: [UInt8] {
    text.utf8.split(separator: UInt8(ascii: ".")).reduce(into: []) { bytes, label in
      bytes.append(UInt8(truncatingIfNeeded: label.count))
      bytes += label
    }
  }

  static func lower(_ byte: UInt8) -> UInt8 {
    byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
  }

  private static func isAllowed(_ byte: UInt8) -> Bool {
    switch lower(byte) {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
      UInt8(ascii: "_"):
      true
    default: false
    }
  }
}
