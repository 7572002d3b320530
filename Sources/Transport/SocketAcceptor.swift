import Glibc

/// Accepts connections from a listening socket.
///
/// Without free descriptors, it pauses for half a second, as nginx does; a level-triggered listener would spin.
public final class SocketAcceptor: EventTarget {
  public let descriptor: Int32
  private let interest: EventLoop.Interest
  private let mayAccept: () -> Bool
  private let accepted: (Int32, SocketAddress) -> Void
  private let exhausted: (SocketError) -> Void
  private var isListening = false
  private static let perEvent = 64
  private static let restMilliseconds = 500

  /// `isShared`: other loops have the same socket. The descriptor stays the caller's. `mayAccept` is asked before each
  /// connection; if it refuses, it has stopped the acceptor.
  public init(
    loop: EventLoop, descriptor: Int32, isShared: Bool, mayAccept: @escaping () -> Bool = { true },
    accepted: @escaping (Int32, SocketAddress) -> Void,
    exhausted: @escaping (SocketError) -> Void
  ) {
    self.descriptor = descriptor
    self.interest = isShared ? .sharedListener : .listener
    self.mayAccept = mayAccept
    self.accepted = accepted
    self.exhausted = exhausted
    super.init(loop: loop)
  }

  public func start() throws(SocketError) {
    guard !isListening else { return }
    try loop.add(self, descriptor: descriptor, interest: interest)
    isListening = true
  }

  /// Stops accepting; connections in the socket's queue stay for other loops and processes.
  public func stop() {
    guard isListening else { return loop.forgetDeadline(of: self) }
    isListening = false
    loop.remove(self, descriptor: descriptor)
  }

  /// Pauses, because descriptors or places under `worker_connections` are used up.
  public func rest() {
    stop()
    setDeadline(in: Self.restMilliseconds)
  }

  /// Whether a connection waits to be accepted. One system call.
  public var isAwaited: Bool {
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&entry, 1, 0) > 0
  }

  public override func ready(_ readiness: Readiness) {
    for _ in 0..<Self.perEvent where isListening {
      guard mayAccept() else { return }
      do {
        guard let (descriptor, peer) = try Sockets.accept(self.descriptor) else { return }
        accepted(descriptor, peer)
      } catch {
        if error.isExhaustion {
          exhausted(error)
          rest()
        }
        return
      }
    }
  }

  public override func deadlinePassed() {
    loop.forgetDeadline(of: self)
    do { try start() } catch { setDeadline(in: Self.restMilliseconds) }
  }
}
