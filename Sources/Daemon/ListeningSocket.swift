import Glibc
import Proxy
import Transport

/// One address that is listened on: its descriptors, which close with the last reference.
///
/// Why by reference: a reload keeps the sockets of addresses that stay, and a dropped one must stay open until every
/// worker has let go of it.
final class ListeningSocket: Sendable {
  enum Descriptors: Sendable, Hashable {
    /// SO_REUSEPORT: the kernel shares connections out.
    case perWorker([Int32])
    /// Every worker accepts from each of them.
    case shared([Int32])
  }

  let address: ListenAddress
  let options: ListenOptions
  let descriptors: Descriptors
  /// systemd's stay open for the life of the process: they could not be had again.
  private let isInherited: Bool
  private let file: UnixSocketFile?

  init(address: ListenAddress, options: ListenOptions, descriptors: Descriptors, file: UnixSocketFile? = nil) {
    self.address = address
    self.options = options
    self.descriptors = descriptors
    self.file = file
    if case .systemd = address { isInherited = true } else { isInherited = false }
  }

  deinit {
    guard !isInherited else { return }
    // The file first: who finds it must find somebody who listens.
    file?.remove()
    for descriptor in all { close(descriptor) }
  }

  var all: [Int32] {
    switch descriptors {
    case .perWorker(let each), .shared(let each): each
    }
  }

  /// What one of `workers` accepts from.
  func sockets(worker: Int, of workers: Int, listener: Int) -> [ListenerSocket] {
    switch descriptors {
    case .perWorker(let each):
      guard each.indices.contains(worker) else { return [] }
      return [ListenerSocket(listener: listener, descriptor: each[worker], isShared: false)]
    case .shared(let each):
      return each.map { ListenerSocket(listener: listener, descriptor: $0, isShared: workers > 1) }
    }
  }

  /// Only for the end of the process, where no reference is waited for.
  func removeFile() { file?.remove() }
}

/// The file of a unix socket that we made, known by its inode: another's in its place is left alone.
struct UnixSocketFile: Sendable {
  let path: String
  private let device: UInt64
  private let inode: UInt64

  /// nil when there is nothing at the path.
  init?(at path: String) {
    var status = stat()
    guard lstat(path, &status) == 0 else { return nil }
    self.path = path
    device = UInt64(status.st_dev)
    inode = UInt64(status.st_ino)
  }

  func remove() {
    if let now = UnixSocketFile(at: path), now.device == device, now.inode == inode { unlink(path) }
  }

  /// Removes what a crashed process left behind: a socket that refuses connections. A live one stays, and binding
  /// will say so; anything but a socket is never touched.
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
