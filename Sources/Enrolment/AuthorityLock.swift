import Glibc

/// The right to change an authority: one process and one thread at a time, by flock(2) on one file of it.
///
/// `openssl ca` takes no lock; `flock DIR/lock openssl ca …` takes this one. The system gives it back when a process ends.
struct AuthorityLock: ~Copyable {
  static let name = "lock"
  /// How long another change may take.
  private static let patience: Duration = .seconds(30)

  private let descriptor: CInt

  init(_ folder: AuthorityFolder) throws(AuthorityError) {
    let path = folder.file(Self.name)
    let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { throw .system("open", path) }
    var owner = stat()
    if geteuid() == 0, stat(folder.path, &owner) == 0 { _ = fchown(descriptor, owner.st_uid, owner.st_gid) }
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

  deinit { close(descriptor) }
}
