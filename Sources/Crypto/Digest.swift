import COpenSSL

/// Digests of things at rest: fingerprints, pins, trust.
package enum Digest {
  package enum Algorithm: Sendable {
    case sha256
    /// For nginx's $ssl_client_fingerprint and for passwords that others have hashed with it: nothing new is trusted by it.
    case sha1
    /// For passwords that others have hashed with it (`$apr1$`).
    case md5

    var handle: OpaquePointer? {
      switch self {
      case .sha256: EVP_sha256()
      case .sha1: EVP_sha1()
      case .md5: EVP_md5()
      }
    }
  }

  /// The digest's octets: 32 of SHA-256, 20 of SHA-1, 16 of MD5.
  package static func of(_ bytes: UnsafeRawBufferPointer, _ algorithm: Algorithm = .sha256) -> [UInt8] {
    collect { output, count in
      EVP_Digest(bytes.baseAddress, bytes.count, output, count, algorithm.handle, nil)
    }
  }

  package static func of(_ bytes: [UInt8], _ algorithm: Algorithm = .sha256) -> [UInt8] {
    bytes.withUnsafeBytes { of($0, algorithm) }
  }

  /// What a digesting call of OpenSSL's writes. SHA-1 and SHA-256 are always there, so a failure is a lack of memory;
  /// it yields no octets, which equal no digest.
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
