@testable import Loading
import ConfigurationSupport
import Traffic
import Forward
import Features
import Glibc
import Observability
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

  /// Compared with the reload before, and not with the start.
  @Test func `an option that a reload sets goes with the next one`() throws {
    try withScene { scene in
      let address = loopback(try scene.port())
      func value(_ level: Int32, _ option: Int32, _ sockets: ListeningSockets) throws -> Int32 {
        var value: Int32 = -1
        var length = socklen_t(MemoryLayout<Int32>.size)
        let descriptor = try #require(sockets.sockets(worker: 0).first?.descriptor)
        try #require(getsockopt(descriptor, level, option, &value, &length) == 0)
        return value
      }
      var sockets = try bind([listener(address)])
      for isSet in [false, true, false, true, false] {
        sockets = try bind(
          [
            listener(address) {
              $0.isDeferred = isSet
              if isSet { $0.keepalive = .on }
            }
          ], keeping: sockets)
        #expect(try value(SOL_SOCKET, SO_KEEPALIVE, sockets) == (isSet ? 1 : 0))
        #expect(try (value(Int32(IPPROTO_TCP), TCP_DEFER_ACCEPT, sockets) > 0) == isSet)
      }
    }
  }

  // MARK: Addresses that overlap

  /// A change of a `listen` to an address with the same port, whose connections both would take.
  enum Overlap: String, CaseIterable, CustomTestStringConvertible {
    case narrower, wider, bothFamilies, oneFamily, secondFamily, further

    var testDescription: String { rawValue }

    func addresses(_ port: UInt16) -> (before: [BoundAddress], after: [BoundAddress]) {
      let all = SocketAddress.ipv4(address: 0, port: port)
      let one = SocketAddress.ipv4(address: 0x7F00_0001, port: port)
      let six = SocketAddress.ipv6(high: 0, low: 0, port: port)
      return switch self {
      case .narrower: ([BoundAddress(all)], [BoundAddress(one)])
      case .wider: ([BoundAddress(one)], [BoundAddress(all)])
      case .bothFamilies: ([BoundAddress(all)], [BoundAddress(six, isIPv6Only: false)])
      case .oneFamily: ([BoundAddress(six, isIPv6Only: false)], [BoundAddress(all)])
      case .secondFamily: ([BoundAddress(all), BoundAddress(six)], [BoundAddress(six, isIPv6Only: false)])
      case .further: ([BoundAddress(all)], [BoundAddress(all), BoundAddress(one)])
      }
    }
  }

  private func listeners(_ bound: [BoundAddress]) -> [ListenerSettings] {
    bound.map { bound in listener(.socket(bound.address)) { $0.ipv6only = bound.isIPv6Only } }
  }

  /// Sockets as systemd's store hands them over, and nobody else has them open.
  private func stored(_ bound: [BoundAddress], workers: Int) throws -> [InheritedSocket] {
    try bound.flatMap { bound in
      try (0..<workers).map { _ in
        let descriptor = try Sockets.listen(
          on: bound.address, backlog: 16, reuseport: workers > 1 || bound.address.family == AF_INET6,
          ipv6only: bound.isIPv6Only)
        return InheritedSocket(name: KeptSocket.name(of: "\(bound.address)"), descriptor: descriptor)
      }
    }
  }

  @Test(arguments: Overlap.allCases, [1, 2])
  func `a reload binds an address that overlaps one that this process listens on`(overlap: Overlap, workers: Int) throws
  {
    try withScene { scene in
      let (before, after) = overlap.addresses(try scene.port())
      var old: ListeningSockets? = try bind(listeners(before), workers: workers)
      let new = try bind(listeners(after), workers: workers, keeping: old)
      let replaced = new.replaced(of: old).map(\.address)
      #expect(replaced == (overlap == .further ? [] : before.map { .socket($0.address) }))
      old = nil
      #expect(isListening(loopback(try #require(before[0].address.port))))
      withExtendedLifetime(new) {}
    }
  }

  @Test(arguments: Overlap.allCases, [1, 2])
  func `a restart closes the stored sockets of addresses that no listener names, and takes who waits there`(
    overlap: Overlap, workers: Int
  ) throws {
    try withScene { scene in
      let port = try scene.port()
      let (before, after) = overlap.addresses(port)
      let kept = KeptSockets(try stored(before, workers: workers))
      let client = try Sockets.connect(to: .ipv4(address: 0x7F00_0001, port: port))
      defer { close(client) }
      try #require(isListening(loopback(port)))
      // Those of this user would stay, and share their port.
      #expect(kept.released(for: listeners(after), mostWaiting: 64).held.count == kept.held.count)
      let rest = kept.released(for: listeners(after), mostWaiting: 64) { _ in false }
      defer { for waiting in rest.waiting { close(waiting.descriptor) } }
      // The second client is that of `isListening`.
      #expect(rest.waiting.count == (overlap == .further ? 0 : 2))
      let new = try ListeningSockets(
        for: listeners(after), workers: workers, inherited: [], kept: rest, keeping: nil)
      #expect(isListening(loopback(port)))
      for waiting in rest.waiting {
        let local = try #require(Sockets.localAddress(of: waiting.descriptor))
        #expect(new.listener(taking: local) == 0)
      }
      let (replaced, others) = rest.unused(besides: new)
      #expect(replaced.isEmpty && others.isEmpty)
      withExtendedLifetime(new) {}
    }
  }

  @Test func `a socket that takes no more leaves new clients to another one, and keeps those in its queue`() throws {
    try withScene { scene in
      let port = try scene.port()
      let old = try Sockets.listen(
        on: .ipv4(address: 0x7F00_0001, port: port), backlog: 8, reuseport: true, ipv6only: true)
      defer { close(old) }
      let early = try Sockets.connect(to: .ipv4(address: 0x7F00_0001, port: port))
      defer { close(early) }
      try #require(isListening(loopback(port)))
      let new = try Sockets.listen(on: .ipv4(address: 0, port: port), backlog: 8, reuseport: true, ipv6only: true)
      defer { close(new) }
      Sockets.takeNoMore(old)
      try #require(isListening(loopback(port)))
      let (first, second) = (WaitingConnection.all(of: old, atMost: 8), WaitingConnection.all(of: new, atMost: 8))
      for waiting in first + second { close(waiting.descriptor) }
      #expect(first.count == 2 && second.count == 1)
    }
  }

  /// The process that is replaced (USR2) serves on them.
  @Test(arguments: Overlap.allCases)
  func `a new process binds beside the sockets of the one before it, and closes them later`(overlap: Overlap) throws {
    try withScene { scene in
      let port = try scene.port()
      let (before, after) = overlap.addresses(port)
      let kept = KeptSockets(try stored(before, workers: 1))
      let new = try ListeningSockets(for: listeners(after), workers: 1, inherited: [], kept: kept, keeping: nil)
      let (replaced, others) = kept.unused(besides: new)
      #expect(replaced.count == (overlap == .further ? 0 : before.count) && others.isEmpty)
      for descriptor in replaced { close(descriptor) }
      #expect(isListening(loopback(port)))
      withExtendedLifetime(new) {}
    }
  }

  @Test func `a reload that is refused leaves the ports of its own sockets to them alone`() throws {
    try withScene { scene in
      let port = try scene.port()
      let all = ListenAddress.socket(.ipv4(address: 0, port: port))
      let old = try bind([listener(all)])
      let told = refusal { () throws(Refusal) in
        // No interface has the second address.
        try bind([listener(loopback(port)), listener(.socket(.ipv4(address: 0xC633_6401, port: port)))], keeping: old)
      }
      #expect(told.count == 1, "\(told)")
      #expect(!Sockets.sharesPort(try #require(old.sockets(worker: 0).first?.descriptor)))
    }
  }

  @Test func `which addresses take connections of one another`() {
    func four(_ address: UInt32, _ port: UInt16 = 80) -> BoundAddress {
      BoundAddress(.ipv4(address: address, port: port))
    }
    func six(_ high: UInt64, _ low: UInt64, only: Bool = true) -> BoundAddress {
      BoundAddress(.ipv6(high: high, low: low, port: 80), isIPv6Only: only)
    }
    let local: UInt32 = 0x7F00_0001
    let meeting: [(BoundAddress, BoundAddress)] = [
      (four(0), four(local)), (four(local), four(local)), (four(0), six(0, 0, only: false)),
      (four(local), six(0, 0, only: false)), (six(0, 0), six(0, 1)), (six(0, 0), six(0, 0, only: false)),
      (four(local), six(0, 0xFFFF_7F00_0001, only: false)), (four(0), six(0, 0xFFFF_7F00_0001, only: false)),
    ]
    for (one, other) in meeting { #expect(one.overlaps(other) && other.overlaps(one), "\(one) \(other)") }
    let apart: [(BoundAddress, BoundAddress)] = [
      (four(0), four(0, 81)), (four(local), four(0x7F00_0002)), (four(0), six(0, 0)), (four(0), six(0, 1, only: false)),
      (six(0, 1), six(0, 2)), (BoundAddress(.unix(path: "/x")), BoundAddress(.unix(path: "/x"))),
    ]
    for (one, other) in apart { #expect(!one.overlaps(other) && !other.overlaps(one), "\(one) \(other)") }
    #expect(six(0, 0, only: false).takes(.ipv6(high: 0, low: 0xFFFF_7F00_0001, port: 80)))
  }

  // MARK: Who has an address

  @Test func `the holder of an address is read from the kernel's tables`() throws {
    let tables = [
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
      "   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 33 0 40936 1 0 100",
      "   1: 0100007F:1F91 0100007F:A000 01 00000000:00000000 00:00000000 00000000 0 0 40937 1 0 100",
      "   2: 00000000000000000000000001000000:1F91 00000000000000000000000000000000:0000 0A 0:0 0:0 0 7 0 40938 1 0",
      "   3: 0100007F:XXXX 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1 1 0 100",
    ]
    let all = SocketHolder.sockets(in: tables)
    try #require(all.count == 2)
    #expect(all[0].address == .ipv4(address: 0, port: 8080) && all[0].user == 33 && all[0].inode == 40936)
    #expect(all[1].address == .ipv6(high: 0, low: 1, port: 8081))
    let local = BoundAddress(.ipv4(address: 0x7F00_0001, port: 8080))
    #expect(SocketHolder.holder(of: local, among: all) == all[0])
    #expect(SocketHolder.holder(of: BoundAddress(.ipv4(address: 0x7F00_0001, port: 8082)), among: all) == nil)
  }

  @Test func `who can't bind an address is told who has it`() throws {
    try withScene { scene in
      let taken = try occupied()
      defer { close(taken.descriptor) }
      let holder = try #require(SocketHolder.find(BoundAddress(.ipv4(address: 0, port: taken.port))))
      #expect(holder.process?.identifier == getpid() && holder.address == .ipv4(address: 0x7F00_0001, port: taken.port))
      #expect(holder.words.hasPrefix("process \(getpid()) (") && holder.words.hasSuffix("127.0.0.1:\(taken.port)"))
      // A socket unit has it.
      let unit = InheritedSocket(name: "https", descriptor: taken.descriptor)
      let told = refusal { () throws(Refusal) in
        try bind([listener(.socket(.ipv4(address: 0, port: taken.port)))], inherited: [unit])
      }
      #expect(told.first?.hint?.contains("systemd's socket \"https\" listens on 127.0.0.1:\(taken.port)") == true)
    }
  }

  @Test func `check --running tells which addresses differ, and who has those that can't be had`() {
    func four(_ address: UInt32, _ port: UInt16) -> ListenAddress { .socket(.ipv4(address: address, port: port)) }
    let file = [four(0, 80), four(0x7F00_0001, 8443), four(0, 22), four(0, 81), .socket(.unix(path: "/run/x"))]
    let lines = ListenDifference.lines(
      file.map { listener($0) }, bound: ["0.0.0.0:80", "0.0.0.0:8443", "unix:/run/y"], by: 7
    ) { bound in
      guard bound.address.port == 22 else { return nil }
      return SocketHolder(address: .ipv4(address: 0, port: 22), user: 0, process: .init(identifier: 9, name: "sshd"))
    }
    #expect(
      lines == [
        "process 7 does not listen on 127.0.0.1:8443, which the file names: a reload takes that over from 0.0.0.0:8443",
        "process 7 does not listen on 0.0.0.0:22, which the file names, and can't: process 9 (sshd) listens on 0.0.0.0:22",
        "process 7 does not listen on 0.0.0.0:81, which the file names: a reload does",
        "process 7 does not listen on unix:/run/x, which the file names: a reload does",
        "process 7 listens on 0.0.0.0:8443, which the file does not name: a reload gives it up",
        "process 7 listens on unix:/run/y, which the file does not name: a reload gives it up",
      ])
    #expect(ListenDifference.lines([listener(four(0, 80))], bound: ["0.0.0.0:80"], by: 7) { _ in nil }.isEmpty)
    // A socket unit's address is not in the file.
    #expect(
      ListenDifference.lines([listener(.systemd(name: "https"))], bound: ["[::]:443"], by: 7) { _ in nil }.isEmpty)
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

  /// systemd would start the service again at once, and give the socket unit up after 20 starts.
  @Test func `a refused start waits only where a client of a socket unit does`() throws {
    let kept = KeptSocket.name(of: "0.0.0.0:443")
    #expect(ActivationPause(count: 3, names: ["https", kept, "http"]).descriptors == [3, 5])
    #expect(ActivationPause(count: 2, names: []).descriptors == [3, 4])
    #expect(ActivationPause(count: 1, names: [kept]).descriptors.isEmpty)
    for count in [-1, Int32.min, 0] { #expect(!ActivationPause(count: count, names: ["https"]).isNeeded) }
    let taken = try occupied()
    defer { close(taken.descriptor) }
    // In place of the descriptor that systemd would pass.
    let pause = ActivationPause(at: [taken.descriptor])
    #expect(!pause.isNeeded)
    let client = try Sockets.connect(to: .ipv4(address: 0x7F00_0001, port: taken.port))
    defer { close(client) }
    try #require(isListening(loopback(taken.port)))
    #expect(pause.isNeeded)
  }
}
