import Glibc
import Observability
import Proxy
import TestSupport
import Testing
import Transport

@testable import Daemon
@testable import Systemd

@Suite struct ListeningSocketsTests {
  @Test func `a socket of systemd that no listener names is told`() {
    let inherited = ["a", "b", "b", "c"].map { InheritedSocket(name: $0, descriptor: -1) }
    func listener(_ address: ListenAddress) -> ListenerSettings {
      ListenerSettings(
        address: address, options: ListenOptions(), isTLS: false, servers: [0], defaultServer: 0,
        location: SourceLocation(file: "", line: 0, column: 0))
    }
    let told = UnnamedSockets.warnings(
      inherited, [listener(.systemd(name: "a")), listener(.socket(.ipv4(address: 0, port: 80)))])
    #expect(told.map(\.severity) == [.warning, .warning])
    #expect(
      zip(told, ["b", "c"]).allSatisfy { $0.description.contains("the socket \"\($1)\", which no \"listen\" names") },
      "\(told)")
    #expect(UnnamedSockets.warnings([], [listener(.systemd(name: "a"))]).isEmpty)
  }

  private static let place = SourceLocation(file: "test.conf", line: 3, column: 5)

  private func listener(_ address: ListenAddress, _ change: (inout ListenOptions) -> Void = { _ in })
    -> ListenerSettings
  {
    var options = ListenOptions()
    change(&options)
    return ListenerSettings(
      address: address, options: options, isTLS: false, servers: [0], defaultServer: 0, location: Self.place)
  }

  private func bind(
    _ listeners: [ListenerSettings], workers: Int = 1, inherited: [InheritedSocket] = [],
    keeping: ListeningSockets? = nil
  ) throws(Refusal) -> ListeningSockets {
    try ListeningSockets(for: listeners, workers: workers, inherited: inherited, keeping: keeping)
  }

  private func refusal(_ body: () throws(Refusal) -> ListeningSockets) -> [Diagnostic] {
    do throws(Refusal) {
      _ = try body()
      return []
    } catch {
      return error.diagnostics
    }
  }

  private func loopback(_ port: UInt16) -> ListenAddress { .socket(.ipv4(address: 0x7F00_0001, port: port)) }

  private func isListening(_ address: ListenAddress) -> Bool {
    guard case .socket(let address) = address, let descriptor = try? Sockets.connect(to: address) else { return false }
    defer { close(descriptor) }
    var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
    guard poll(&entry, 1, 2000) == 1 else { return false }
    var code: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length)
    return code == 0
  }

  @Test func `one worker has one socket, several have one each of the same port`() throws {
    try withScene { scene in
      let address = loopback(try scene.port())
      let single = try bind([listener(address)])
      #expect(single.sockets(worker: 0).map(\.isShared) == [false])
      let other = loopback(try scene.port())
      let several = try bind([listener(other)], workers: 3)
      let each = (0..<3).map { several.sockets(worker: $0) }
      #expect(each.allSatisfy { $0.count == 1 && !$0[0].isShared })
      #expect(Set(each.map { $0[0].descriptor }).count == 3)
      #expect(isListening(other))
    }
  }

  @Test(arguments: [1, 2]) func `a second instance is refused, whether or not ports may be shared`(workers: Int) throws
  {
    try withScene { scene in
      let address = loopback(try scene.port())
      let first = try bind([listener(address)], workers: workers)
      let told = refusal { () throws(Refusal) in try bind([listener(address)], workers: workers) }
      #expect(told.map(\.message) == ["bind() to \(address) failed (98: Address already in use)"])
      #expect(told.first?.location == Self.place)
      withExtendedLifetime(first) {}
    }
  }

  @Test func `every address that fails is told, and those that were bound are given back`() throws {
    try withScene { scene in
      let (one, two) = (try occupied(), try occupied())
      defer {
        close(one.descriptor)
        close(two.descriptor)
      }
      let free = loopback(try scene.port())
      let told = refusal { () throws(Refusal) in
        try bind([listener(free), listener(loopback(one.port)), listener(loopback(two.port))])
      }
      #expect(told.count == 2)
      #expect(!isListening(free))
    }
  }

  @Test func `addresses that stay keep their sockets, dropped ones close with the last reference`() throws {
    try withScene { scene in
      let (stays, goes, comes) = (loopback(try scene.port()), loopback(try scene.port()), loopback(try scene.port()))
      var old: ListeningSockets? = try bind([listener(stays), listener(goes)], workers: 2)
      let kept = try #require(old?.sockets(worker: 1).first?.descriptor)
      let new = try bind([listener(comes), listener(stays)], workers: 2, keeping: old)
      #expect(new.sockets(worker: 1).map(\.listener) == [0, 1])
      #expect(new.sockets(worker: 1)[1].descriptor == kept)
      #expect(isListening(goes))
      old = nil
      #expect(!isListening(goes))
      #expect(isListening(stays))
      #expect(isListening(comes))
    }
  }

  @Test func `a reload that can't bind leaves the old sockets alone`() throws {
    try withScene { scene in
      let stays = loopback(try scene.port())
      let old = try bind([listener(stays)])
      let taken = try occupied()
      defer { close(taken.descriptor) }
      let told = refusal { () throws(Refusal) in
        try bind([listener(stays), listener(loopback(taken.port))], keeping: old)
      }
      #expect(told.count == 1)
      #expect(isListening(stays))
    }
  }

  @Test func `one address beside all addresses of its port is bound too`() throws {
    try withScene { scene in
      let port = try scene.port()
      let all = ListenAddress.socket(.ipv4(address: 0, port: port))
      let both = try bind([listener(all), listener(loopback(port))])
      #expect(both.sockets(worker: 0).count == 2)
      // And on reload, beside what we hold ourselves.
      let more = try bind(
        [listener(all), listener(loopback(port)), listener(.socket(.ipv4(address: 0x7F00_0002, port: port)))],
        keeping: both)
      #expect(more.sockets(worker: 0).count == 3)
    }
  }

  // MARK: Unix sockets

  @Test func `a unix socket is for everybody, shared by workers, and goes with us`() throws {
    try withScene { scene in
      let path = scene.path("s")
      var sockets: ListeningSockets? = try bind([listener(.socket(.unix(path: path)))], workers: 2)
      let (first, second) = (sockets?.sockets(worker: 0) ?? [], sockets?.sockets(worker: 1) ?? [])
      #expect(first == second && first.first?.isShared == true)
      var status = stat()
      #expect(stat(path, &status) == 0 && status.st_mode & 0o777 == 0o666)
      sockets = nil
      #expect(access(path, F_OK) != 0)
    }
  }

  @Test func `a socket that a crash left behind is replaced, a live one and other files are not`() throws {
    try withScene { scene in
      let path = scene.path("s")
      let stale = try Sockets.listen(on: .unix(path: path), backlog: 1, reuseport: false, ipv6only: false)
      close(stale)
      let live = try bind([listener(.socket(.unix(path: path)))])
      let told = refusal { () throws(Refusal) in try bind([listener(.socket(.unix(path: path)))]) }
      #expect(told.map(\.message) == ["bind() to unix:\(path) failed (98: Address already in use)"])
      #expect(isListening(.socket(.unix(path: path))))
      withExtendedLifetime(live) {}

      let file = try scene.write("file", text: "precious")
      #expect(refusal { () throws(Refusal) in try bind([listener(.socket(.unix(path: file)))]) }.count == 1)
      #expect(scene.text("file") == "precious")
    }
  }

  @Test func `the socket of a process that came after us stays`() throws {
    try withScene { scene in
      let path = scene.path("s")
      var ours: ListeningSockets? = try bind([listener(.socket(.unix(path: path)))])
      unlink(path)
      let theirs = try Sockets.listen(on: .unix(path: path), backlog: 1, reuseport: false, ipv6only: false)
      defer { close(theirs) }
      ours = nil
      #expect(ours == nil && isListening(.socket(.unix(path: path))))
    }
  }

  // MARK: systemd

  @Test func `systemd's sockets of a name are all shared, and stay open when dropped`() throws {
    let (one, two) = (try occupied(), try occupied())
    defer {
      close(one.descriptor)
      close(two.descriptor)
    }
    let inherited = [
      InheritedSocket(name: "https", descriptor: one.descriptor),
      InheritedSocket(name: "x", descriptor: two.descriptor),
      InheritedSocket(name: "https", descriptor: two.descriptor),
    ]
    var sockets: ListeningSockets? = try bind(
      [listener(.systemd(name: "https"))], workers: 2, inherited: inherited)
    #expect(sockets?.sockets(worker: 1).map(\.descriptor) == [one.descriptor, two.descriptor])
    #expect(sockets?.sockets(worker: 1).allSatisfy(\.isShared) == true)
    sockets = nil
    #expect(isListening(loopback(one.port)))
  }

  @Test func `a name that systemd did not hand over is refused with those that it did`() {
    let inherited = [InheritedSocket(name: "http", descriptor: 3), InheritedSocket(name: "admin", descriptor: 4)]
    let told = refusal { () throws(Refusal) in
      try bind([listener(.systemd(name: "https"))], inherited: inherited)
    }
    #expect(told.map(\.message) == ["systemd handed over no socket of the name \"https\""])
    #expect(told.first?.hint?.contains("http, admin") == true)
  }

  /// A service that listened on the port itself has left its own socket in systemd's store.
  @Test
  func `who moves a service to a socket unit is told the order that works, and of no socket that sallyport named`()
    throws
  {
    let kept = InheritedSocket(name: KeptSocket.name(of: "0.0.0.0:443"), descriptor: 3)
    for inherited in [[], [kept]] {
      let told = refusal { () throws(Refusal) in
        try bind([listener(.systemd(name: "https"))], inherited: inherited)
      }
      let hint = try #require(told.first?.hint)
      #expect(hint.hasPrefix("no socket was handed over;") && !hint.contains("sallyport.listen"), "\(hint)")
      let steps = [
        "systemctl stop sallyport;", "systemctl enable --now sallyport.socket;", "systemctl start sallyport",
      ]
      #expect(hint.hasSuffix(steps.joined(separator: " ")), "\(hint)")
    }
  }
}
