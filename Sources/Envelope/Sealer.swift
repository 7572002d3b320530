public import Bytes
import Crypto

/// Why a body was not sealed: then nobody gets it.
public enum SealingFault: Error, Sendable, Hashable, CustomStringConvertible {
  /// `fields`: no JSON object, or a named member is no scalar or there twice.
  case text
  /// The kernel gave no random bytes.
  case random
  /// OpenSSL failed.
  case cipher

  public var description: String {
    switch self {
    case .text: "it is no JSON object with scalars in the named fields"
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
    guard let iv = SystemRandom.bytes(suite.cipher.ivCount) else { throw .random }
    return try seal(plain, iv: iv)
  }

  /// With a given IV: for comparison with what others make.
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
