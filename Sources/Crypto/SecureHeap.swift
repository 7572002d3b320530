import COpenSSL
import Glibc

/// OpenSSL's memory for secrets: one block that is locked (never swapped), left out of core files, and between guard
/// pages.
///
/// OpenSSL 3 keeps there what it treats as private: the private numbers of RSA, EC, Ed25519 and X25519 keys, the text of
/// a key file while it is read, and the states of its random generators. It does not keep there: session keys, the
/// buffers of connections, and the copies of an RSA key's primes that it makes for its first signature.
package enum SecureHeap {
  package enum Outcome: Sendable, Hashable {
    case locked
    /// The block exists, and could not be locked.
    case swappable(because: LockRefusal)
    /// OpenSSL uses ordinary memory.
    case missing
  }

  /// Why memory can't be locked.
  package enum LockRefusal: Sendable, Hashable {
    /// RLIMIT_MEMLOCK is lower than what is needed.
    case limit
    /// The system refuses mlock(2) itself, as the seccomp profile of a container does. An errno; 0: one page could be
    /// locked.
    case system(code: Int32)

    /// In words for the log.
    package var words: String {
      switch self {
      case .limit: "RLIMIT_MEMLOCK is too low"
      case .system(0): "the system refuses to lock it, though RLIMIT_MEMLOCK would allow it: see the seccomp profile"
      case .system(let code):
        "the system refuses mlock(2) (\(code): \(String(cString: strerror(code)))): see the seccomp profile"
      }
    }

    /// `code`: the errno of locking one page; 0 if that worked. `limit`: RLIMIT_MEMLOCK. `wanted`: bytes.
    init(code: Int32, limit: UInt64, wanted: Int) {
      self =
        switch code {
        // As mlock(2) says: above the limit, or a limit of 0.
        case ENOMEM, EAGAIN: .limit
        case EPERM where limit == 0: .limit
        case 0 where limit < UInt64(clamping: wanted): .limit
        default: .system(code: code)
        }
    }
  }

  /// Looks why the kernel locked no block of this size.
  private static func refusal(of wanted: Int) -> LockRefusal {
    let page = max(4096, sysconf(Int32(_SC_PAGESIZE)))
    let room = UnsafeMutableRawPointer.allocate(byteCount: page, alignment: page)
    defer { room.deallocate() }
    let code = mlock(room, page) == 0 ? 0 : errno
    if code == 0 { munlock(room, page) }
    var limit = rlimit()
    let isKnown = getrlimit(__rlimit_resource_t(__RLIMIT_MEMLOCK.rawValue), &limit) == 0
    return LockRefusal(code: code, limit: isKnown ? UInt64(limit.rlim_cur) : 0, wanted: wanted)
  }

  /// Makes the block, once, before the first key is loaded. When it is full, OpenSSL can't load a further key, and a
  /// handshake fails; so `bytes` must be ample. It is rounded up to a power of two.
  package static func start(bytes: Int) -> Outcome {
    var size = 1 << 16
    while size < bytes && size < 1 << 30 { size <<= 1 }
    switch CRYPTO_secure_malloc_init(size, 16) {
    case 1: return .locked
    case 2: return .swappable(because: refusal(of: size))
    default: return CRYPTO_secure_malloc_initialized() == 1 ? .locked : .missing
    }
  }

  /// The bytes in use.
  package static var used: Int { CRYPTO_secure_used() }
}
