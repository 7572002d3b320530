import Bytes
import Crypto
import Testing

@testable import UpstreamAuth

@Suite struct `Digest and Basic answers` {
  private static let rfc7616 = """
    Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=%, \
    nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"
    """
  private static let rfc7616Client = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"

  @Test(arguments: [
    ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
    ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
  ])
  func `RFC 7616 section 3.9.1`(algorithm: String, response: String) throws {
    let challenge = try digest(Self.rfc7616.replacing("%", with: algorithm))
    let line = try #require(
      answer(challenge, user("Mufasa", "Circle of Life"), target: "/dir/index.html", clientNonce: Self.rfc7616Client))
    #expect(
      line == """
        Digest username="Mufasa", realm="http-auth@example.org", \
        nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", uri="/dir/index.html", algorithm=\(algorithm), \
        qop=auth, nc=00000001, cnonce="\(Self.rfc7616Client)", \
        opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS", response="\(response)"
        """)
  }

  @Test func `RFC 2617 section 3.5`() throws {
    let challenge = try digest(
      """
      Digest realm="testrealm@host.com", qop="auth,auth-int", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", \
      opaque="5ccc069c403ebaf9f0171e9517f40e41"
      """)
    let line = try #require(
      answer(challenge, user("Mufasa", "Circle Of Life"), target: "/dir/index.html", clientNonce: "0a4f113b"))
    #expect(line.hasSuffix("response=\"6629fae49393a05397450978507c4ef1\""))
    #expect(!line.contains("algorithm="))
  }

  @Test func `without qop it is RFC 2069, and has neither nc nor cnonce`() throws {
    let challenge = try digest("Digest realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\"")
    let line = try #require(
      answer(challenge, user("Mufasa", "CircleOfLife"), target: "/dir/index.html", clientNonce: "x"))
    #expect(line.hasSuffix("response=\"1949323746fe6a43ef61f9606e7febea\""))
    #expect(!line.contains("nc=") && !line.contains("qop=") && !line.contains("cnonce="))
  }

  /// By the formulas of RFC 7616 §3.4.2 and §3.4.3, worked out by hand.
  @Test func `a session's key is of its first nonce, and auth-int is of the body`() throws {
    let md5 = { (text: String) in Hex.encode(AuthenticationDigest.md5.of(bytes(text)) ?? []) }
    let challenge = try digest("Digest realm=r, nonce=n2, qop=auth-int, algorithm=md5-SESS")
    #expect(challenge.algorithm == .md5Session)
    let line = try #require(
      answer(
        challenge, user("u", "p"), method: "POST", target: "/t?q", body: "body", count: 258, clientNonce: "c",
        sessionNonce: "n1"))
    let secret = md5(md5("u:r:p") + ":n1:c")
    let response = md5("\(secret):n2:00000102:c:auth-int:" + md5("POST:/t?q:" + md5("body")))
    #expect(line.contains("qop=auth-int, nc=00000102") && line.hasSuffix("response=\"\(response)\""))
    #expect(answer(challenge, user("u", "p"), target: "/", clientNonce: "c") == nil)
  }

  @Test func `names are quoted, in UTF-8, or hashed`() throws {
    let plain = try digest("Digest realm=\"a\\\"b\", nonce=n")
    let quoted = try #require(answer(plain, user("D\\u", "p"), target: "/", clientNonce: "c"))
    #expect(quoted.hasPrefix("Digest username=\"D\\\\u\", realm=\"a\\\"b\", "))
    let unicode = try digest("Digest realm=r, nonce=n, charset=UTF-8, qop=auth")
    let extended = try #require(answer(unicode, user("Jäsøn Doe", "p"), target: "/", clientNonce: "c"))
    #expect(extended.hasPrefix("Digest username*=UTF-8''J%C3%A4s%C3%B8n%20Doe, "))
    #expect(
      answer(unicode, user("al", "p"), target: "/", clientNonce: "c")?.hasPrefix("Digest username=\"al\"") == true)
    let hashed = try digest(
      "Digest realm=\"api@example.org\", nonce=n, charset=UTF-8, qop=auth, userhash=true, algorithm=SHA-256")
    let line = try #require(answer(hashed, user("Jäsøn Doe", "p"), target: "/", clientNonce: "c"))
    let name = Hex.encode(AuthenticationDigest.sha256.of(bytes("Jäsøn Doe:api@example.org")) ?? [])
    #expect(line.hasPrefix("Digest username=\"\(name)\"") && line.contains("userhash=true"))
  }

  @Test func `Basic is RFC 7617's, in UTF-8`() {
    func basic(_ name: String, _ password: String) -> String {
      var output = ByteBuffer()
      BasicAnswer.append(user(name, password), to: &output)
      return String(decoding: Array(output.readable), as: UTF8.self)
    }
    #expect(basic("Aladdin", "open sesame") == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
    #expect(basic("test", "123£") == "Basic dGVzdDoxMjPCow==")
    #expect(basic("a", "b:c") == "Basic YTpiOmM=")
  }
}
