import COpenSSL
import Glibc
import Transport

/// One end of a blocking TLS connection, for commands that look at one server or one client. Never use it on an event loop.
struct WaitingClient: ~Copyable {
  let descriptor: Int32
  let deadline: Deadline

  /// Connects, or throws why it can't. `origin`: how the connection begins, with the header that goes out first; through a
  /// proxy, `address` is the proxy's, and `openTunnel` comes next.
  init(
    to address: SocketAddress, from origin: ConnectionOrigin = ConnectionOrigin(), by deadline: Deadline
  ) throws(SocketError) {
    let descriptor = try Sockets.connect(to: address, origin: origin)
    var code: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    if !deadline.wait(for: descriptor, Int16(POLLOUT)) {
      code = ETIMEDOUT
    } else {
      getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length)
    }
    if code == 0, origin.proxy == nil, !Self.send(origin.header, on: descriptor) { code = errno }
    guard code == 0 else {
      close(descriptor)
      throw SocketError("connect", code)
    }
    self.descriptor = descriptor
    self.deadline = deadline
  }

  /// Takes over a connection that a listener has accepted: the other side's is then the client.
  init(accepted descriptor: Int32, by deadline: Deadline) {
    self.descriptor = descriptor
    self.deadline = deadline
  }

  deinit { close(descriptor) }

  /// Sends a few bytes before the handshake, which the empty buffer of a new socket takes at once.
  func send(_ bytes: [UInt8]) -> Bool { Self.send(bytes, on: descriptor) }

  private static func send(_ bytes: [UInt8], on descriptor: Int32) -> Bool {
    bytes.isEmpty || Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count
  }

  /// Why a handshake did not complete.
  enum Failure: Equatable {
    case ended
    case late
    /// OpenSSL's reason.
    case failed(String)

    var words: String {
      switch self {
      case .ended: "the connection ended in the TLS handshake"
      case .late: "no answer in the TLS handshake in time"
      case .failed(let reason): "TLS handshake: \(reason)"
      }
    }
  }

  /// Returns why the handshake failed; nil when it completed.
  func handshake(_ ssl: OpaquePointer) -> Failure? {
    switch perform(ssl, { SSL_connect($0) }) {
    case .done: nil
    case .ended: .ended
    case .late: .late
    case .failed(let reason): .failed(reason)
    }
  }

  /// What has arrived and nobody has read, at most 256 bytes. Does not wait.
  func rest() -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 256)
    let count = recv(descriptor, &bytes, bytes.count, Int32(truncatingIfNeeded: MSG_DONTWAIT))
    return Array(bytes.prefix(max(0, count)))
  }

  enum Outcome {
    case done(Int32)
    /// The peer closed the connection, orderly or not.
    case ended
    case late
    case failed(String)
  }

  /// Runs an OpenSSL operation, and waits until it is done, or `deadline` is over. `isEnough`: asked before each wait;
  /// the outcome is `.late` if it says that nothing more need be waited for.
  func perform(
    _ ssl: OpaquePointer, by own: Deadline? = nil, orUntil isEnough: () -> Bool = { false },
    _ operation: (OpaquePointer) -> Int32
  ) -> Outcome {
    let deadline = own ?? deadline
    while true {
      // Also where nothing has to be waited for: a peer that always has more to say must not keep the client.
      guard !deadline.isOver else { return .late }
      ERR_clear_error()
      let result = operation(ssl)
      if result > 0 { return .done(result) }
      let awaited: Int16
      switch SSL_get_error(ssl, result) {
      case SSL_ERROR_WANT_READ: awaited = Int16(POLLIN)
      case SSL_ERROR_WANT_WRITE: awaited = Int16(POLLOUT)
      case SSL_ERROR_ZERO_RETURN: return .ended
      case SSL_ERROR_SYSCALL where ERR_peek_error() == 0: return .ended
      default: return .failed(OpenSSLReasons.words())
      }
      guard !isEnough(), deadline.wait(for: descriptor, awaited) else { return .late }
    }
  }
}

/// The time after which nothing waits any longer.
package struct Deadline: Sendable {
  private let end: Int64

  package init(seconds: Int) { end = Self.now &+ Int64(clamping: seconds) &* 1000 }

  private static var now: Int64 { Microseconds.now / 1000 }

  package var isOver: Bool { Self.now >= end }

  /// Waits until `milliseconds` have passed, or the time is over.
  package func pause(milliseconds: Int32) {
    _ = poll(nil, 0, min(milliseconds, Int32(clamping: max(0, end - Self.now))))
  }

  /// Returns false when the time is over.
  package func wait(for descriptor: Int32, _ events: Int16) -> Bool {
    while true {
      let left = end - Self.now
      guard left > 0 else { return false }
      var entry = pollfd(fd: descriptor, events: events, revents: 0)
      let count = poll(&entry, 1, Int32(clamping: left))
      if count > 0 { return true }
      if count < 0 && errno != EINTR { return false }
    }
  }
}

/// CLOCK_MONOTONIC.
enum Microseconds {
  static var now: Int64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) &* 1_000_000 &+ Int64(time.tv_nsec) / 1000
  }
}
