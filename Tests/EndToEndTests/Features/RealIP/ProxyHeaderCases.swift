/// Headers of the PROXY protocol before a request, whole and malformed.
enum ProxyHeaderCases {
  static let all: [FramingCase] =
    version1.map { FramingCase(group: "PROXY 1", text: $0 + request) }
    + version2.map { FramingCase(group: "PROXY 2", text: $0 + request) }

  private static let request = "GET /c HTTP/1.1\r\nHost: h\r\n\r\n"
  private static let long = String(repeating: "a", count: 120)

  private static let version1 =
    [
      "TCP4 1.2.3.4 5.6.7.8 1000 2000", "TCP6 ::1 ::2 1000 2000", "UNKNOWN", "UNKNOWN whatever stands here",
      "TCP4 1.2.3.4 5.6.7.8 0 65535", "TCP4 1.2.3.4 5.6.7.8 1000 65536", "TCP4 1.2.3.4 5.6.7.8 1000 -1",
      "TCP4 1.2.3.4 5.6.7.8 1000", "TCP4 1.2.3.4 5.6.7.8", "TCP4 1.2.3.4", "TCP4", "", "TCP4 1.2.3 5.6.7.8 1 2",
      "TCP4 1.2.3.4.5 5.6.7.8 1 2", "TCP4 01.2.3.4 5.6.7.8 1 2", "TCP4 256.2.3.4 5.6.7.8 1 2", "TCP4 ::1 ::2 1 2",
      "TCP6 1.2.3.4 5.6.7.8 1 2", "TCP6 ::ffff:1.2.3.4 ::1 1 2", "TCP6 [::1] ::2 1 2", "TCP6 ::1%lo ::2 1 2",
      "TCP4  1.2.3.4 5.6.7.8 1 2", "TCP4 1.2.3.4  5.6.7.8 1 2", "TCP4 1.2.3.4 5.6.7.8 1  2",
      "TCP4 1.2.3.4 5.6.7.8 1 2 ",
      "TCP4 1.2.3.4 5.6.7.8 1 2 3", "TCP4 1.2.3.4 5.6.7.8 01 2", "TCP4 1.2.3.4 5.6.7.8 1x 2",
      "TCP4\t1.2.3.4 5.6.7.8 1 2",
      "TCP4 a b 1 2", "TCP5 1.2.3.4 5.6.7.8 1 2", "tcp4 1.2.3.4 5.6.7.8 1 2", "UDP4 1.2.3.4 5.6.7.8 1 2", "UNKNOWNX",
      "TCP4 1.2.3.4\0 5.6.7.8 1 2", "UNKNOWN \(long)",
    ].map { "PROXY \($0)\r\n" } + [
      "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r", "proxy TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
      "PROXYTCP4 1.2.3.4 5.6.7.8 1 2\r\n", " PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
      "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nPROXY TCP4 9.9.9.9 5.6.7.8 1 2\r\n", "",
      "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n\r\n",
    ]

  private static let signature = "\r\n\r\n\0\r\nQUIT\n"
  private static let addresses = "\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}\u{7}\u{8}\u{10}\u{10}\u{20}\u{20}"
  private static let long6 = String(repeating: "\u{1}", count: 36)

  /// `command`: version and command; `family`: family and transport.
  private static func header(_ command: UInt8, _ family: UInt8, _ rest: String, length: Int? = nil) -> String {
    let length = length ?? rest.unicodeScalars.count
    return [command, family, UInt8(length >> 8), UInt8(length & 255)]
      .reduce(signature) { $0 + String(Unicode.Scalar($1)) } + rest
  }

  private static let version2 = [
    header(0x21, 0x11, addresses), header(0x21, 0x21, long6), header(0x20, 0x00, ""), header(0x20, 0x11, addresses),
    header(0x21, 0x00, ""), header(0x21, 0x12, addresses), header(0x21, 0x31, String(repeating: "a", count: 216)),
    header(0x11, 0x11, addresses), header(0x31, 0x11, addresses), header(0x22, 0x11, addresses),
    header(0x2F, 0x11, addresses), header(0x21, 0x41, addresses), header(0x21, 0x13, addresses),
    header(0x21, 0x11, addresses, length: 11), header(0x21, 0x11, addresses, length: 0),
    header(0x21, 0x11, addresses, length: 13), header(0x21, 0x21, addresses), header(0x21, 0x21, long6, length: 35),
    header(0x21, 0x11, addresses + "\u{4}\0\u{1}x"), header(0x21, 0x11, addresses + "\u{4}\0\u{2}x"),
    header(0x21, 0x11, addresses + "\u{4}\0"), header(0x21, 0x11, addresses + "\u{4}"),
    header(0x21, 0x11, addresses + "\u{3}\0\u{4}\0\0\0\0"), header(0x21, 0x11, addresses + "\u{20}\0\u{1}\u{1}"),
    header(0x21, 0x11, addresses + String(repeating: "\u{4}\0\0", count: 1500)),
    "\r\n\r\n\0\r\nQUIT\r", "\r\n\r\n\0\r\nQUIX\n" + "\u{21}\u{11}\0\u{c}" + addresses,
  ]
}
