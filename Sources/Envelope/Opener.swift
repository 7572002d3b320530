public import Bytes
import Crypto

/// Opens envelopes. This is a value, and any thread may use it.
///
/// Every envelope that fails to open costs the same work, whatever is wrong with it. The opener decrypts and
/// authenticates it with each key; for a body that is not an envelope it does so with a stand-in of the same size.
/// docs/decisions/0014.
public struct Opener: Sendable {
  private let keys: EnvelopeKeys
  private let replays: ReplayGuard?

  public init(_ keys: EnvelopeKeys, replays: ReplayGuard? = nil) {
    self.keys = keys
    self.replays = replays
  }

  /// Returns the plain body. `now`: milliseconds of a monotonic clock, the same for all users of the window.
  public func open(_ body: UnsafeRawBufferPointer, now: UInt64) throws(EnvelopeError) -> ByteBuffer {
    var name: [UInt8] = []
    return try open(body, now: now, name: &name)
  }

  /// `open`. `name` gets what names the envelope among all that its keys ever seal: the keys' name and the IV.
  package func open(
    _ body: UnsafeRawBufferPointer, now: UInt64, name: inout [UInt8]
  ) throws(EnvelopeError) -> ByteBuffer {
    var fault: EnvelopeError?
    let sealed: EnvelopeFormat.Sealed
    do throws(EnvelopeError) { sealed = try EnvelopeFormat.read(body, keys.suite) } catch {
      fault = error
      sealed = EnvelopeFormat.standIn(for: body, keys.suite)
    }
    var text = ByteBuffer()
    var verdict = judge(sealed, keys.current, filler: body, into: &text)
    var window = replays?.window
    var keysName = keys.current.identity
    if !verdict.isAuthentic, let previous = keys.previous {
      let first = verdict
      text.removeAll()
      verdict = judge(sealed, previous, filler: body, into: &text)
      if verdict.isAuthentic {
        window = replays?.previous
        keysName = previous.identity
      } else {
        verdict = first
      }
    }
    let isAuthentic = fault == nil && verdict.isAuthentic
    let novelty =
      window?.look(sealed.iv, now: now, span: replays?.span ?? 0, remembers: isAuthentic) ?? .new
    guard isAuthentic else { throw fault ?? verdict.fault }
    switch novelty {
    case .new: break
    case .seen, .forgotten: throw .replayed
    case .unknown: throw .windowFull
    }
    text.truncate(to: text.count - Int(verdict.padding.count))
    name = keysName + sealed.iv
    return text
  }

  /// The result of one pair of keys. The masks have all bits set, or none.
  private struct Verdict {
    var padding: PaddedText.Padding
    var isForged: UInt32
    var isWrongText: UInt32

    var isAuthentic: Bool { padding.isWrong | isForged | isWrongText == 0 }
    /// The fault. Only meaningful when `isAuthentic` is false.
    var fault: EnvelopeError { padding.isWrong != 0 ? .padding : isForged != 0 ? .forged : .text }
  }

  private func judge(
    _ sealed: EnvelopeFormat.Sealed, _ pair: EnvelopeKeys.Pair, filler: UnsafeRawBufferPointer,
    into text: inout ByteBuffer
  ) -> Verdict {
    let isDecrypted = sealed.payload.withUnsafeBytes { payload in
      sealed.iv.withUnsafeBytes { pair.cipher.decrypt(payload, iv: $0, to: &text) }
    }
    let plain = text.readable
    var verdict = Verdict(
      padding: PaddedText.Padding(count: 0, isWrong: 0), isForged: isDecrypted ? 0 : .max, isWrongText: 0)
    if !keys.suite.cipher.isAuthenticated {
      // This happens only when OpenSSL itself failed.
      guard plain.count == sealed.payload.count, plain.count >= Cipher.blockCount else { return verdict }
      verdict.padding = PaddedText.padding(of: plain)
    }
    guard let mac = pair.mac, let scope = keys.suite.mac?.scope else { return verdict }
    let code: [UInt8]
    switch scope {
    case .payload where keys.suite.cipher.isAuthenticated:
      var whole = mac.begin()
      whole.add(plain)
      code = whole.finish()
    case .payload: code = PaddedText.code(of: plain, verdict.padding, mac)
    case .fields(let names):
      let fields = FieldsText(plain, names: names)
      // Blanks and then the padding follow the object. Comparing positions keeps the padding out of the parsing.
      let end = UInt32(truncatingIfNeeded: plain.count) &- verdict.padding.count
      let (object, stray) = (
        UInt32(truncatingIfNeeded: fields.endOfObject), UInt32(truncatingIfNeeded: fields.firstStray)
      )
      verdict.isWrongText =
        (fields.isWrong ? .max : 0) | PaddedText.isLess(end, object) | PaddedText.isLess(stray, end)
      code = fields.code(of: plain, filler: filler, mac)
    }
    verdict.isForged |= ConstantTime.equal(code, sealed.mac) ? 0 : .max
    return verdict
  }
}
