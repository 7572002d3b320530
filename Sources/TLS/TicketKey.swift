public import Bytes
import COpenSSL

/// One key of `ssl_session_ticket_key`. It encrypts tickets that any server with the same file can decrypt.
public struct TicketKey: Sendable {
  /// The first 16 octets of a ticket, which name its key.
  let name: SecretBytes
  let cipherKey: SecretBytes
  let macKey: SecretBytes
  let isLong: Bool

  /// Parses nginx's layouts: 48 bytes (name, AES-128, HMAC) or 80 (name, HMAC, AES-256). Returns nil for any other
  /// length.
  public init?(_ bytes: SecretBytes) {
    let parts: (cipher: Range<Int>, mac: Range<Int>)
    switch bytes.count {
    case 48: parts = (16..<32, 32..<48)
    case 80: parts = (48..<80, 16..<48)
    default: return nil
    }
    isLong = bytes.count == 80
    (name, cipherKey, macKey) = bytes.withUnsafeBytes { raw in
      func part(_ range: Range<Int>) -> SecretBytes {
        SecretBytes(copying: UnsafeRawBufferPointer(rebasing: raw[range]))
      }
      return (part(0..<16), part(parts.cipher), part(parts.mac))
    }
  }

  private var cipher: OpaquePointer? { isLong ? EVP_aes_256_cbc() : EVP_aes_128_cbc() }

  private func withKeys(_ body: (UnsafePointer<UInt8>, UnsafeRawBufferPointer) -> Bool) -> Bool {
    cipherKey.withUnsafeBytes { cipher in
      macKey.withUnsafeBytes { mac in
        guard let key = cipher.baseAddress else { return false }
        return body(key.assumingMemoryBound(to: UInt8.self), mac)
      }
    }
  }

  /// Prepares both contexts to encrypt (`seals`) or to decrypt a ticket.
  func use(
    _ cipherContext: OpaquePointer, _ mac: OpaquePointer, iv: UnsafeMutablePointer<UInt8>, seals: Bool
  ) -> Bool {
    withKeys { key, macKey in
      guard let macBytes = macKey.baseAddress,
        copenssl_mac_use_hmac_sha256(mac, macBytes.assumingMemoryBound(to: UInt8.self), macKey.count) == 1
      else { return false }
      return
        (seals
        ? EVP_EncryptInit_ex(cipherContext, cipher, nil, key, iv)
        : EVP_DecryptInit_ex(cipherContext, cipher, nil, key, iv)) == 1
    }
  }

  /// The name, which each ticket shows in clear.
  package var shownName: [UInt8] { name.withUnsafeBytes { Array($0) } }

  func hasName(_ other: UnsafePointer<UInt8>) -> Bool {
    name.withUnsafeBytes { $0.elementsEqual(UnsafeRawBufferPointer(start: other, count: 16)) }
  }
}
