import Glibc
import Testing

@testable import Systemd

@Suite struct `Notifications` {
  @Test func `each says what sd_notify(3) documents`() {
    #expect(Notification.text([.ready]) == "READY=1")
    #expect(Notification.text([.stopping]) == "STOPPING=1")
    #expect(Notification.text([.watchdog]) == "WATCHDOG=1")
    #expect(Notification.text([.mainProcess(42)]) == "MAINPID=42")
    #expect(Notification.text([.reloading(monotonicMicroseconds: 7)]) == "RELOADING=1\nMONOTONIC_USEC=7")
  }

  @Test func `several go in one datagram, in order`() {
    #expect(Notification.text([.ready, .status("serving")]) == "READY=1\nSTATUS=serving")
  }

  @Test(arguments: ["a\nREADY=1", "a\r\nREADY=1", "a\u{2028}READY=1"])
  func `a status is one line and can't smuggle another assignment in`(status: String) {
    #expect(Notification.text([.status(status)]) == "STATUS=a; READY=1")
  }

  @Test func `a reload that begins now carries the monotonic clock`() throws {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    let before = UInt64(now.tv_sec) * 1_000_000 + UInt64(now.tv_nsec) / 1_000
    guard case .reloading(let instant) = Notification.reloadingNow else {
      Issue.record("no RELOADING")
      return
    }
    #expect(instant >= before)
    #expect(instant - before < 60_000_000)
  }
}

/// These change the environment of the process, so they take turns.
@Suite(.serialized) struct `The environment of a service` {
  @Test func `without NOTIFY_SOCKET nothing is sent and nothing is wrong`() {
    unsetenv("NOTIFY_SOCKET")
    #expect(Notification.send(.ready) == .nobodyListens)
  }

  @Test func `a NOTIFY_SOCKET hears what is sent`() throws {
    let name = "sallyport-notify-\(getpid())"
    let listener = try AbstractDatagramSocket(name: name)
    setenv("NOTIFY_SOCKET", "@\(name)", 1)
    defer { unsetenv("NOTIFY_SOCKET") }
    #expect(Notification.send(.ready, .status("2 listeners")) == .sent)
    #expect(listener.receive() == "READY=1\nSTATUS=2 listeners")
  }

  @Test func `a NOTIFY_SOCKET that nobody listens on is a failure with its errno`() {
    setenv("NOTIFY_SOCKET", "@sallyport-nobody-\(getpid())", 1)
    defer { unsetenv("NOTIFY_SOCKET") }
    #expect(Notification.send(.ready) == .failed(ECONNREFUSED))
  }

  @Test func `without LISTEN_FDS no socket is inherited`() throws {
    unsetenv("LISTEN_FDS")
    #expect(try SocketActivation.inherit() == [])
  }

  @Test func `sockets meant for another process are not taken`() throws {
    setenv("LISTEN_FDS", "1", 1)
    setenv("LISTEN_PID", "1", 1)
    #expect(try SocketActivation.inherit() == [])
    #expect(getenv("LISTEN_FDS") == nil)
  }

  @Test func `a malformed LISTEN_FDS is an error`() {
    setenv("LISTEN_FDS", "many", 1)
    setenv("LISTEN_PID", "\(getpid())", 1)
    #expect(throws: SocketActivationError.self) { try SocketActivation.inherit() }
  }

  @Test func `the watchdog's interval is half of what systemd waits for, and none when it doesn't ask`() {
    unsetenv("WATCHDOG_USEC")
    unsetenv("WATCHDOG_PID")
    #expect(Watchdog.interval == nil)
    setenv("WATCHDOG_USEC", "3000000", 1)
    setenv("WATCHDOG_PID", "\(getpid())", 1)
    #expect(Watchdog.interval == .milliseconds(1_500))
    unsetenv("WATCHDOG_USEC")
    unsetenv("WATCHDOG_PID")
  }
}
