import Glibc

/// The kernel's random bytes (getrandom(2)), seeded since boot.
package enum SystemRandom {
  /// nil: the kernel gave none, and nothing else may stand in for them. At most 256.
  package static func bytes(_ count: Int) -> [UInt8]? {
    var bytes = [UInt8](repeating: 0, count: count)
    return getentropy(&bytes, count) == 0 ? bytes : nil
  }
}
