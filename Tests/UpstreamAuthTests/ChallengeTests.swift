import Testing

@testable import UpstreamAuth

@Suite struct `Challenges of WWW-Authenticate` {
  private func parameters(_ pairs: (String, String)...) -> Challenge.Content {
    .parameters(pairs.map { Challenge.Parameter(name: $0.0, value: bytes($0.1)) })
  }

  @Test func `several stand in a line, and in several lines`() {
    let all = challenges(
      "Newauth realm=\"apps\", type=1, title=\"Login to \\\"apps\\\"\", Basic realm=\"simple\"", "NTLM", "Negotiate, x")
    #expect(all.map(\.scheme) == ["newauth", "basic", "ntlm", "negotiate", "x"])
    #expect(all[0].content == parameters(("realm", "apps"), ("type", "1"), ("title", "Login to \"apps\"")))
    #expect(all[1].content == parameters(("realm", "simple")))
    #expect(all[2].content == .bare && all[3].content == .bare)
  }

  @Test func `a token68 is told from parameters`() {
    #expect(challenges("NTLM TlRMTVNTUAAC==")[0].content == .token68(bytes("TlRMTVNTUAAC==")))
    #expect(challenges("NTLM abc+/=, Basic realm=x").map(\.scheme) == ["ntlm", "basic"])
    #expect(challenges("Basic realm=x")[0].content == parameters(("realm", "x")))
    #expect(
      challenges("Basic realm = \"x\" , charset = UTF-8")[0].content == parameters(("realm", "x"), ("charset", "UTF-8"))
    )
  }

  @Test func `a comma or a scheme inside quotes is text`() {
    let all = challenges("Digest realm=\"a, Basic realm=b\", nonce=\"\\\\\", NTLM")
    #expect(all.map(\.scheme) == ["digest", "ntlm"])
    #expect(all[0]["realm"] == bytes("a, Basic realm=b") && all[0]["nonce"] == bytes("\\"))
  }

  @Test func `empty elements and blanks between are nothing`() {
    #expect(challenges(", ,\tBasic  realm=x,, ,NTLM ,").map(\.scheme) == ["basic", "ntlm"])
    #expect(challenges("", " ", ",").isEmpty)
  }

  @Test(arguments: [
    "Basic realm=\"x", "Basic realm=\"x\\", "Basic realm", "Basic realm=x realm=y", "Basic realm=x, realm=y",
    "Basic realm=\"x\u{1}\"", "=x", "Basic\u{7F}", "Basic realm=\"x\"y",
  ])
  func `what is malformed is no challenge`(line: String) {
    #expect(challenges(line).allSatisfy { $0["realm"] == nil }, "\(line)")
  }

  @Test func `what stood whole before a fault counts, and nothing after it`() {
    #expect(challenges("NTLM, Basic realm=\"x, Digest realm=y").map(\.scheme) == ["ntlm"])
  }

  @Test func `hostile lines are bounded`() {
    #expect(challenges(String(repeating: "NTLM,", count: 1000)).count == 16)
    #expect(challenges("NTLM " + String(repeating: "a", count: 20_000)).isEmpty)
    let many = (0..<100).map { "p\($0)=x" }.joined(separator: ", ")
    #expect(challenges("Digest \(many)").isEmpty)
  }

  @Test func `the strongest is taken, whatever the order`() throws {
    let all = offers(
      "Basic realm=r", "NTLM", "Digest realm=r, nonce=n, algorithm=MD5", "Digest realm=r, nonce=n, algorithm=SHA-256")
    #expect(all.count == 4)
    var left = all
    var order: [String] = []
    while let best = Offer.strongest(left) {
      left.removeAll { $0 == best }
      if case .digest(let digest) = best {
        order.append(digest.algorithm.rawValue)
      } else {
        order.append("\(best.scheme.rawValue)")
      }
    }
    #expect(order == ["SHA-256", "MD5", "4", "1"])
  }

  @Test(arguments: [
    "Digest realm=r", "Digest nonce=n", "Digest realm=r, nonce=\"\"", "Digest realm=r, nonce=n, algorithm=SHA-1",
    "Digest realm=r, nonce=n, qop=\"auth-conf\"", "Basic", "Basic charset=UTF-8", "NTLM a=b", "NTLM !", "Negotiate",
    "NTLM abc", "Bearer realm=x",
  ])
  func `what can't be answered is no offer`(line: String) { #expect(offers(line).isEmpty, "\(line)") }

  @Test func `Authentication-Info says the next nonce`() {
    #expect(AuthenticationInfo.nextNonce(bytes("nextnonce=\"a\\\"b\", qop=auth, rspauth=\"x\"")) == bytes("a\"b"))
    #expect(AuthenticationInfo.nextNonce(bytes("rspauth=x")) == nil)
    #expect(AuthenticationInfo.nextNonce(bytes("nextnonce=\"\"")) == nil)
    #expect(AuthenticationInfo.nextNonce(bytes("nextnonce=\"a")) == nil)
  }
}
