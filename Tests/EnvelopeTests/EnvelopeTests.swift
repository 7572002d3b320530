import Bytes
import Crypto
import Testing

@testable import Envelope

@Suite struct `Message envelopes` {
  // MARK: As others make them

  /// Made by `openssl enc`, `openssl dgst -mac HMAC` and Python's cryptography.
  struct Vector: CustomTestStringConvertible {
    var cipher: Cipher
    var mac: String
    var text: String
    var testDescription: String { "\(cipher) \(mac)" }
  }

  private static let cbc =
    "Umd5ivbZtHxeXaTnOWlfSDagSDwtYR1g9J3VaTKj9RlWIjhSzl1ru6BcemINb+cv5kza4FyX8nOJkijETBMUhQ=="
  private static let gcm =
    "nTodQCq+bMtAX6fiNVT17lyMe2T9lXhMvlRJRdSLKXS2TnSb81c3WG+sWOdxWK/ZZXQtaljwbgw0O3Z+RWY7RCdqEzt/vqUHT1un"
  private static let (iv16, iv12) = ("oKGio6SlpqeoqaqrrK2urw==", "oKGio6Slpqeoqaqr")

  static let vectors = [
    Vector(
      cipher: .aes128CBC, mac: "hmac-sha256 payload",
      text: #"{"mac":"9pmpSmZaxfFdsFT51Qt9bmoDK3AcdhNOL4NsBLHlOUg=","iv":"\#(iv16)","payload":""#
        + #"Docj1FFwrUY0qR6JdcclVeSLx9A2vZB7gVGWVp0avT0u4mQmEAIrOmdr7g8MX+GVpahPPjO25KZr/ePBmpCEQQ=="}"#),
    Vector(
      cipher: .aes256CBC, mac: "hmac-sha1 payload",
      text: #"{"mac":"UQeFqyNqJSWBlokSMYwOlzTelx4=","iv":"\#(iv16)","payload":"\#(cbc)"}"#),
    Vector(
      cipher: .aes256CBC, mac: "hmac-sha256 fields to amount none ok",
      text: #"{"mac":"5S+iq5ECBuOwp61ei7UV1XdyrtSLHE1/vrKutMD/Wxs=","iv":"\#(iv16)","payload":"\#(cbc)"}"#),
    Vector(cipher: .aes256GCM, mac: "none", text: #"{"iv":"\#(iv12)","payload":"\#(gcm)"}"#),
    Vector(
      cipher: .aes256GCM, mac: "hmac-sha256 payload",
      text: #"{"mac":"9pmpSmZaxfFdsFT51Qt9bmoDK3AcdhNOL4NsBLHlOUg=","iv":"\#(iv12)","payload":"\#(gcm)"}"#),
    Vector(
      cipher: .aes256GCM, mac: "hmac-sha1 fields to amount none ok",
      text: #"{"mac":"0CZ28tDCcSzzu3nsRfOKBsupFIs=","iv":"\#(iv12)","payload":"\#(gcm)"}"#),
  ]

  @Test(arguments: vectors)
  func `what others sealed is opened, and sealed the same`(vector: Vector) throws {
    let keys = try #require(Parts.keys(Parts.suite(vector.cipher, vector.mac)))
    #expect(Opener(keys).outcome(vector.text) == .success(Array(Parts.plain.utf8)))
    let iv = (0..<UInt8(vector.cipher.ivCount)).map { 160 + $0 }
    let sealed = try Sealer(requests: keys).sealed(Array(Parts.plain.utf8), iv: iv)
    #expect(String(decoding: sealed, as: UTF8.self) == vector.text)
  }

  // MARK: Round trips

  @Test(arguments: Parts.suites)
  func `bodies of every length around a block come back`(suite: EnvelopeSuite) throws {
    let keys = try #require(Parts.keys(suite))
    let answers = try #require(Parts.keys(suite.ofResponses))
    for count in Array(0...49) + [4095, 4096, 100_000] {
      let plain = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
      let sealed = try Sealer(responses: keys).sealed(plain)
      #expect(Opener(answers).outcome(sealed) == .success(plain), "\(count)")
    }
    let object = Array(#"  {"to":"x","ok":false}"#.utf8) + Array(repeating: 0x20, count: 17)
    #expect(Opener(keys).outcome(try Sealer(requests: keys).sealed(object)) == .success(object))
  }

  @Test func `no two envelopes have one IV`() throws {
    let keys = try #require(Parts.keys(Parts.suite(.aes256GCM, "none")))
    let sealed = try (0..<1000).map { _ in try Sealer(requests: keys).sealed([1]) }
    #expect(Set(sealed.map { $0.prefix(24) }).count == 1000)
  }

  @Test func `the previous pair of keys opens, and only as a pair`() throws {
    for suite in Parts.suites {
      let old = try #require(Parts.keys(suite, shift: 9)), new = try #require(Parts.keys(suite, shift: 3))
      let both = try #require(Parts.keys(suite, shift: 3, previous: 9))
      let plain = Array(Parts.plain.utf8)
      #expect(Opener(both).outcome(try Sealer(requests: old).sealed(plain)) == .success(plain))
      #expect(Opener(new).outcome(try Sealer(requests: both).sealed(plain)) == .success(plain))
      #expect(Opener(new).outcome(try Sealer(requests: old).sealed(plain)) != .success(plain))
      guard suite.mac != nil else { continue }
      let key = SecretBytes((0..<UInt8(suite.cipher.keyCount)).map { $0 &+ 3 })
      let crossed = try #require(
        EnvelopeKeys.Pair(suite, cipherKey: key, macKey: SecretBytes((64..<96).map { $0 + 9 })))
      let envelope = try Sealer(requests: EnvelopeKeys(suite, current: crossed)).sealed(plain)
      #expect(Opener(both).outcome(envelope) == .failure(.forged))
    }
  }

  // MARK: Faults

  private func fault(_ text: String, _ cipher: Cipher = .aes256CBC, _ mac: String = "hmac-sha256") -> EnvelopeError? {
    guard let keys = Parts.keys(Parts.suite(cipher, mac)), case .failure(let fault) = Opener(keys).outcome(text) else {
      return nil
    }
    return fault
  }

  @Test func `each fault has its name in the log`() throws {
    let iv = "oKGio6SlpqeoqaqrrK2urw==", mac = "5S+iq5ECBuOwp61ei7UV1XdyrtSLHE1/vrKutMD/Wxs="
    let block = "AAAAAAAAAAAAAAAAAAAAAA=="
    #expect(fault("") == .malformed)
    #expect(fault("[]") == .malformed)
    #expect(fault(#"{"mac":"\#(mac)","iv":"\#(iv)","payload":"\#(block)"} {}"#) == .malformed)
    #expect(fault(#"{"mac":"\#(mac)","payload":"\#(block)"}"#) == .missing(.iv))
    #expect(fault(#"{"mac":"\#(mac)","iv":"\#(iv)"}"#) == .missing(.payload))
    #expect(fault(#"{"iv":"\#(iv)","payload":"\#(block)"}"#) == .missing(.mac))
    #expect(fault(#"{"mac":"\#(mac)","iv":"\#(iv)","payload":"\#(block)","iv":"\#(iv)"}"#) == .doubled(.iv))
    #expect(fault(#"{"mac":null,"iv":"\#(iv)","payload":"\#(block)"}"#) == .noString(.mac))
    #expect(fault(#"{"mac":"\#(mac)","iv":["\#(iv)"],"payload":"\#(block)"}"#) == .noString(.iv))
    #expect(fault(#"{"mac":"\#(mac)","iv":"\#(iv)","payload":"AAAAAAAAAAAAAAAAAAAAAB=="}"#) == .base64(.payload))
    #expect(fault(#"{"mac":"\#(mac)","iv":"\#(iv)","payload":"AAAAAAAAAAAAAAAAAAAAAA"}"#) == .base64(.payload))
    #expect(fault(#"{"mac":"\#(mac)","iv":"\#(iv)","payload":" \#(block)"}"#) == .base64(.payload))
    #expect(fault(#"{"mac":"\#(mac)","iv":"oKGio6Slpqeoqaqr","payload":"\#(block)"}"#) == .size(.iv))
    #expect(fault(#"{"mac":"\#(mac)","iv":"\#(iv)","payload":""}"#) == .size(.payload))
    #expect(fault(#"{"mac":"\#(mac)","iv":"\#(iv)","payload":"AAAA"}"#) == .size(.payload))
    #expect(fault(#"{"mac":"AAAA","iv":"\#(iv)","payload":"\#(block)"}"#) == .size(.mac))
    #expect(fault(#"{"mac":"\#(mac)","iv":"\#(iv)","payload":"\#(block)"}"#, .aes256GCM, "none") == .size(.iv))
    let tag = #""iv":"oKGio6Slpqeoqaqr","payload":"\#(block)"}"#
    #expect(fault("{" + tag, .aes256GCM, "none") == .forged)
    #expect(fault(#"{"mac":"","# + tag, .aes256GCM, "none") == .unexpectedMAC)
  }

  /// A tag of one byte is found by 256 tries. The tag is the last 16 bytes, whatever stands there.
  @Test func `no message opens by a GCM tag of fewer bytes`() throws {
    let suite = try #require(Parts.suite(.aes256GCM, "none")), pair = try #require(Parts.pair(suite))
    let keys = try #require(Parts.keys(suite)), iv = [UInt8](repeating: 1, count: 12)
    for plain in [[], [7], [UInt8](repeating: 7, count: 40)] as [[UInt8]] {
      var payload = ByteBuffer()
      _ = plain.withUnsafeBytes { text in iv.withUnsafeBytes { pair.cipher.encrypt(text, iv: $0, to: &payload) } }
      let whole = payload.octets
      func outcome(_ payload: [UInt8]) -> Result<[UInt8], EnvelopeError> {
        Opener(keys).outcome(
          payload.withUnsafeBytes { EnvelopeFormat.write(mac: nil, iv: iv, payload: $0).octets })
      }
      #expect(outcome(whole) == .success(plain))
      for count in 0..<whole.count {
        #expect(outcome(Array(whole.prefix(count))) == .failure(count < 16 ? .size(.payload) : .forged), "\(count)")
      }
      // Each byte of the tag counts.
      for place in 0..<16 {
        var forged = whole
        forged[forged.count - 16 + place] ^= 1
        #expect(outcome(forged) == .failure(.forged), "\(place)")
      }
    }
  }

  @Test func `members may stand in any order, escaped, beside others`() throws {
    let vector = Self.vectors[0]
    let parts = vector.text.dropFirst().dropLast().split(separator: ",").map(String.init)
    let keys = try #require(Parts.keys(Parts.suite(vector.cipher, vector.mac)))
    let spelt = (parts.reversed() + [#""mac2":{"mac":[1]}"#, #""":null"#]).joined(separator: " ,\n")
      .replacing("/", with: #"\/"#).replacing("+", with: #"\u002B"#)
    #expect(Opener(keys).outcome("{\(spelt)}") == .success(Array(Parts.plain.utf8)))
  }

  @Test func `wrong padding and a wrong code are faults of their own`() throws {
    let suite = try #require(Parts.suite(.aes256CBC, "hmac-sha256 payload"))
    let keys = try #require(Parts.keys(suite)), pair = try #require(Parts.pair(suite))
    var plain = [UInt8](repeating: 7, count: 31)
    func sealed(_ mac: [UInt8]) -> [UInt8] {
      let iv = [UInt8](repeating: 1, count: 16)
      var payload = ByteBuffer()
      _ = plain.withUnsafeBytes { plain in iv.withUnsafeBytes { pair.cipher.encrypt(plain, iv: $0, to: &payload) } }
      return EnvelopeFormat.write(mac: mac, iv: iv, payload: payload.readable).octets
    }
    func code(_ bytes: [UInt8]) throws -> [UInt8] {
      var mac = try #require(pair.mac).begin()
      bytes.withUnsafeBytes { mac.add($0) }
      return mac.finish()
    }
    #expect(Opener(keys).outcome(sealed(try code(plain))) == .success(plain))
    #expect(Opener(keys).outcome(sealed([UInt8](repeating: 0, count: 32))) == .failure(.forged))
    // A whole block of padding follows 48 bytes; taken off, the text's own end is read as padding.
    for (end, isPadding) in [([0], false), ([17], false), ([2, 3, 3], false), ([1], true), ([2, 2], true)] {
      plain = [UInt8](repeating: 9, count: 48 - end.count) + end.map { UInt8($0) }
      let text = String(decoding: sealed(try code(Array(plain.dropLast(isPadding ? end.count : 0)))), as: UTF8.self)
      let shortened = try #require(shorten(text))
      if isPadding {
        #expect(Opener(keys).outcome(shortened) == .success(Array(plain.dropLast(end.count))))
      } else {
        #expect(Opener(keys).outcome(shortened) == .failure(.padding), "\(end)")
      }
    }
  }

  /// An envelope without the last block of its payload.
  private func shorten(_ text: String) -> String? {
    guard let start = text.firstRange(of: #""payload":""#)?.upperBound,
      let payload = try? Base64.decode(String(text[start...].dropLast(2)))
    else { return nil }
    return text[..<start] + Base64.encode(payload.dropLast(16)) + #""}"#
  }

  @Test func `fields takes scalars once, of an object`() throws {
    let named = try #require(Parts.keys(Parts.suite(.aes256GCM, "hmac-sha256 fields a")))
    let payload = try #require(Parts.keys(Parts.suite(.aes256GCM, "hmac-sha256 payload")))
    let empty = Array("{}".utf8)
    #expect(Opener(named).outcome(try Sealer(requests: named).sealed(empty)) == .success(empty))
    for text in [#"{"a":[]}"#, #"{"a":{}}"#, #"{"a":1,"a":1}"#, "[]", "", "x", #"{"a":1}}"#, #"{"a":1}\#u{1}"#] {
      #expect(throws: SealingError.text) { try Sealer(requests: named).sealed(Array(text.utf8)) }
      // Whatever its code: one that somebody with the keys made is a fault all the same.
      let sealed = try Sealer(requests: payload).sealed(Array(text.utf8))
      #expect(Opener(named).outcome(sealed) != .success(Array(text.utf8)), "\(text)")
    }
  }

  @Test func `a text with the right code that is no object is refused`() throws {
    for cipher in Cipher.allCases {
      let suite = try #require(Parts.suite(cipher, "hmac-sha256 fields a")), pair = try #require(Parts.pair(suite))
      let keys = EnvelopeKeys(suite, current: pair)
      // No member, so the code is that of nothing.
      let code = try #require(pair.mac).begin().finish()
      for (text, isObject) in [("{} ", true), ("{}x", false), ("[]", false), ("{} \u{1}", false), ("{}\t\t\t", true)] {
        let iv = [UInt8](repeating: 1, count: cipher.ivCount)
        var payload = ByteBuffer()
        _ = Array(text.utf8).withUnsafeBytes { plain in
          iv.withUnsafeBytes { pair.cipher.encrypt(plain, iv: $0, to: &payload) }
        }
        let body = EnvelopeFormat.write(mac: code, iv: iv, payload: payload.readable).octets
        #expect(Opener(keys).outcome(body) == (isObject ? .success(Array(text.utf8)) : .failure(.text)), "\(text)")
      }
    }
  }

  @Test func `a member that a parser could take for a named one is refused`() throws {
    for cipher in Cipher.allCases {
      let suite = try #require(Parts.suite(cipher, "hmac-sha256 fields id")), pair = try #require(Parts.pair(suite))
      let keys = EnvelopeKeys(suite, current: pair)
      var mac = try #require(pair.mac).begin()
      Array("7".utf8).withUnsafeBytes { mac.add($0) }
      let code = mac.finish()
      for (text, isPlain) in [
        (#"{"id":7,"x":8}"#, true), (#"{"id":7,"ID":8}"#, false), (#"{"Id":8,"id":7}"#, false),
        (#"{"id":7,"id\u0000":8}"#, false),
      ] {
        let iv = [UInt8](repeating: 1, count: cipher.ivCount)
        var payload = ByteBuffer()
        _ = Array(text.utf8).withUnsafeBytes { plain in
          iv.withUnsafeBytes { pair.cipher.encrypt(plain, iv: $0, to: &payload) }
        }
        let body = EnvelopeFormat.write(mac: code, iv: iv, payload: payload.readable).octets
        #expect(Opener(keys).outcome(body) == (isPlain ? .success(Array(text.utf8)) : .failure(.text)), "\(text)")
        if !isPlain { #expect(throws: SealingError.text) { try Sealer(requests: keys).sealed(Array(text.utf8)) } }
      }
    }
  }
}
