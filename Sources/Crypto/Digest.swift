import COpenSSL

/// Digests of stored data: fingerprints, pins, trust.
package enum Digest {
  package enum Algorithm: Sendable {
    case sha256
    /// For `Content-Digest` (RFC 9530).
    case sha512
    /// For nginx's $ssl_client_fingerprint, and for passwords that other programs hashed with it. Nothing new relies on
    /// it.
    case sha1
    /// For passwords that other programs hashed with it (`$apr1$`).
    case md5

    var handle: OpaquePointer? {
      switch self {
      case .sha256: EVP_sha256()
      case .sha512: EVP_sha512()
      case .sha1: EVP_sha1()
      case .md5: EVP_md5()
      }
    }
  }

  /// Returns the digest: 32 octets of SHA-256, 64 of SHA-512, 20 of SHA-1, 16 of MD5.
  package static func of(_ bytes: UnsafeRawBufferPointer, _ algorithm: Algorithm = .sha256) -> [UInt8] {
    collect { output, count in
      EVP_Digest(bytes.baseAddress, bytes.count, output, count, algorithm.handle, nil)
    }
  }

  package static func of(_ bytes: [UInt8], _ algorithm: Algorithm = .sha256) -> [UInt8] {
    bytes.withUnsafeBytes { of($0, algorithm) }
  }

  /// Returns what an OpenSSL digest function writes. SHA-1 and SHA-256 are always available, so a failure means a lack
  /// of memory. Then the result is empty and equals no digest.
  static func collect(
    _ digest: (UnsafeMutablePointer<UInt8>?, UnsafeMutablePointer<CUnsignedInt>) -> CInt
  ) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: Int(EVP_MAX_MD_SIZE)) { output, used in
      var count: CUnsignedInt = 0
      guard digest(output.baseAddress, &count) == 1 else {
        OpenSSLError.discard()
        used = 0
        return
      }
      used = Int(count)
    }
  }
}
