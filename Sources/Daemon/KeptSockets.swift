import Forward
import Glibc
import Systemd
import Traffic
import Transport

/// Listening sockets that this process got from its predecessor: by systemd's store after a restart, or from the process
/// whose binary it replaces.
///
/// They are matched to listen addresses by what the kernel says of them. Connections that came meanwhile wait in their
/// queues.
struct KeptSockets: Sendable {
  private let sockets: [InheritedSocket]
  /// Who had connected to a socket that is closed now, while a listener has its address.
  let waiting: [WaitingConnection]

  /// Takes those of `inherited` that sallyport named itself; the others are of socket units.
  init(_ inherited: [InheritedSocket]) { self.init(inherited.filter { KeptSocket.isName($0.name) }, waiting: []) }

  private init(_ sockets: [InheritedSocket], waiting: [WaitingConnection]) {
    self.sockets = sockets
    self.waiting = waiting
  }

  /// The sockets of TCP, with which others may share a port.
  var held: [HeldSockets.Held] {
    sockets.compactMap { socket in
      guard let bound = BoundAddress(of: socket.descriptor), bound.address.port != nil else { return nil }
      return HeldSockets.Held(bound: bound, descriptors: [socket.descriptor])
    }
  }

  /// Closes the sockets that serve none of these listeners, and returns the others. One that overlaps a listener stays if it
  /// can share its port (`shares`), so that nobody is lost: whoever serves gives it up (`RetiringSockets`).
  ///
  /// Call this before binding, if systemd's store had them: nothing else would close them there, and each start would find
  /// its addresses in use. systemd closes its copies first, so that whoever connects meanwhile waits; whoever waits at an
  /// address of a listener's is accepted, at most `mostWaiting` of them.
  func released(
    for listeners: [ListenerSettings], mostWaiting: Int, shares: (Int32) -> Bool = Sockets.isOfThisUser
  ) -> KeptSockets {
    let taken = Set(listeners.flatMap { descriptors(for: $0)?.all ?? [] })
    let wanted = listeners.compactMap { BoundAddress($0) }
    func overlaps(_ descriptor: Int32) -> Bool {
      BoundAddress(of: descriptor).map { bound in wanted.contains { $0.overlaps(bound) } } ?? false
    }
    let closing = sockets.map(\.descriptor).filter { !taken.contains($0) && !(overlaps($0) && shares($0)) }
    guard !closing.isEmpty else { return self }
    for name in Set(sockets.filter { closing.contains($0.descriptor) }.map(\.name)).sorted() {
      Notification.send(.forget(socketsNamed: name))
    }
    let replaced = closing.filter(overlaps)
    if !replaced.isEmpty { Notification.waitUntilProcessed(microseconds: 5_000_000) }
    var waiting: [WaitingConnection] = []
    for descriptor in replaced {
      waiting += WaitingConnection.all(of: descriptor, atMost: mostWaiting - waiting.count)
    }
    for descriptor in closing { close(descriptor) }
    return KeptSockets(sockets.filter { !closing.contains($0.descriptor) }, waiting: waiting)
  }

  /// The sockets that a listener can take over, with the file of a unix socket; nil if there are none.
  private func descriptors(for listener: ListenerSettings) -> (all: [Int32], file: UnixSocketFile?)? {
    guard case .socket(let address) = listener.address else { return nil }
    let file: UnixSocketFile?
    if case .unix(let path) = address {
      guard let there = UnixSocketFile(at: path) else { return nil }
      file = there
    } else {
      file = nil
    }
    let name = KeptSocket.name(of: file.map { "\(listener.address)#\($0.identity)" } ?? "\(listener.address)")
    let descriptors = sockets.filter { $0.name == name }.map(\.descriptor)
    guard !descriptors.isEmpty, descriptors.allSatisfy({ Sockets.localAddress(of: $0) == address }),
      address.family != AF_INET6
        || descriptors.allSatisfy({ Sockets.isIPv6Only($0) == listener.options.ipv6only })
    else { return nil }
    return (descriptors, file)
  }

  /// Returns the sockets of an address; nil if there are none that serve as the settings want.
  ///
  /// Each worker gets one if there are as many as workers. Otherwise `worker_processes` has changed, and all workers share
  /// all of them: a closed socket would lose its queue.
  func socket(for listener: ListenerSettings, workers: Int) -> ListeningSocket? {
    guard let (descriptors, file) = descriptors(for: listener) else { return nil }
    for descriptor in descriptors { settle(descriptor, listener.options) }
    return ListeningSocket(
      address: listener.address, options: listener.options,
      descriptors: workers > 1 && descriptors.count == workers ? .perWorker(descriptors) : .shared(descriptors),
      file: file)
  }

  /// Gives a socket the options of this configuration; it has those of an earlier one.
  private func settle(_ descriptor: Int32, _ options: ListenOptions) {
    _ = listen(descriptor, Int32(truncatingIfNeeded: options.backlog))
    Sockets.tuneListener(
      descriptor, receiveBuffer: nil, sendBuffer: nil, defers: options.isDeferred,
      fastOpenQueue: options.fastOpenQueue ?? 0)
    if options.keepalive == nil { Sockets.setKeepalive(descriptor, on: false, idle: nil, interval: nil, count: nil) }
  }

  /// The names of the sockets that listeners have taken, and of the others.
  func names(takenBy used: ListeningSockets) -> (taken: Set<String>, unused: Set<String>) {
    let descriptors = Set(used.byKeptName.flatMap(\.socket.all))
    let taken = Set(sockets.filter { descriptors.contains($0.descriptor) }.map(\.name))
    return (taken, Set(sockets.map(\.name)).subtracting(taken))
  }

  /// The sockets that no listener has taken: first those that share connections with one, then the others. Whoever calls
  /// this closes them.
  func unused(besides used: ListeningSockets) -> (replaced: [Int32], others: [Int32]) {
    let taken = Set(used.byKeptName.flatMap(\.socket.all))
    let unused = sockets.map(\.descriptor).filter { !taken.contains($0) }
    let replaced = unused.filter { BoundAddress(of: $0).map { used.overlap($0) } ?? false }
    return (replaced, unused.filter { !replaced.contains($0) })
  }
}
