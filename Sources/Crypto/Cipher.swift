public import Bytes
import COpenSSL

/// The ciphers that seal messages.
public enum Cipher: String, Sendable, Hashable, CaseIterable {
  case aes128CBC = "aes-128-cbc"
  case aes256CBC = "aes-256-cbc"
  case aes256GCM = "aes-256-gcm"

  /// The length of a key in octets.
  public var keyCount: Int { self == .aes128CBC ? 16 : 32 }
  /// The length of an IV in octets: a block, or GCM's 96 bits (NIST SP 800-38D §5.2.1.1).
  public var ivCount: Int { isAuthenticated ? 12 : 16 }
  /// Whether the cipher authenticates the text with its own tag, so that no MAC is needed.
  public var isAuthenticated: Bool { self == .aes256GCM }
  /// The length of GCM's tag, and below it that of a CBC block, in octets.
  public static let tagCount = 16
  public static let blockCount = 16

  fileprivate var handle: OpaquePointer? {
    switch self {
    case .aes128CBC: EVP_aes_128_cbc()
    case .aes256CBC: EVP_aes_256_cbc()
    case .aes256GCM: EVP_aes_256_gcm()
    }
  }
}

/// A key of a cipher. It works on whole messages in memory, and any thread may use it.
public struct CipherKey: Sendable {
  public let cipher: Cipher
  private let key: SecretBytes

  /// Returns nil when the key's length does not fit the cipher.
  public init?(_ cipher: Cipher, _ key: SecretBytes) {
    guard key.count == cipher.keyCount else { return nil }
    self.cipher = cipher
    self.key = key
  }

  /// Encrypts. CBC uses PKCS#7 padding. In GCM the tag follows the ciphertext, without associated data.
  ///
  /// `iv`: `ivCount` octets that no other message under this key has. Returns false when OpenSSL failed; then the
  /// output is useless.
  package func encrypt(
    _ plain: UnsafeRawBufferPointer, iv: UnsafeRawBufferPointer, to output: inout ByteBuffer
  ) -> Bool {
    defer { OpenSSLError.discard() }
    output.reserve(plain.count + Cipher.blockCount)
    let made = withContext(iv, EVP_EncryptInit_ex) { context in
      var count: CInt = 0
      guard let length = CInt(exactly: plain.count), let target = Self.octets(output.writable.baseAddress) else {
        return nil as Int?
      }
      guard EVP_EncryptUpdate(context, target, &count, Self.octets(plain.baseAddress), length) == 1 else { return nil }
      var made = Int(count)
      guard EVP_EncryptFinal_ex(context, target + made, &count) == 1 else { return nil }
      made += Int(count)
      guard cipher.isAuthenticated else { return made }
      let tagCount = CInt(Cipher.tagCount)
      guard EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, tagCount, target + made) == 1 else { return nil }
      return made + Cipher.tagCount
    }
    guard let made else { return false }
    output.didWrite(made)
    return true
  }

  /// Decrypts. CBC: writes `sealed.count` bytes with their padding, unchecked: OpenSSL's verdict on the padding, and
  /// the time it takes, would be an oracle. GCM: writes the text; do not use it when the result is false.
  ///
  /// `sealed`: whole blocks for CBC, at least a tag for GCM.
  package func decrypt(
    _ sealed: UnsafeRawBufferPointer, iv: UnsafeRawBufferPointer, to output: inout ByteBuffer
  ) -> Bool {
    defer { OpenSSLError.discard() }
    let count = cipher.isAuthenticated ? sealed.count - Cipher.tagCount : sealed.count
    guard count >= 0, cipher.isAuthenticated || count % Cipher.blockCount == 0, let length = CInt(exactly: count)
    else { return false }
    output.reserve(count + Cipher.blockCount)
    let isAuthentic = withContext(iv, EVP_DecryptInit_ex) { context in
      var made: CInt = 0
      guard let target = Self.octets(output.writable.baseAddress),
        EVP_CIPHER_CTX_set_padding(context, 0) == 1,
        EVP_DecryptUpdate(context, target, &made, Self.octets(sealed.baseAddress), length) == 1, Int(made) == count
      else { return nil as Bool? }
      guard cipher.isAuthenticated, let start = sealed.baseAddress else {
        return EVP_DecryptFinal_ex(context, target + count, &made) == 1
      }
      // OpenSSL only reads the tag.
      let tag = UnsafeMutableRawPointer(mutating: start + count)
      guard EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, CInt(Cipher.tagCount), tag) == 1 else { return nil }
      return EVP_DecryptFinal_ex(context, target + count, &made) == 1
    }
    guard let isAuthentic else { return false }
    output.didWrite(count)
    return isAuthentic
  }

  private typealias Initialization = (
    OpaquePointer?, OpaquePointer?, OpaquePointer?, UnsafePointer<UInt8>?, UnsafePointer<UInt8>?
  ) -> CInt

  private func withContext<R>(
    _ iv: UnsafeRawBufferPointer, _ begin: Initialization, _ body: (OpaquePointer) -> R?
  ) -> R? {
    guard iv.count == cipher.ivCount, let context = EVP_CIPHER_CTX_new() else { return nil }
    defer { EVP_CIPHER_CTX_free(context) }
    return key.withUnsafeBytes { key in
      guard begin(context, cipher.handle, nil, Self.octets(key.baseAddress), Self.octets(iv.baseAddress)) == 1 else {
        return nil
      }
      return body(context)
    }
  }

  private static func octets(_ pointer: UnsafeRawPointer?) -> UnsafePointer<UInt8>? {
    pointer?.assumingMemoryBound(to: UInt8.self)
  }

  private static func octets(_ pointer: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<UInt8>? {
    pointer?.assumingMemoryBound(to: UInt8.self)
  }
}
