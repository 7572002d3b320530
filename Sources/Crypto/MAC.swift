public import Bytes
import COpenSSL

/// The HMACs (RFC 2104) that authenticate messages.
public enum MACAlgorithm: String, Sendable, Hashable, CaseIterable {
  case hmacSHA256 = "hmac-sha256"
  /// For peers that support nothing else. No forgery is known yet.
  case hmacSHA1 = "hmac-sha1"

  /// The length of a code in octets.
  public var count: Int { self == .hmacSHA256 ? 32 : 20 }
  /// The block size of the digest in bytes. The number of blocks in a message determines the cost of its code.
  public static let blockCount = 64
}

/// A key of an algorithm. Any thread may use it.
// @unchecked: `init` sets the context up, and after that it is only copied.
public final class MACKey: @unchecked Sendable {
  public let algorithm: MACAlgorithm
  /// EVP_MAC_CTX* with the key, before the first byte.
  private let keyed: OpaquePointer

  /// Returns nil when the key is empty, or when OpenSSL lacks the algorithm (a FIPS provider without SHA-1, say).
  public init?(_ algorithm: MACAlgorithm, _ key: SecretBytes) {
    defer { OpenSSLError.discard() }
    guard !key.isEmpty, let mac = EVP_MAC_fetch(nil, "HMAC", nil) else { return nil }
    defer { EVP_MAC_free(mac) }
    guard let context = EVP_MAC_CTX_new(mac) else { return nil }
    let digest = algorithm == .hmacSHA256 ? "SHA256" : "SHA1"
    let isSet = key.withUnsafeBytes { key in
      copenssl_mac_init(context, key.baseAddress?.assumingMemoryBound(to: UInt8.self), key.count, digest) == 1
    }
    guard isSet else {
      EVP_MAC_CTX_free(context)
      return nil
    }
    self.algorithm = algorithm
    keyed = context
  }

  deinit { EVP_MAC_CTX_free(keyed) }

  package func begin() -> MAC { MAC(copying: keyed, count: algorithm.count) }
}

/// The computation of a code over bytes that arrive in pieces.
package struct MAC: ~Copyable {
  /// EVP_MAC_CTX*; nil after a failure, and then the code equals no other.
  private var context: OpaquePointer?
  private let count: Int

  fileprivate init(copying context: OpaquePointer?, count: Int) {
    self.context = context.flatMap { EVP_MAC_CTX_dup($0) }
    self.count = count
  }

  deinit { if let context { EVP_MAC_CTX_free(context) } }

  /// Returns a copy in the current state.
  package func copy() -> MAC { MAC(copying: context, count: count) }

  package mutating func add(_ bytes: UnsafeRawBufferPointer) {
    guard let running = context, bytes.count > 0 else { return }
    if EVP_MAC_update(running, bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), bytes.count) != 1 { drop() }
  }

  /// Returns the code; empty when OpenSSL failed.
  package consuming func finish() -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: count) { output, used in
      var made = 0
      let isMade = context != nil && EVP_MAC_final(context, output.baseAddress, &made, output.count) == 1
      used = isMade ? made : 0
    }
  }

  private mutating func drop() {
    if let context { EVP_MAC_CTX_free(context) }
    context = nil
    OpenSSLError.discard()
  }
}
