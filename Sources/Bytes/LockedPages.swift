import Glibc

/// Memory that is never swapped to disk (mlock) and is in no core file (MADV_DONTDUMP).
///
/// Each allocation has pages of its own: unlocking a page would also unlock what another allocation has there. Where
/// RLIMIT_MEMLOCK is used up, the memory is left out of core files but can be swapped.
enum LockedPages {
  /// More is no key and no password: files of certificates and revocation lists are read into the same type.
  static let largest = 64 << 10

  static func allocate(_ count: Int) -> UnsafeMutableRawBufferPointer {
    guard count > 0, count <= largest else { return .allocate(byteCount: count, alignment: 16) }
    let room = UnsafeMutableRawBufferPointer.allocate(byteCount: size(count), alignment: pageSize)
    // The pointer of a buffer that isn't empty is never nil.
    guard let base = room.baseAddress else { return room }
    _ = mlock(base, room.count)
    _ = madvise(base, room.count, MADV_DONTDUMP)
    return UnsafeMutableRawBufferPointer(start: base, count: count)
  }

  /// Frees what `allocate` returned, with the same count.
  static func free(_ room: UnsafeMutableRawBufferPointer) {
    if room.count > 0, room.count <= largest, let base = room.baseAddress {
      _ = madvise(base, size(room.count), MADV_DODUMP)
      _ = munlock(base, size(room.count))
    }
    room.deallocate()
  }

  private static func size(_ count: Int) -> Int { (count + pageSize - 1) / pageSize * pageSize }

  private static let pageSize = max(4096, sysconf(Int32(_SC_PAGESIZE)))
}
