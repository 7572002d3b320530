import Glibc

/// The exclusive lock to change an authority, for one process and one thread at a time, by flock(2) on one of its
/// files.
///
/// `openssl ca` takes no lock; `flock DIR/lock openssl ca …` takes this one. The kernel releases it when a process
/// ends.
struct AuthorityLock: ~Copyable {
  static let name = "lock"
  /// How long to wait for another change.
  private static let patience: Duration = .seconds(30)

  private let descriptor: CInt

  init(_ folder: AuthorityFolder) throws(AuthorityError) {
    let path = folder.file(Self.name)
    let descriptor = try Self.open(folder)
    let clock = ContinuousClock()
    let end = clock.now + Self.patience
    while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
      guard errno == EWOULDBLOCK || errno == EINTR, clock.now < end else {
        let isBusy = errno == EWOULDBLOCK
        let error = AuthorityError.system("flock", path)
        close(descriptor)
        throw isBusy
          ? AuthorityError(
            "\"\(path)\": another process has held the lock for \(Self.patience)",
            hint: "`fuser \(path)` shows which")
          : error
      }
      usleep(2000)
    }
    self.descriptor = descriptor
  }

  /// Opens the lock file. Another user who can write the directory may have put any file in its place. So the
  /// directory's owner gets only a file that this call created.
  private static func open(_ folder: AuthorityFolder) throws(AuthorityError) -> CInt {
    let path = folder.file(name)
    return try folder.inside(name) { (place, leaf) throws(AuthorityError) in
      let flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK
      var descriptor = openat(place, leaf, flags | O_CREAT | O_EXCL, 0o600)
      let isNew = descriptor >= 0
      if !isNew, errno == EEXIST { descriptor = openat(place, leaf, flags) }
      guard descriptor >= 0 else { throw .system("open", path) }
      var file = stat(), owner = stat()
      guard fstat(descriptor, &file) == 0, file.st_mode & S_IFMT == S_IFREG else {
        close(descriptor)
        throw AuthorityError("\"\(path)\" is no file", hint: "remove it: it is made anew")
      }
      if isNew, file.st_nlink == 1, geteuid() == 0, fstat(place, &owner) == 0 {
        _ = fchown(descriptor, owner.st_uid, owner.st_gid)
      }
      return descriptor
    }
  }

  deinit { close(descriptor) }
}
