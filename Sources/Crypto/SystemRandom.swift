import Glibc

/// The kernel's random bytes (getrandom(2)), seeded since boot.
package enum SystemRandom {
  /// Returns at most 256 bytes; nil when the kernel gave none. Do not replace them from another source.
  package static func bytes(_ count: Int) -> [UInt8]? {
    var bytes = [UInt8](repeating: 0, count: count)
    return getentropy(&bytes, count) == 0 ? bytes : nil
  }
}
