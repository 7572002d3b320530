import Bytes
import Crypto
import Envelope
import FuzzSupport

/// The first byte picks cipher, MAC and what the rest is: an envelope as it comes, or a text to be sealed.
///
/// Holds: no envelope opens that was not sealed with the keys, but where the fuzzer was handed one; what is sealed opens
/// to the same text, once where replays are looked for; an envelope that was cut short or has one bit changed does not
/// open to another text.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 1 else { return 0 }
  let choice = start[0], rest = UnsafeRawBufferPointer(start: start + 1, count: count - 1)
  let keys = suites[Int(choice & 0x0F) % suites.count]
  if choice & 0x80 == 0 {
    guard let plain = open(rest, keys) else { return 0 }
    // Of the corpus, or of a suite whose MAC is over fields that were left alone.
    require(plain.count < rest.count)
    return 0
  }
  let sealer = choice & 0x40 == 0 ? Sealer(responses: keys) : Sealer(requests: keys)
  guard let sealed = seal(rest, sealer) else { return 0 }
  var opening = keys
  if choice & 0x40 == 0 { opening = answers[Int(choice & 0x0F) % suites.count] }
  require(open(sealed, opening) == Array(rest))
  guard choice & 0x40 == 0 || opening.suite.mac.map({ $0.scope == .payload }) ?? true else { return 0 }
  for at in [Int(start[count - 1]) % sealed.count, sealed.count / 2, sealed.count - 3] {
    var spoilt = sealed
    spoilt[at] ^= 1 << (choice >> 4 & 3)
    if let text = open(spoilt, opening) { require(text == Array(rest)) }
    require(open(Array(sealed[..<at]), opening) == nil)
  }
  return 0
}

func open(_ body: UnsafeRawBufferPointer, _ keys: EnvelopeKeys) -> [UInt8]? {
  let opener = Opener(keys, replays: ReplayGuard(ReplayWindow(limit: 4), span: 10))
  do throws(EnvelopeError) {
    let plain = try opener.open(body, now: 5)
    let text = Array(plain.readable)
    do throws(EnvelopeError) {
      _ = try opener.open(body, now: 15)
      require(false)
    } catch { require(error == .replayed) }
    return text
  } catch { return nil }
}

func open(_ body: [UInt8], _ keys: EnvelopeKeys) -> [UInt8]? { body.withUnsafeBytes { open($0, keys) } }

func seal(_ plain: UnsafeRawBufferPointer, _ sealer: Sealer) -> [UInt8]? {
  do throws(SealingError) {
    let sealed = try sealer.seal(plain)
    return Array(sealed.readable)
  } catch {
    require(error == .text)
    return nil
  }
}

let suites: [EnvelopeKeys] = made { words, cipher in EnvelopeSuiteWords(cipher: cipher, words: words) }
let answers: [EnvelopeKeys] = made { words, cipher in
  EnvelopeSuiteWords(cipher: cipher, words: words.first == "none" ? words : [words[0]])
}

struct EnvelopeSuiteWords {
  var cipher: Cipher
  var words: [String]

  var keys: EnvelopeKeys? {
    let parsed = Result { () throws(EnvelopeMACError) in try EnvelopeMAC.parse(words) }
    guard case .success(let mac) = parsed, let suite = try? EnvelopeSuite(cipher, mac) else { return nil }
    let key = SecretBytes((0..<UInt8(cipher.keyCount)).map { $0 })
    let macKey = mac == nil ? nil : SecretBytes((64..<96 as Range<UInt8>).map { $0 })
    return EnvelopeKeys.Pair(suite, cipherKey: key, macKey: macKey).map { EnvelopeKeys(suite, current: $0) }
  }
}

func made(_ make: ([String], Cipher) -> EnvelopeSuiteWords) -> [EnvelopeKeys] {
  Cipher.allCases.flatMap { cipher in
    [["hmac-sha256", "payload"], ["hmac-sha1", "payload"], ["hmac-sha256", "fields", "to", "n"], ["none"]]
      .compactMap { make($0, cipher).keys }
  }
}
