import Bytes
import Crypto
import Testing

@testable import Signature

@Suite struct `Signed requests` {
  private static let now: Int64 = 1_700_000_000
  private static let required = ["@method", "@target-uri", "content-digest"]
  private static let secret = String(repeating: "5a", count: 32)

  private struct Pair {
    let signer: MessageSigner
    let verifier: SignatureVerifier
  }

  private func pair(
    covered: [String] = required, required: [String] = required, nonce: Bool = false, lifetime: Int64? = nil,
    label: String = "sig1", expectedLabel: String? = nil
  ) throws -> Pair {
    let key = try RFCExample.key(Self.secret, .hmacSHA256)
    let signer = MessageSigner(
      .init(
        label: Array(label.utf8), keyID: Array("k".utf8), components: try components(covered), lifetime: lifetime,
        hasNonce: nonce), key)
    let policy = SignatureVerifier.Policy(
      label: expectedLabel.map { Array($0.utf8) }, required: try components(required), maxAge: 300, skew: 10,
      requiresNonce: nonce)
    return Pair(
      signer: signer, verifier: try #require(SignatureVerifier(policy, keys: [Array("k".utf8): key], standIn: nil)))
  }

  private static let body = Array("hello".utf8)
  private var fields: [(String, String)] {
    let digest = Self.body.withUnsafeBytes { ContentDigest.value(of: $0) }
    return [("Host", "a.test"), ("X-Order", "7"), ("Content-Digest", String(decoding: digest, as: UTF8.self))]
  }

  private func signed(
    _ pair: Pair, method: String = "POST", target: String = "/pay?a=1", at now: Int64 = now
  ) throws -> [(String, String)] {
    let message = RFCExample.message(method, target, fields, authority: "a.test")
    let made = try pair.signer.sign(message, hasBody: true, now: now)
    return fields + [
      ("Signature-Input", String(decoding: made.input, as: UTF8.self)),
      ("Signature", String(decoding: made.signature, as: UTF8.self)),
    ]
  }

  private func fault(
    _ pair: Pair, _ fields: [(String, String)], method: String = "POST", target: String = "/pay?a=1",
    authority: String = "a.test", hasBody: Bool = true, now: Int64 = now
  ) -> SignatureFault? {
    pair.verifier.fault(
      RFCExample.message(method, target, fields, authority: authority), hasBody: hasBody, now: now)
  }

  private func replaced(_ fields: [(String, String)], _ name: String, _ change: (String) -> String) -> [(
    String, String
  )] {
    fields.map { ($0, $0 == name ? change($1) : $1) }
  }

  @Test func `are valid, and nothing that they cover can change`() throws {
    let pair = try pair(covered: Self.required + ["x-order"])
    let fields = try signed(pair)
    #expect(fault(pair, fields) == nil)
    #expect(fault(pair, fields, authority: "A.test:443") == nil)
    #expect(fault(pair, fields, method: "PUT") == .forged)
    #expect(fault(pair, fields, method: "post") == .forged)
    #expect(fault(pair, fields, target: "/pay?a=2") == .forged)
    #expect(fault(pair, fields, target: "//pay?a=1") == .forged)
    #expect(fault(pair, fields, authority: "b.test") == .forged)
    #expect(fault(pair, fields, authority: "a.test:8443") == .forged)
    #expect(fault(pair, replaced(fields, "X-Order") { _ in "8" }) == .forged)
    #expect(fault(pair, fields + [("X-Order", "8")]) == .forged)
    #expect(fault(pair, fields.filter { $0.0 != "X-Order" }) == .component(.absent("\"x-order\"")))
    #expect(fault(pair, replaced(fields, "Content-Digest") { $0.replacing("sha-256", with: "sha-512") }) == .forged)
    // Fields that are not covered.
    #expect(fault(pair, fields + [("X-Other", "1")]) == nil)
  }

  @Test func `every bit of the signature counts`() throws {
    let pair = try pair()
    let fields = try signed(pair)
    for position in 0..<44 {
      let spoilt = replaced(fields, "Signature") { value in
        var bytes = Array(value.utf8)
        bytes[6 + position] = bytes[6 + position] == 0x41 ? 0x42 : 0x41
        return String(decoding: bytes, as: UTF8.self)
      }
      #expect(fault(pair, spoilt) != nil, "\(position)")
    }
    for cut in ["sig1=::", "sig1=:AAAA:"] {
      #expect(fault(pair, replaced(fields, "Signature") { _ in cut }) == .forged)
    }
  }

  @Test func `must cover what is required, and a digest where there is a body`() throws {
    #expect(
      fault(try pair(covered: ["@method"]), try signed(try pair(covered: ["@method"])))
        == .notCovered("\"@target-uri\""))
    let pair = try pair(covered: ["@method", "@target-uri"])
    let fields = try signed(pair)
    #expect(fault(pair, fields) == .notCovered("\"content-digest\""))
    #expect(fault(pair, fields, hasBody: false) == nil)
    // A component cut out of the signature's list.
    let whole = try self.pair()
    let cut = replaced(try signed(whole), "Signature-Input") { $0.replacing("\"@method\" ", with: "") }
    #expect(fault(whole, cut) == .notCovered("\"@method\""))
    let other = replaced(try signed(whole), "Signature-Input") {
      $0.replacing("\"@target-uri\"", with: "\"@target-uri\" \"@path\"")
    }
    #expect(fault(whole, other) == .forged)
    // One key of a digest is not the digest.
    let member = try self.pair(covered: ["@method", "@target-uri", "content-digest;key=\"sha-256\""])
    #expect(fault(member, try signed(member)) == .notCovered("\"content-digest\""))
  }

  @Test func `are valid in their time only`() throws {
    let pair = try pair(lifetime: 60)
    let fields = try signed(pair)
    #expect(fault(pair, fields, now: Self.now - 10) == nil)
    #expect(fault(pair, fields, now: Self.now - 11) == .future(seconds: 11))
    #expect(fault(pair, fields, now: Self.now + 60) == nil)
    #expect(fault(pair, fields, now: Self.now + 61) == .expired)
    let endless = try self.pair()
    let later = try signed(endless)
    #expect(fault(endless, later, now: Self.now + 300) == nil)
    #expect(fault(endless, later, now: Self.now + 301) == .old(seconds: 301))
    #expect(fault(endless, later, now: .max) == .old(seconds: 99_999_999_999 - Self.now))
    #expect(fault(endless, later, now: .min) == .future(seconds: Self.now))
    let undated = replaced(later, "Signature-Input") { $0.replacing("created=\(Self.now);", with: "") }
    #expect(fault(endless, undated) == .notCreated)
  }

  @Test func `have one key, and its algorithm is the configuration's`() throws {
    let pair = try pair()
    let fields = try signed(pair)
    func changed(_ from: String, _ to: String) -> SignatureFault? {
      fault(pair, replaced(fields, "Signature-Input") { $0.replacing(from, with: to) })
    }
    #expect(changed("keyid=\"k\"", "keyid=\"x\"") == .unknownKey([0x78]))
    #expect(changed("keyid=\"k\";", "") == .noKeyID)
    #expect(changed("keyid=\"k\"", "keyid=k") == .parameter(Array("keyid".utf8)))
    #expect(
      changed("alg=\"hmac-sha256\"", "alg=\"ed25519\"") == .algorithm(Array("ed25519".utf8), expected: "hmac-sha256"))
    #expect(changed(";alg=\"hmac-sha256\"", "") == .forged)
    #expect(changed("created=", "x=1;created=") == .parameter([0x78]))
    #expect(changed("created=\(Self.now)", "created=\"\(Self.now)\"") == .parameter(Array("created".utf8)))
    #expect(changed("created=", "created=1;created=") == .field("Signature-Input", .doubled(Array("created".utf8))))
  }

  /// An attacker who knows a public key uses its file as the secret of HMAC.
  @Test func `no public key is a secret`() throws {
    let key = try RFCExample.key(RFCExample.ed25519Public, .ed25519)
    let policy = SignatureVerifier.Policy(
      label: nil, required: try components(["@method"]), maxAge: 300, skew: 10, requiresNonce: false)
    let verifier = try #require(SignatureVerifier(policy, keys: [Array("k".utf8): key], standIn: nil))
    let forger = MessageSigner(
      .init(
        label: Array("sig1".utf8), keyID: Array("k".utf8), components: try components(["@method"]), lifetime: nil,
        hasNonce: false),
      try #require(SignatureKey(secret: SecretBytes(Array(RFCExample.ed25519Public.utf8)))))
    let made = try forger.sign(RFCExample.request(), hasBody: false, now: Self.now)
    let input = String(decoding: made.input, as: UTF8.self), signature = String(decoding: made.signature, as: UTF8.self)
    for input in [
      input, input.replacing("hmac-sha256", with: "ed25519"), input.replacing(";alg=\"hmac-sha256\"", with: ""),
    ] {
      let message = RFCExample.request([("Signature-Input", input), ("Signature", signature)])
      #expect(verifier.fault(message, now: Self.now) != nil)
    }
    #expect(throws: MaterialError.self) { try RFCExample.key(RFCExample.ed25519Public, .hmacSHA256) }
  }

  @Test func `labels name one signature each`() throws {
    let pair = try pair(), named = try self.pair(label: "mine", expectedLabel: "mine")
    let fields = try signed(pair)
    #expect(fault(pair, fields + [("Signature-Input", "b=();keyid=\"k\"")]) == .several(2))
    #expect(
      fault(pair, fields + [("Signature-Input", "sig1=();keyid=\"k\"")])
        == .field("Signature-Input", .doubled(Array("sig1".utf8))))
    #expect(
      fault(pair, fields + [("Signature", "sig1=:AAAA:")]) == .field("Signature", .doubled(Array("sig1".utf8))))
    #expect(fault(named, fields) == .noLabel(Array("mine".utf8)))
    let both = try signed(named) + [("Signature-Input", "b=();keyid=\"x\""), ("Signature", "b=:AAAA:")]
    #expect(fault(named, both) == nil)
    #expect(fault(pair, fields.filter { $0.0 != "Signature" }) == .unpaired(Array("sig1".utf8)))
    #expect(fault(pair, fields.filter { $0.0 != "Signature-Input" }) == .unsigned)
    #expect(fault(pair, []) == .unsigned)
    #expect(fault(pair, replaced(fields, "Signature") { _ in "sig1=5" }) == .member(Array("sig1".utf8)))
    #expect(fault(pair, replaced(fields, "Signature-Input") { _ in "sig1=5" }) == .member(Array("sig1".utf8)))
    let twice = replaced(fields, "Signature-Input") { $0.replacing("(\"@method\"", with: "(\"@method\" \"@method\"") }
    #expect(fault(pair, twice) == .component(.doubled("\"@method\"")))
  }

  @Test func `nonces are 16 octets by key and text`() throws {
    let pair = try pair(nonce: true)
    func nonce(_ fields: [(String, String)]) throws -> [UInt8] {
      let message = RFCExample.message("POST", "/pay?a=1", fields, authority: "a.test")
      return try #require(try pair.verifier.verify(message, hasBody: true, now: Self.now).nonce)
    }
    let one = try nonce(signed(pair)), other = try nonce(signed(pair))
    #expect(one.count == 16 && one != other)
    let without = replaced(try signed(pair), "Signature-Input") {
      $0.replacing(/nonce="[0-9a-f]*";/, with: "")
    }
    #expect(fault(pair, without) == .noNonce)
    let empty = replaced(try signed(pair), "Signature-Input") { $0.replacing(/nonce="[0-9a-f]*"/, with: "nonce=\"\"") }
    #expect(fault(pair, empty) == .nonceSize)
  }

  @Test func `that are replaced keep the signatures of others`() throws {
    let pair = try pair(label: "mine")
    let message = RFCExample.message(
      "POST", "/",
      fields + [
        ("Signature-Input", "mine=();keyid=\"x\", theirs=(\"date\")"), ("Signature", "mine=:AAAA:, theirs=:AAAB:"),
      ])
    let made = try pair.signer.sign(message, hasBody: false, now: Self.now)
    #expect(
      String(decoding: made.input, as: UTF8.self).hasPrefix(
        "theirs=(\"date\"), mine=(\"@method\" \"@target-uri\");created="))
    #expect(String(decoding: made.signature, as: UTF8.self).hasPrefix("theirs=:AAAB:, mine=:"))
    #expect(!String(decoding: made.signature, as: UTF8.self).contains(":AAAA:"))
    let broken = RFCExample.message("POST", "/", fields + [("Signature-Input", "\u{0}"), ("Signature", "x")])
    #expect(
      String(decoding: try pair.signer.sign(broken, hasBody: false, now: Self.now).input, as: UTF8.self).hasPrefix(
        "mine="))
    let signer = try self.pair(covered: ["x-none"]).signer
    #expect(throws: MessageSigner.Fault.component(.absent("\"x-none\""))) {
      try signer.sign(message, hasBody: false, now: Self.now)
    }
  }

  @Test func `a head can't ask for many times its size of work`() throws {
    let pair = try pair()
    let members = (0..<9).map { "\"x\";key=\"k\($0)\"" }.joined(separator: " ")
    let fields = [("X", "k0=1"), ("Signature-Input", "sig1=(\(members));keyid=\"k\""), ("Signature", "sig1=:AAAA:")]
    #expect(fault(pair, fields) == .manyParsed)
  }

  @Test func `what a client must cover is said in Accept-Signature`() throws {
    #expect(
      String(decoding: try pair().verifier.acceptSignature, as: UTF8.self)
        == "sig1=(\"@method\" \"@target-uri\" \"content-digest\");created")
  }

  @Test(arguments: [
    ("sha-256=:AAAA:", "its Content-Digest has no sha-256 of 32 bytes"),
    ("md5=:AAAA:", "its Content-Digest has neither sha-256 nor sha-512"),
    ("x", "its Content-Digest has neither sha-256 nor sha-512"),
    ("", "its Content-Digest has neither sha-256 nor sha-512"),
    ("sha-256", "its Content-Digest has no sha-256 of 32 bytes"),
    ("sha-256=:", "its Content-Digest is malformed at byte 9"),
  ])
  func `digests that prove nothing are refused`(value: String, reason: String) {
    do throws(SignatureFault) {
      _ = try ContentDigest(Array(value.utf8))
      Issue.record("accepted")
    } catch { #expect(error.description == reason) }
  }

  @Test func `all known digests of a body must match`() throws {
    let right = String(decoding: Self.body.withUnsafeBytes { ContentDigest.value(of: $0) }, as: UTF8.self)
    let wrong = "sha-512=:\(Base64.encode([UInt8](repeating: 0, count: 64))):"
    #expect(try Self.body.withUnsafeBytes { try ContentDigest(Array("\(right), md5=:AAAA:".utf8)).matches($0) })
    #expect(try !Self.body.withUnsafeBytes { try ContentDigest(Array("\(right), \(wrong)".utf8)).matches($0) })
    let pieces = BodyDigests([.sha256])
    for byte in Self.body { [byte].withUnsafeBytes { pieces.update($0) } }
    #expect(try ContentDigest(Array(right.utf8)).matches(pieces))
    #expect(try !ContentDigest(Array(wrong.utf8)).matches(pieces))
  }

  @Test func `keys of another kind are refused`() throws {
    #expect(throws: MaterialError.self) { try RFCExample.key(RFCExample.ed25519Public, .ecdsaP256) }
    #expect(throws: MaterialError.self) { try RFCExample.key(RFCExample.p256Public, .rsaPSS) }
    #expect(throws: MaterialError.self) { try RFCExample.key(RFCExample.rsaPublic, .ed25519) }
    #expect(throws: MaterialError.self) { try RFCExample.key("abcd", .hmacSHA256) }
    #expect(throws: MaterialError.self) { try RFCExample.key(RFCExample.ed25519Public, .ed25519, to: .sign) }
    do throws(MaterialError) {
      _ = try Self.load(RFCExample.ed25519Private)
      Issue.record("accepted")
    } catch { #expect(error.message.hasSuffix("a private key, but only its public key is needed to verify")) }
  }

  private static func load(_ text: String) throws(MaterialError) -> SignatureKey {
    do { return try RFCExample.key(text, .ed25519) } catch let error as MaterialError { throw error } catch {
      throw MaterialError(culprit: "", location: nil, message: "\(error)")
    }
  }
}
