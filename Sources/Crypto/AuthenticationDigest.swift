import COpenSSL

/// The hash functions of HTTP Digest and NTLM. Servers demand MD5; sallyport trusts nothing by it.
package enum AuthenticationDigest: Sendable, Hashable {
  case md5, sha256

  fileprivate var handle: OpaquePointer? { self == .md5 ? EVP_md5() : EVP_sha256() }

  /// Returns the hash; nil when this OpenSSL lacks the function (MD5 in a FIPS build).
  package func of(_ bytes: [UInt8]) -> [UInt8]? {
    let octets = bytes.withUnsafeBytes { bytes in
      Digest.collect { EVP_Digest(bytes.baseAddress, bytes.count, $0, $1, handle, nil) }
    }
    return octets.isEmpty ? nil : octets
  }

  /// Returns the HMAC (RFC 2104); nil when this OpenSSL lacks the function.
  package func hmac(key: [UInt8], _ message: [UInt8]) -> [UInt8]? {
    let octets = Digest.collect { output, count in
      message.withUnsafeBufferPointer { text in
        key.withUnsafeBytes {
          HMAC(handle, $0.baseAddress, CInt(clamping: $0.count), text.baseAddress, text.count, output, count) == nil
            ? 0 : 1
        }
      }
    }
    return octets.isEmpty ? nil : octets
  }
}

/// Hashes bytes that arrive in pieces. Only one thread may use it.
package final class RunningDigest {
  private let context: OpaquePointer?
  private var isSound: Bool

  package convenience init(_ algorithm: AuthenticationDigest) { self.init(algorithm.handle) }

  package convenience init(_ algorithm: Digest.Algorithm) { self.init(algorithm.handle) }

  private init(_ algorithm: OpaquePointer?) {
    context = EVP_MD_CTX_new()
    isSound = EVP_DigestInit_ex(context, algorithm, nil) == 1
  }

  deinit { EVP_MD_CTX_free(context) }

  package func update(_ bytes: UnsafeRawBufferPointer) {
    isSound = isSound && EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) == 1
  }

  /// Returns the hash. Call it once; nil when any step failed.
  package func finish() -> [UInt8]? {
    guard isSound else {
      OpenSSLError.discard()
      return nil
    }
    isSound = false
    let octets = Digest.collect { EVP_DigestFinal_ex(context, $0, $1) }
    return octets.isEmpty ? nil : octets
  }
}
