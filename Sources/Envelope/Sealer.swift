public import Bytes
import Crypto

/// Why a body was not sealed: then nobody gets it.
public enum SealingFault: Error, Sendable, Hashable, CustomStringConvertible {
  /// `fields`: no JSON object, or a named member is no scalar or there twice, or one beside it could be taken for it.
  case text
  /// The window can remember no more: what would be sealed could come back as a request.
  case windowFull
  /// The kernel gave no random bytes.
  case random
  /// OpenSSL failed.
  case cipher

  public var description: String {
    switch self {
    case .text: "it is no JSON object with scalars in the named fields, each there once and in one spelling"
    case .windowFull: "the replay window is full"
    case .random: "the system gives no random bytes"
    case .cipher: "OpenSSL can't encrypt it"
    }
  }
}

/// Seals bodies with the current keys, each with an IV of its own.
public struct Sealer: Sendable {
  private let suite: EnvelopeSuite
  private let keys: EnvelopeKeys.Pair

  /// For requests, as a client makes them.
  public init(requests keys: EnvelopeKeys) {
    suite = keys.suite
    self.keys = keys.current
  }

  /// For answers, of which the whole is authenticated.
  public init(responses keys: EnvelopeKeys) {
    suite = keys.suite.ofResponses
    self.keys = keys.current
  }

  public func seal(_ plain: UnsafeRawBufferPointer) throws(SealingFault) -> ByteBuffer {
    try seal(plain, iv: iv())
  }

  /// One for each text.
  func iv() throws(SealingFault) -> [UInt8] {
    guard let iv = SystemRandom.bytes(suite.cipher.ivCount) else { throw .random }
    return iv
  }

  /// With a given IV: one that is remembered, or for comparison with what others make.
  func seal(_ plain: UnsafeRawBufferPointer, iv: [UInt8]) throws(SealingFault) -> ByteBuffer {
    let mac = try code(of: plain)
    var payload = ByteBuffer()
    guard iv.withUnsafeBytes({ keys.cipher.encrypt(plain, iv: $0, to: &payload) }) else { throw .cipher }
    return EnvelopeFormat.write(mac: mac, iv: iv, payload: payload.readable)
  }

  private func code(of plain: UnsafeRawBufferPointer) throws(SealingFault) -> [UInt8]? {
    guard let wanted = suite.mac, let key = keys.mac else { return nil }
    var mac = key.begin()
    switch wanted.scope {
    case .payload: mac.add(plain)
    case .fields(let names):
      let fields = FieldsText(plain, names: names)
      guard !fields.isWrong, fields.firstStray == plain.count else { throw .text }
      mac.add(fields.joined.readable)
    }
    let code = mac.finish()
    guard code.count == wanted.algorithm.count else { throw .cipher }
    return code
  }
}
