import Features
import Forward
import Glibc
import Synchronization
import Systemd
import Traffic
import Transport

/// The descriptors of one listen address, which close with the last reference.
///
/// Generations share it by reference: a reload keeps the sockets of addresses that stay, and a removed socket stays
/// open until every worker has released it.
final class ListeningSocket: Sendable {
  enum Descriptors: Sendable, Hashable {
    /// SO_REUSEPORT: the kernel distributes connections among the sockets.
    case perWorker([Int32])
    /// Every worker accepts from each of these.
    case shared([Int32])
  }

  let address: ListenAddress
  let options: ListenOptions
  let descriptors: Descriptors
  /// Sockets from systemd stay open for the life of the process, because it could not get them again.
  private let isInherited: Bool
  private let file: UnixSocketFile?
  private let isHandedOn = Atomic<Bool>(false)
  /// What the socket has now: each reload may change them.
  private let applied: Mutex<ListenOptions>

  init(address: ListenAddress, options: ListenOptions, descriptors: Descriptors, file: UnixSocketFile? = nil) {
    self.address = address
    self.options = options
    applied = Mutex(options)
    self.descriptors = descriptors
    self.file = file
    if case .systemd = address { isInherited = true } else { isInherited = false }
  }

  deinit {
    guard !isInherited else { return }
    // Removes the file first, so that a client never finds the file of a socket on which nobody listens.
    removeFile()
    for descriptor in all { close(descriptor) }
  }

  /// The name under which another process gets these sockets; nil for those of a socket unit, which systemd has anyway. A
  /// unix socket's name has the file's inode, so that nobody takes over a socket whose file is gone.
  var keptName: String? {
    if isInherited { return nil }
    return KeptSocket.name(of: file.map { "\(address)#\($0.identity)" } ?? "\(address)")
  }

  /// Takes the options as those that the socket has from now on, and returns the former ones.
  func exchange(_ options: ListenOptions) -> ListenOptions {
    applied.withLock { applied in
      defer { applied = options }
      return applied
    }
  }

  /// Whether these sockets can serve a listener: no option makes one of IPv6 alone one of both families.
  func serves(_ listener: ListenerSettings) -> Bool {
    guard address == listener.address else { return false }
    guard case .socket(.ipv6) = address else { return true }
    return options.ipv6only == listener.options.ipv6only
  }

  /// Another process has the sockets too: systemd, or a new binary. The file of a unix socket then stays.
  func handOn(_ isHandedOn: Bool) { self.isHandedOn.store(isHandedOn, ordering: .relaxed) }

  var all: [Int32] {
    switch descriptors {
    case .perWorker(let each), .shared(let each): each
    }
  }

  /// The sockets that one of `workers` accepts from.
  func sockets(worker: Int, of workers: Int, listener: Int) -> [ListenerSocket] {
    switch descriptors {
    case .perWorker(let each):
      guard each.indices.contains(worker) else { return [] }
      return [ListenerSocket(listener: listener, descriptor: each[worker], isShared: false)]
    case .shared(let each):
      return each.map { ListenerSocket(listener: listener, descriptor: $0, isShared: workers > 1) }
    }
  }

  /// Removes the file at the end of the process, which does not wait for references.
  func removeFile() { if !isHandedOn.load(ordering: .relaxed) { file?.remove() } }
}

/// The file of a unix socket that this process made, recognised by its inode. A file that another process put in its
/// place is not removed.
struct UnixSocketFile: Sendable {
  let path: String
  private let device: UInt64
  private let inode: UInt64

  /// Returns nil when there is nothing at the path.
  init?(at path: String) {
    var status = stat()
    guard lstat(path, &status) == 0 else { return nil }
    self.path = path
    device = UInt64(status.st_dev)
    inode = UInt64(status.st_ino)
  }

  var identity: String { "\(device).\(inode)" }

  func remove() {
    if let now = UnixSocketFile(at: path), now.device == device, now.inode == inode { unlink(path) }
  }

  /// Removes the socket of a crashed process: one that refuses connections. A live socket stays, and binding will
  /// report it. Files other than sockets are never removed.
  static func removeStale(at path: String) {
    var status = stat()
    guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK else { return }
    do throws(SocketError) {
      close(try Sockets.connect(to: .unix(path: path)))
    } catch {
      if error.code == ECONNREFUSED { unlink(path) }
    }
  }
}
