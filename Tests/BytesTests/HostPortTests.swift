import Bytes
import Testing

@Suite struct `A host and its port` {
  private func read(_ text: String, _ bareIPv6: HostPort.BareIPv6 = .refused) -> Result<HostPort, HostPort.ParseError> {
    Result { () throws(HostPort.ParseError) in try HostPort(text, bareIPv6: bareIPv6) }
  }

  private func shown(_ text: String, _ bareIPv6: HostPort.BareIPv6 = .refused) -> String {
    switch read(text, bareIPv6) {
    case .success(let read): "\(read.host) \(read.port.map { "\($0)" } ?? "-")\(read.isBracketed ? " bracketed" : "")"
    case .failure(let fault): "\(fault)"
    }
  }

  @Test(arguments: [
    ("up.test", "up.test -"), ("up.test:1", "up.test 1"), ("up.test:65535", "up.test 65535"),
    ("127.0.0.1:0080", "127.0.0.1 80"), ("[::1]", "::1 - bracketed"), ("[::1]:443", "::1 443 bracketed"),
    ("[2001:db8::1]:65535", "2001:db8::1 65535 bracketed"),
  ])
  func `are told apart`(text: String, expected: String) { #expect(shown(text) == expected) }

  @Test(arguments: [
    ("", HostPort.ParseError.noHost), (":80", .noHost), ("[]", .noHost), ("[]:80", .noHost), ("::1", .noHost),
    ("[::1", .missingBracket), ("[::1:80", .missingBracket), ("[", .missingBracket), ("[::1]80", .afterBracket),
    ("[::1]]:80", .afterBracket), ("a:", .port), ("[::1]:", .port), ("a:0", .port), ("a:00", .port), ("a:65536", .port),
    ("a:99999999999999999999", .port), ("a:+80", .port), ("a:-1", .port), ("a:8 0", .port), ("a:٨٠", .port),
    ("a:80:80", .port), ("fe80::1", .port), ("unix:/run/a.sock", .port), ("user@a:b", .port),
  ])
  func `are refused where the form is another`(text: String, fault: HostPort.ParseError) {
    #expect(read(text) == .failure(fault))
  }

  @Test(arguments: [
    ("::1", "::1 -", "noHost"), ("fe80::1:443", "fe80::1:443 -", "fe80::1 443"), ("::1:443", "::1:443 -", "::1 443"),
    ("a:80", "a 80", "a 80"), ("[::1]:80", "::1 80 bracketed", "::1 80 bracketed"), ("a", "a -", "a -"),
    ("a:b:0", "a:b:0 -", "port"),
  ])
  func `are read as the caller says where an IPv6 address has no brackets`(text: String, host: String, port: String) {
    #expect(shown(text, .isHost) == host)
    // Of `::1` the last colon leaves a host that is a colon: the caller looks at it.
    if text != "::1" { #expect(shown(text, .endsInPort) == port) }
  }
}
