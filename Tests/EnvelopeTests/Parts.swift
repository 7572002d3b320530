import Bytes
import Crypto
@testable import Envelope

/// Keys and suites of the tests: cipher keys count up from 0, the MAC key from 64, the IV from 160.
enum Parts {
  static let plain =
    #"{"amount": 12.50, "to": "Zoë \ud83d\ude00\/x", "ok": true}"#
  static let fields = EnvelopeMAC.Scope.fields(["to", "amount", "none", "ok"].map { Array($0.utf8) })

  static func suite(_ cipher: Cipher, _ words: String) -> EnvelopeSuite? {
    let parsed = Result { () throws(EnvelopeMACError) in
      try EnvelopeMAC.parse(words.split(separator: " ").map(String.init))
    }
    guard case .success(let mac) = parsed else { return nil }
    return try? EnvelopeSuite(cipher, mac)
  }

  /// `shift`: another key for each.
  static func pair(_ suite: EnvelopeSuite, shift: UInt8 = 0) -> EnvelopeKeys.Pair? {
    let key = (0..<UInt8(suite.cipher.keyCount)).map { $0 &+ shift }
    let macKey = (64..<96 as Range<UInt8>).map { $0 &+ shift }
    return EnvelopeKeys.Pair(
      suite, cipherKey: SecretBytes(key), macKey: suite.mac == nil ? nil : SecretBytes(macKey))
  }

  static func keys(_ suite: EnvelopeSuite?, shift: UInt8 = 0, previous: UInt8? = nil) -> EnvelopeKeys? {
    guard let suite, let current = pair(suite, shift: shift) else { return nil }
    return EnvelopeKeys(suite, current: current, previous: previous.flatMap { pair(suite, shift: $0) })
  }

  /// Every cipher with every way to authenticate.
  static let suites: [EnvelopeSuite] = Cipher.allCases.flatMap { cipher in
    ["hmac-sha256 payload", "hmac-sha1", "hmac-sha256 fields to amount none ok", "hmac-sha1 fields ok", "none"]
      .compactMap { suite(cipher, $0) }
  }
}

extension Opener {
  /// The plain body, or why not.
  func outcome(_ body: [UInt8], now: UInt64 = 0) -> Result<[UInt8], EnvelopeError> {
    body.withUnsafeBytes { raw in
      do throws(EnvelopeError) {
        let text = try open(raw, now: now)
        return .success(text.octets)
      } catch { return .failure(error) }
    }
  }

  func outcome(_ body: String, now: UInt64 = 0) -> Result<[UInt8], EnvelopeError> {
    outcome(Array(body.utf8), now: now)
  }
}

extension Sealer {
  func sealed(_ plain: [UInt8], iv: [UInt8]? = nil) throws(SealingError) -> [UInt8] {
    let outcome = plain.withUnsafeBytes { raw in
      Result { () throws(SealingError) in
        if let iv { return try seal(raw, iv: iv).octets }
        return try seal(raw).octets
      }
    }
    return try outcome.get()
  }
}

extension ByteBuffer {
  /// A copy, made while the buffer lives.
  var octets: [UInt8] { Array(readable) }
}
