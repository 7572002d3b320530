import Bytes
import TestSupport
import Testing

@testable import Negotiation

extension TunnelNegotiation: Negotiating {
  static var waiting: UpstreamNegotiation.Next { .more }
}

extension Talk where Machine == TunnelNegotiation {
  init(through authorization: String = "") {
    self.init(TunnelNegotiation(authority: "api.test:443", authorization: Array(authorization.utf8)))
  }

  var reason: String? {
    if case .end(let reason) = next { reason } else { nil }
  }
}

@Suite struct `A tunnel through a proxy` {
  private func reason(_ text: String) -> String? { Talk(through: "").hearing(text).reason }

  @Test func `is asked for by the name of the server, with credentials if there are some`() {
    func text(_ authorization: String) -> String {
      String(decoding: Talk(through: authorization).machine.opening, as: UTF8.self)
    }
    #expect(text("") == "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
    #expect(
      text("Basic YTpi")
        == "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\nProxy-Authorization: Basic YTpi\r\n\r\n")
  }

  @Test(arguments: [
    "HTTP/1.1 200 Connection established\r\n\r\n", "HTTP/1.0 200 OK\r\nServer: x\r\n\r\n", "HTTP/1.1 204 \r\n\r\n",
    "HTTP/1.1 299\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    // Its framing is none of the tunnel (RFC 9110 §9.3.6).
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nX:\r\n\r\n",
  ])
  func `opens with a response of 2xx, and its first byte is the one behind the head`(head: String) {
    let talk = Talk(through: "").hearing(head)
    #expect(talk.next == .done && talk.said.isEmpty && talk.socket.isEmpty)
    let followed = Talk(through: "").hearing(head + "220 hello\r\n")
    #expect(followed.next == .done && followed.socket == Array("220 hello\r\n".utf8))
    for size in [1, 2, 7] { #expect(Talk(through: "").hearing(head, size: size).next == .done) }
  }

  @Test func `stays closed after any other response, which the reason quotes`() {
    #expect(
      reason("HTTP/1.1 403 For\"bidden\r\n") == "it refused CONNECT api.test:443: \"HTTP/1.1 403 For\\x22bidden\"")
    #expect(reason("HTTP/1.1 502 Bad Gateway\r\n")?.contains("it refused CONNECT api.test:443") == true)
    for status in ["101 Switching Protocols", "301 Moved", "600 x"] {
      #expect(reason("HTTP/1.1 \(status)\r\n")?.contains("it refused CONNECT") == true, "\(status)")
    }
    let asked = "HTTP/1.1 407 Proxy Authentication Required\r\n"
    #expect(reason(asked) == "it asks for credentials: \"HTTP/1.1 407 Proxy Authentication Required\"")
    #expect(Talk(through: "Basic x").hearing(asked).reason?.hasPrefix("it refused the credentials: ") == true)
  }

  @Test(arguments: [
    "SSH-2.0-OpenSSH_9\r\n", "\u{16}\u{3}\u{1}\r\n", "HTTP/2 200\r\n", "HTTP/1.2 200 OK\r\n", "http/1.1 200 OK\r\n",
    "HTTP/1.1 20 OK\r\n", "HTTP/1.1 0200 OK\r\n", "HTTP/1.1 099 OK\r\n", "HTTP/1.1  200 OK\r\n", "HTTP/1.1 2x0 OK\r\n",
    "HTTP/1.1\r\n", "\r\n", "HTTP/1.1 200 O\u{1}K\r\n",
  ]) func `stays closed when no response of HTTP/1 comes`(line: String) {
    #expect(reason(line)?.contains("which is no response to CONNECT api.test:443") == true, "\(reason(line) ?? "")")
  }

  @Test(arguments: ["nonsense\r\n", ": x\r\n", " folded: x\r\n", "\tx: y\r\n", "a b: c\r\n", "a: \u{1}\r\n"])
  func `stays closed when a field is none`(line: String) {
    #expect(reason("HTTP/1.1 200 OK\r\n" + line)?.contains("a line that is no field") == true)
  }

  @Test func `stays closed when the head has no end, or lines end in another way`() {
    #expect(reason("HTTP/1.1 200 OK\n\n")?.contains("no line end") == true)
    #expect(reason("HTTP/1.1 200 OK\r\nA: b\rC: d\r\n")?.contains("no line end") == true)
    let field = "X-Long: \(String(repeating: "x", count: 1000))\r\n"
    #expect(
      reason("HTTP/1.1 200 OK\r\n" + String(repeating: field, count: 17))
        == "it sent more than 16384 bytes before the tunnel")
    #expect(reason("HTTP/1.1 200 OK\r\n" + String(repeating: "A: b\r\n", count: 200)) == "it sent more than 200 lines")
    #expect(reason(String(repeating: "HTTP/1.1 102 x\r\n\r\n", count: 101)) == "it sent more than 200 lines")
    #expect(reason("HTTP/1.1 200 OK\r\nA: b\r\n") == nil)
  }

  @Test func `consumes nothing and says the same once it has ended`() {
    for text in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 403 no\r\n", "x\r\n"] {
      var talk = Talk(through: "").hearing(text)
      let step = Array("HTTP/1.1 200 OK\r\n\r\n".utf8).withUnsafeBytes { talk.machine.take($0) }
      #expect(step.consumed == 0 && step.reply.isEmpty && step.next == talk.next)
    }
  }

  /// What the fuzzer starts from and what it once found, read again by every test run.
  @Test(arguments: FuzzInput.all(of: "FuzzTunnel"))
  func `ends in the same way whether its bytes come at once or one by one`(input: FuzzInput) {
    let whole = Talk(through: "").hearing(input.bytes)
    let pieces = Talk(through: "").hearing(input.bytes, size: 1)
    #expect(whole.next == pieces.next && whole.said.isEmpty && pieces.said.isEmpty)
    if whole.next == .done { #expect(whole.socket == pieces.socket) }
  }

  @Test func `has something to replay`() { #expect(FuzzInput.all(of: "FuzzTunnel").count > 5) }
}
