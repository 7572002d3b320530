package import Bytes
import COpenSSL

/// Diffie-Hellman parameters for TLS 1.2 and below (`ssl_dhparam`), which DHE cipher suites use.
// @unchecked: nothing changes the object through the handle after `init`.
public final class DHParameters: @unchecked Sendable {
  /// EVP_PKEY*, with parameters and without a key.
  package let handle: OpaquePointer
  package let bits: Int

  /// The fewest bits of a group. Attackers with enough resources can break smaller ones (Logjam, CVE-2015-4000).
  private static let leastBits = 2048

  package init(pem: SecretBytes) throws(CryptoError) {
    let parsed: OpaquePointer? = pem.withUnsafeBytes { raw in
      guard let bio = BIO_new_mem_buf(raw.baseAddress, CInt(clamping: raw.count)) else { return nil }
      defer { BIO_free(bio) }
      return copenssl_read_parameters(bio)
    }
    guard let parsed else { throw .malformed("no PEM of DH parameters (\(OpenSSLError.drain()))") }
    guard EVP_PKEY_is_a(parsed, "DH") == 1 || EVP_PKEY_is_a(parsed, "DHX") == 1 else {
      EVP_PKEY_free(parsed)
      throw .absent("holds other parameters than DH")
    }
    let bits = Int(EVP_PKEY_get_bits(parsed))
    guard bits >= Self.leastBits else {
      EVP_PKEY_free(parsed)
      throw .absent("holds DH parameters of \(bits) bits, fewer than \(Self.leastBits)")
    }
    handle = parsed
    self.bits = bits
  }

  deinit { EVP_PKEY_free(handle) }

  /// Loads the parameters of a file. Blocks, so never call it on an event loop.
  package static func load(_ reference: MaterialReference) throws(MaterialError) -> DHParameters {
    let bytes = try reference.read(expecting: .dhParameters)
    return try reference.parsing(.dhParameters) { () throws(CryptoError) in try DHParameters(pem: bytes) }
  }
}
