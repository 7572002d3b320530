public import Bytes
import Crypto

/// Why a body was not sealed. It is then not sent.
public enum SealingError: Error, Sendable, Hashable, CustomStringConvertible {
  /// `fields`: the text is not a JSON object; or a named member is not a scalar, occurs twice, or has a similar name
  /// beside it that another parser could take for it.
  case text
  /// The replay window is full: the sealed response could come back as a request.
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

/// Seals bodies with the current keys, each with its own IV.
public struct Sealer: Sendable {
  private let suite: EnvelopeSuite
  private let keys: EnvelopeKeys.Pair

  /// Makes a sealer for requests, as a client sends them.
  public init(requests keys: EnvelopeKeys) {
    suite = keys.suite
    self.keys = keys.current
  }

  /// Makes a sealer for responses, whose whole body is authenticated.
  public init(responses keys: EnvelopeKeys) {
    suite = keys.suite.ofResponses
    self.keys = keys.current
  }

  public func seal(_ plain: UnsafeRawBufferPointer) throws(SealingError) -> ByteBuffer {
    try seal(plain, iv: iv())
  }

  /// Makes a random IV, one for each text.
  func iv() throws(SealingError) -> [UInt8] {
    guard let iv = SystemRandom.bytes(suite.cipher.ivCount) else { throw .random }
    return iv
  }

  /// Seals with a given IV: one that the replay window remembers, or one for comparison with another implementation.
  func seal(_ plain: UnsafeRawBufferPointer, iv: [UInt8]) throws(SealingError) -> ByteBuffer {
    let mac = try code(of: plain)
    var payload = ByteBuffer()
    guard iv.withUnsafeBytes({ keys.cipher.encrypt(plain, iv: $0, to: &payload) }) else { throw .cipher }
    return EnvelopeFormat.write(mac: mac, iv: iv, payload: payload.readable)
  }

  private func code(of plain: UnsafeRawBufferPointer) throws(SealingError) -> [UInt8]? {
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
