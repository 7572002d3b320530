import COpenSSL

/// OpenSSL's memory for secrets: one block that is locked (never swapped), left out of core files, and between guard
/// pages.
///
/// OpenSSL 3 keeps there what it treats as private: the private numbers of RSA, EC, Ed25519 and X25519 keys, the text of
/// a key file while it is read, and the states of its random generators. It does not keep there: session keys, the
/// buffers of connections, and the copies of an RSA key's primes that it makes for its first signature.
package enum SecureHeap {
  package enum Outcome: Sendable, Hashable {
    case locked
    /// The block exists, but RLIMIT_MEMLOCK doesn't allow to lock it.
    case swappable
    /// OpenSSL uses ordinary memory.
    case missing
  }

  /// Makes the block, once, before the first key is loaded. When it is full, OpenSSL can't load a further key, and a
  /// handshake fails; so `bytes` must be ample. It is rounded up to a power of two.
  package static func start(bytes: Int) -> Outcome {
    var size = 1 << 16
    while size < bytes && size < 1 << 30 { size <<= 1 }
    switch CRYPTO_secure_malloc_init(size, 16) {
    case 1: return .locked
    case 2: return .swappable
    default: return CRYPTO_secure_malloc_initialized() == 1 ? .locked : .missing
    }
  }

  /// The bytes in use.
  package static var used: Int { CRYPTO_secure_used() }
}
