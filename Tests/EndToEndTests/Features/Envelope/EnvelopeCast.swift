import Bytes
import Crypto
import Envelope
import Foundation
import TestSupport
import Testing

/// Keys of one suite in a scene's folder, and the client's side of it.
struct EnvelopeCast: Sendable {
  let scene: Scene
  let suite: EnvelopeSuite
  let keys: EnvelopeKeys
  /// Names of the files.
  let key: String
  let macKey: String

  /// `name`: of the files; what they hold depends on it.
  init(_ scene: Scene, _ cipher: Cipher = .aes256CBC, _ mac: String = "hmac-sha256 payload", name: String = "new")
    throws
  {
    self.scene = scene
    let words = mac.split(separator: " ").map(String.init)
    suite = try EnvelopeSuite(cipher, EnvelopeMAC.parse(words))
    (key, macKey) = ("\(name).key", "\(name).mac")
    let seed = name.utf8.reduce(0) { $0 &+ $1 }
    let bytes = (0..<UInt8(cipher.keyCount)).map { $0 &+ seed }, macBytes = (0..<32 as Range<UInt8>).map { $0 ^ seed }
    try scene.write(key, text: Hex.encode(bytes) + "\n")
    try scene.write(macKey, text: Base64.encode(macBytes))
    let pair = EnvelopeKeys.Pair(
      suite, cipherKey: SecretBytes(bytes), macKey: suite.mac == nil ? nil : SecretBytes(macBytes))
    keys = EnvelopeKeys(suite, current: try #require(pair))
  }

  /// The directives that go with it.
  func lines(_ more: String = "", keys: String? = nil, macKeys: String? = nil) -> String {
    let mac: String
    switch suite.mac?.scope {
    case nil: mac = "none;"
    case .payload:
      mac = "\(suite.mac?.algorithm.rawValue ?? "") payload; message_envelope_mac_key \(macKeys ?? macKey);"
    case .fields(let names):
      let names = names.map { String(decoding: $0, as: UTF8.self) }.joined(separator: " ")
      mac = "\(suite.mac?.algorithm.rawValue ?? "") fields \(names); message_envelope_mac_key \(macKeys ?? macKey);"
    }
    return """
      message_envelope on; message_envelope_cipher \(suite.cipher.rawValue);
      message_envelope_key \(keys ?? key); message_envelope_mac \(mac) \(more)
      """
  }

  func seal(_ plain: [UInt8]) throws -> [UInt8] {
    let outcome = plain.withUnsafeBytes { raw in
      Result { () throws(SealingError) -> [UInt8] in
        let sealed = try Sealer(requests: keys).seal(raw)
        return Array(sealed.readable)
      }
    }
    return try outcome.get()
  }

  func seal(_ plain: String) throws -> [UInt8] { try seal(Array(plain.utf8)) }

  /// What an answer's body holds.
  func open(_ body: [UInt8]) throws -> [UInt8] {
    let words = suite.mac.map { [$0.algorithm.rawValue] } ?? ["none"]
    let answers = try EnvelopeSuite(suite.cipher, EnvelopeMAC.parse(words))
    let keys = EnvelopeKeys(answers, current: keys.current)
    let outcome = body.withUnsafeBytes { raw in
      Result { () throws(EnvelopeError) -> [UInt8] in
        let plain = try Opener(keys).open(raw, now: 0)
        return Array(plain.readable)
      }
    }
    return try outcome.get()
  }

  func openText(_ body: [UInt8]) throws -> String { String(decoding: try open(body), as: UTF8.self) }
}

extension Wire {
  /// POSTs a body with its length.
  func post(_ body: [UInt8], to path: String = "/echo", fields: [String] = []) throws -> HTTPMessage {
    let head = ["POST \(path) HTTP/1.1", "Host: h", "Content-Length: \(body.count)"] + fields
    try write(Array((head.joined(separator: "\r\n") + "\r\n\r\n").utf8) + body)
    return try response()
  }
}
