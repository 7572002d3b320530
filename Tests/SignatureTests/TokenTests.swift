import Bytes
import Crypto
import JSON
@testable import Signature
import TestSupport
import Testing

/// What is wrong with a token at second 1000; nil: nothing is.
private func fault(
  of token: String, _ set: String, _ policy: TokenPolicy = open, client: [UInt8]? = nil, now: Int64 = 1000
) throws -> TokenFault? {
  let keys = try WebKeySet(Array(set.utf8))
  do throws(TokenFault) {
    let verified = try policy.verify(WebToken(Array(token.utf8)), by: keys)
    try verified.check(by: policy, of: client, now: now)
    return nil
  } catch { return error }
}

private let open = {
  var policy = TokenPolicy()
  policy.allowsUnbound = true
  return policy
}()

@Suite struct `Tokens of clients` {
  @Test func `are authentic by keys of each algorithm`() throws {
    for kind in [PrivateKey.Kind.ed25519, .p256, .rsa(bits: 2048)] {
      let issuer = try TokenIssuer(kind)
      let token = issuer.token(#"{"exp":2000,"sub":"al"}"#)
      #expect(try fault(of: token, issuer.set) == nil)
      // Each byte counts.
      var bytes = Array(token.utf8)
      let dot = bytes.firstIndex(of: 0x2E) ?? 0
      bytes[dot + 3] = bytes[dot + 3] == 0x41 ? 0x42 : 0x41
      #expect(try fault(of: String(decoding: bytes, as: UTF8.self), issuer.set) != nil)
      let other = try TokenIssuer(kind)
      #expect(try fault(of: token, other.set) == .forged)
    }
  }

  /// RFC 7515 A.2 and A.3, RFC 8037 A.4: keys and signatures that others made.
  @Test func `keys and signatures of the RFCs verify`() throws {
    let edwards = try WebVerifier(.ed25519(Base64.decodeURL("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")))
    let text = Array("eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc".utf8)
    let signature = try Base64.decodeURL(
      "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg")
    #expect(edwards.verify(signature, text, by: .edDSA) && !edwards.verify(signature, text + [0], by: .edDSA))
    #expect(!edwards.verify(signature, text, by: .es256) && !edwards.verify([], text, by: .edDSA))
    let curve = try WebVerifier(
      .p256(
        x: Base64.decodeURL("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"),
        y: Base64.decodeURL("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0")))
    let payload =
      "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    #expect(
      try curve.verify(
        Base64.decodeURL("DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"),
        Array("eyJhbGciOiJFUzI1NiJ9.\(payload)".utf8), by: .es256))
  }

  @Test func `a key of RSA signs by both of its paddings, unless its set names one`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let issuer = try TokenIssuer(.rsa(bits: 2048))
    // A header can't make a signature by one padding into one by the other.
    let lie = issuer.token(#"{"exp":2000}"#, header: #"{"alg":"PS256","kid":"k1"}"#)
    #expect(try fault(of: lie, issuer.set) == .forged)
    let token = issuer.token(#"{"exp":2000}"#)
    let named = "{\"keys\":[\(issuer.published(["alg": "\"PS256\""]))]}"
    #expect(try fault(of: token, named) == .keyOfAnotherAlgorithm("RS256"))
    #expect(try fault(of: token, "{\"keys\":[\(issuer.published(["alg": "\"RS256\""]))]}") == nil)
  }

  @Test(arguments: ["none", "None", "HS256", "HS384", "ES384", "RS512", "PS512", "ES256K", "EdDSA ", "", "eddsa"])
  func `CVE-2015-9235, CVE-2018-1000531: an algorithm that a header chooses is no other than the key's`(name: String)
    throws
  {
    let issuer = try TokenIssuer()
    let header = "{\"alg\":\"\(name)\",\"kid\":\"k1\"}"
    #expect(try fault(of: issuer.token(#"{"exp":2000}"#, header: header), issuer.set) == .algorithm(name))
    let text = TokenIssuer.encode(header) + "." + TokenIssuer.encode(#"{"exp":2000}"#)
    #expect(try fault(of: text + ".", issuer.set) == .algorithm(name))
  }

  @Test(arguments: [
    (#"{"alg":"EdDSA","kid":"../../dev/null"}"#, TokenFault.unknownKey("../../dev/null")),
    (#"{"alg":"EdDSA","kid":"k1' OR '1'='1"}"#, .unknownKey("k1' OR '1'='1")),
    (#"{"alg":"ES256","kid":"k1"}"#, .keyOfAnotherAlgorithm("ES256")),
    (#"{"alg":"EdDSA","kid":7}"#, .member("kid", expected: "a text of at most 256 bytes")),
    (#"{"alg":"EdDSA","kid":null}"#, .member("kid", expected: "a text of at most 256 bytes")),
    (#"{"kid":"k1"}"#, .member("alg", expected: "a text")),
    (#"{"alg":["EdDSA"],"kid":"k1"}"#, .member("alg", expected: "a text")),
    (#"{"alg":"EdDSA","kid":"k1","crit":["exp"]}"#, .unsupported("crit")),
    (#"{"alg":"EdDSA","kid":"k1","crit":[]}"#, .unsupported("crit")),
    (#"{"alg":"EdDSA","kid":"k1","b64":false}"#, .unsupported("b64")),
    (#"{"alg":"EdDSA","kid":"k1","b64":true}"#, .unsupported("b64")),
    (#"{"alg":"EdDSA","kid":"k1","zip":"DEF"}"#, .unsupported("zip")),
    (#"{"alg":"EdDSA","kid":"k1","cty":"JWT"}"#, .unsupported("cty")),
    (#"{"alg":"EdDSA","kid":"k1","enc":"A128GCM"}"#, .unsupported("enc")),
    (#"{"alg":"EdDSA","kid":"k1","typ":"logout+jwt"}"#, .unsupported("typ")),
    (#"{"alg":"EdDSA","kid":"k1","typ":7}"#, .unsupported("typ")),
  ])
  func `what a header demands beyond a signature is refused`(header: String, wanted: TokenFault) throws {
    let issuer = try TokenIssuer()
    #expect(try fault(of: issuer.token(#"{"exp":2000}"#, header: header), issuer.set) == wanted)
  }

  @Test func `CVE-2018-0114: keys and addresses of keys in a header are nobody's keys`() throws {
    let issuer = try TokenIssuer(), mallory = try TokenIssuer()
    for own in [
      "\"jwk\":\(mallory.published())", "\"jku\":\"https://mallory.example/keys\"", "\"x5u\":\"https://m.example/\"",
      "\"x5c\":[\"MIIB\"]",
    ] {
      let header = "{\"alg\":\"EdDSA\",\"kid\":\"k1\",\(own)}"
      #expect(try fault(of: mallory.token(#"{"exp":2000}"#, header: header), issuer.set) == .forged)
      #expect(try fault(of: issuer.token(#"{"exp":2000}"#, header: header), issuer.set) == nil)
    }
  }

  @Test func `members twice, other forms and sizes are refused`() throws {
    let issuer = try TokenIssuer()
    func json(_ token: String) throws -> Bool {
      if case .json? = try fault(of: token, issuer.set) { true } else { false }
    }
    #expect(try json(issuer.token(#"{"exp":2000,"exp":9000}"#)))
    #expect(try json(issuer.token(#"{"exp":2000,"\u0065xp":9000}"#)))
    #expect(try json(issuer.token(#"{"exp":2000}"#, header: #"{"alg":"none","alg":"EdDSA","kid":"k1"}"#)))
    #expect(try json(issuer.token("[1]")) && json(issuer.token("")) && json(issuer.token("{\"exp\":2000} x")))
    #expect(try json(issuer.token("{\"exp\":2000,\"a\":" + String(repeating: "[", count: 30) + "]}")))
    let token = issuer.token(#"{"exp":2000}"#), parts = token.split(separator: ".").map(String.init)
    #expect(try fault(of: parts[0] + "." + parts[1], issuer.set) == .parts(2))
    #expect(try fault(of: token + ".x.y", issuer.set) == .parts(5))
    #expect(try fault(of: "", issuer.set) == .parts(1))
    #expect(try fault(of: token + "==", issuer.set) == .encoding(part: "signature"))
    #expect(try fault(of: parts[0] + "=." + parts[1] + "." + parts[2], issuer.set) == .encoding(part: "header"))
    #expect(try fault(of: parts[0] + ". " + parts[1] + "." + parts[2], issuer.set) == .encoding(part: "payload"))
    // A last character whose bits say nothing has one spelling.
    #expect(try fault(of: String(token.dropLast()) + "B", issuer.set) != nil)
    let huge = issuer.token("{\"exp\":2000,\"a\":\"\(String(repeating: "x", count: WebToken.mostBytes))\"}")
    #expect(try fault(of: huge, issuer.set) == .tooLong(huge.utf8.count))
  }

  @Test(arguments: [
    (#"{}"#, TokenFault.noEnd), (#"{"exp":null}"#, .member("exp", expected: "a time in seconds")),
    (#"{"exp":"2000"}"#, .member("exp", expected: "a time in seconds")),
    (#"{"exp":-1}"#, .member("exp", expected: "a time in seconds")),
    (#"{"exp":1e300}"#, .member("exp", expected: "a time in seconds")), (#"{"exp":970}"#, .expired(seconds: 30)),
    (#"{"exp":970.9}"#, .expired(seconds: 30)), (#"{"exp":2000,"nbf":1031}"#, .future(seconds: 31)),
    (#"{"exp":2000,"iat":1031}"#, .future(seconds: 31)),
    (#"{"exp":2000,"nbf":"0"}"#, .member("nbf", expected: "a time in seconds")),
    (#"{"exp":2000,"aud":"somebody"}"#, .audience), (#"{"exp":2000,"aud":[]}"#, .audience),
    (#"{"exp":2000,"cnf":{"jkt":"x"}}"#, .boundOtherwise), (#"{"exp":2000,"cnf":{}}"#, .boundOtherwise),
    (#"{"exp":2000,"cnf":"x"}"#, .boundOtherwise), (#"{"exp":2000,"cnf":null}"#, .boundOtherwise),
    (#"{"exp":2000,"cnf":{"x5t#S256":"AAAA"}}"#, .member("x5t#S256", expected: "the 32 octets of a SHA-256")),
    (#"{"exp":2000,"cnf":{"x5t#S256":7}}"#, .boundOtherwise),
  ])
  func `claims that don't hold are refused`(claims: String, wanted: TokenFault) throws {
    let issuer = try TokenIssuer()
    #expect(try fault(of: issuer.token(claims), issuer.set) == wanted)
  }

  @Test func `times have their leeway, to the second`() throws {
    let issuer = try TokenIssuer()
    for claims in [#"{"exp":971}"#, #"{"exp":2000,"nbf":1030}"#, #"{"exp":2000,"iat":1030.5}"#, #"{"exp":1.5e3}"#] {
      #expect(try fault(of: issuer.token(claims), issuer.set) == nil, "\(claims)")
    }
  }

  @Test func `issuer and audience are compared byte for byte`() throws {
    let issuer = try TokenIssuer()
    var policy = open
    (policy.issuers, policy.audiences) = (["https://id.example"], ["https://api.example", "b"])
    func fault(_ claims: String) throws -> TokenFault? {
      try SignatureTests.fault(of: issuer.token("{\"exp\":2000,\(claims)}"), issuer.set, policy)
    }
    #expect(try fault(#""iss":"https://id.example","aud":"b""#) == nil)
    #expect(try fault(#""iss":"https://id.example","aud":["x","https://api.example"]"#) == nil)
    #expect(try fault(#""iss":"https://id.example/","aud":"b""#) == .issuer("https://id.example/"))
    #expect(try fault(#""iss":["https://id.example"],"aud":"b""#) == .member("iss", expected: "a text"))
    #expect(try fault(#""aud":"b""#) == .member("iss", expected: "a text"))
    #expect(try fault(#""iss":"https://id.example""#) == .audience)
    #expect(try fault(#""iss":"https://id.example","aud":"B""#) == .audience)
    #expect(try fault(#""iss":"https://id.example","aud":{"b":1}"#) == .audience)
  }

  /// RFC 8705 §3.
  @Test func `a token of one certificate is nobody else's`() throws {
    let issuer = try TokenIssuer()
    let mine = [UInt8](repeating: 7, count: 32), other = [UInt8](repeating: 8, count: 32)
    let token = issuer.token("{\"exp\":2000,\"cnf\":{\"x5t#S256\":\"\(Base64.encodeURL(mine))\"}}")
    for policy in [TokenPolicy(), open] {
      #expect(try fault(of: token, issuer.set, policy, client: mine) == nil)
      #expect(try fault(of: token, issuer.set, policy, client: other) == .anotherCertificate)
      #expect(try fault(of: token, issuer.set, policy, client: nil) == .noCertificate)
    }
    let unbound = issuer.token(#"{"exp":2000}"#)
    #expect(try fault(of: unbound, issuer.set, TokenPolicy(), client: mine) == .unbound)
    #expect(try fault(of: unbound, issuer.set, open, client: mine) == nil)
  }

  @Test func `a token without a kid means the only key that fits`() throws {
    let one = try TokenIssuer(id: "a"), two = try TokenIssuer(id: "b"), curve = try TokenIssuer(.p256, id: "c")
    let token = one.token(#"{"exp":2000}"#, header: #"{"alg":"EdDSA"}"#)
    #expect(try fault(of: token, "{\"keys\":[\(one.published()),\(curve.published())]}") == nil)
    #expect(try fault(of: token, "{\"keys\":[\(one.published()),\(two.published())]}") == .severalKeys(2))
    #expect(try fault(of: token, "{\"keys\":[\(curve.published())]}") == .keyOfAnotherAlgorithm("EdDSA"))
  }

  @Test func `claims are texts where they have one value`() throws {
    let issuer = try TokenIssuer()
    let token = issuer.token(
      #"{"exp":2000,"sub":"al","n":7,"b":true,"l":["x","y"],"c":["x,y"],"o":{"p":{"q":"deep"}},"e":"a\r\nb","z":null,"scope":"read write"}"#
    )
    let verified = try open.verify(WebToken(Array(token.utf8)), by: WebKeySet(Array(issuer.set.utf8)))
    #expect(verified.text(["sub"]) == "al" && verified.text(["n"]) == "7" && verified.text(["b"]) == "true")
    #expect(verified.text(["l"]) == "x,y" && verified.text(["o", "p", "q"]) == "deep")
    for path in [["c"], ["o"], ["e"], ["z"], ["none"], ["sub", "x"], []] { #expect(verified.text(path) == nil) }
    #expect(verified.has("sub", among: ["al"]) && !verified.has("sub", among: ["a", "al "]))
    #expect(verified.has("l", among: ["y"]) && !verified.has("l", among: ["x,y"]))
    #expect(verified.has("scope", among: ["write"]) && !verified.has("sub2", among: [""]))
  }
}

@Suite struct `Key sets` {
  @Test func `leave out what verifies no token`() throws {
    let issuer = try TokenIssuer()
    let set = """
      {"keys":[{"kty":"EC","crv":"P-384","x":"AA","y":"AA"},{"kty":"XYZ"},
        \(issuer.published(["kid": "\"e\"", "use": "\"enc\""])), \(issuer.published(["kid": "\"o\"", "key_ops": "[\"sign\"]"])),
        \(issuer.published(["kid": "\"h\"", "alg": "\"HS256\""])), \(issuer.published())],"other":1}
      """
    #expect(try WebKeySet(Array(set.utf8)).keys.map(\.id) == ["k1"])
  }

  @Test(arguments: [
    ("", WebKeyFault.json("no value at byte 0")), ("[]", .noList), (#"{"keys":{}}"#, .noList),
    (#"{"keys":[]}"#, .noKey(of: 0)), (#"{"keys":[{"kty":"XYZ"}]}"#, .noKey(of: 1)),
    (#"{"keys":[7]}"#, .key(0, "no object with a kty")),
    (#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#, .key(0, "a secret or private key")),
    (#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA","d":"AA"}]}"#, .key(0, "a secret or private key")),
    (#"{"keys":[{"kty":"OKP","crv":"Ed25519"}]}"#, .key(0, "no x")),
    (#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA=="}]}"#, .key(0, "x is not base64url without padding")),
  ])
  func `say what is wrong with them`(text: String, wanted: WebKeyFault) {
    #expect(throws: wanted) { try WebKeySet(Array(text.utf8)) }
  }

  @Test func `keys that prove nothing are refused`() throws {
    func fault(_ key: String) -> Bool {
      do throws(WebKeyFault) { _ = try WebKeySet(Array("{\"keys\":[\(key)]}".utf8)) } catch {
        if case .key(0, _) = error { return true }
      }
      return false
    }
    let modulus = Base64.encodeURL([UInt8](repeating: 0xFF, count: 256))
    #expect(!fault("{\"kty\":\"RSA\",\"n\":\"\(modulus)\",\"e\":\"AQAB\"}"))
    // An exponent of 1 makes each text its own signature.
    for exponent in ["AQ", "Aw", "AA", "", "AQAAAAAB", "AQAA"] {
      #expect(fault("{\"kty\":\"RSA\",\"n\":\"\(modulus)\",\"e\":\"\(exponent)\"}"), "\(exponent)")
    }
    for count in [128, 255, 1025, 4096] {
      let modulus = Base64.encodeURL([UInt8](repeating: 0xFF, count: count))
      #expect(fault("{\"kty\":\"RSA\",\"n\":\"\(modulus)\",\"e\":\"AQAB\"}"), "\(count)")
    }
    // No point of the curve.
    let number = Base64.encodeURL([UInt8](repeating: 1, count: 32))
    #expect(fault("{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"\(number)\",\"y\":\"\(number)\"}"))
  }

  @Test func `have one key of a name, and a limit`() throws {
    let one = try TokenIssuer(), two = try TokenIssuer(), curve = try TokenIssuer(.p256)
    #expect(throws: WebKeyFault.doubled("k1")) {
      try WebKeySet(Array("{\"keys\":[\(one.published()),\(two.published())]}".utf8))
    }
    #expect(try WebKeySet(Array("{\"keys\":[\(one.published()),\(curve.published())]}".utf8)).keys.count == 2)
    let many = Array(repeating: "{\"kty\":\"XYZ\"}", count: WebKeySet.mostKeys + 1).joined(separator: ",")
    #expect(throws: WebKeyFault.tooMany(WebKeySet.mostKeys + 1)) { try WebKeySet(Array("{\"keys\":[\(many)]}".utf8)) }
  }
}
