import COpenSSL
import Glibc
import Observability

/// A TCP connection of OpenSSL's that waits no longer than it is told, by the monotonic clock. OpenSSL's own waiting
/// (`BIO_wait`, and with it `OSSL_HTTP_transfer`) counts by the system's time, which somebody may set back by hours meanwhile.
/// Blocks.
final class TimedConnection {
  /// BIO*, of which this object has the reference.
  let handle: OpaquePointer
  private var end: UInt64

  /// Begins a connection. `address`: an IP address or a name. Returns nil if OpenSSL has no memory or refuses the address; the
  /// thread's error queue then says why. `milliseconds`: for all waiting from now on.
  init?(to address: String, port: String, within milliseconds: UInt64) {
    guard let handle = BIO_new_connect("\(address.contains(":") ? "[\(address)]" : address):\(port)") else {
      return nil
    }
    self.handle = handle
    end = MonotonicClock.milliseconds &+ milliseconds
    BIO_ctrl(handle, BIO_C_SET_NBIO, 1, nil)
  }

  deinit { BIO_free_all(handle) }

  /// Waits no longer than so many milliseconds from now on.
  func extend(to milliseconds: UInt64) { end = MonotonicClock.milliseconds &+ milliseconds }

  /// Whether no time is left.
  var isOver: Bool { MonotonicClock.milliseconds >= end }

  /// Waits until the connection is there. Returns false if it isn't: `isOver`, or the thread's error queue, says why.
  func connect() -> Bool {
    while BIO_ctrl(handle, BIO_C_DO_STATE_MACHINE, 0, nil) != 1 {
      guard BIO_test_flags(handle, BIO_FLAGS_SHOULD_RETRY) != 0, wait() else { return false }
    }
    return true
  }

  /// Waits until what OpenSSL could not do at once may be tried again. Returns false when no time is left.
  func wait() -> Bool {
    var descriptor: CInt = -1
    guard BIO_ctrl(handle, BIO_C_GET_FD, 0, &descriptor) >= 0, descriptor >= 0 else { return false }
    let isReading = BIO_test_flags(handle, BIO_FLAGS_READ) != 0
    while true {
      let now = MonotonicClock.milliseconds
      guard now < end else { return false }
      var entry = pollfd(fd: descriptor, events: Int16(isReading ? POLLIN : POLLOUT), revents: 0)
      let count = poll(&entry, 1, CInt(clamping: end - now))
      if count > 0 { return true }
      if count < 0 && errno != EINTR { return false }
    }
  }
}
