import Glibc
import Proxy
import Systemd
import Transport

/// Listening sockets that this process got from its predecessor: by systemd's store after a restart, or from the process
/// whose binary it replaces.
///
/// They are matched to listen addresses by what the kernel says of them. Connections that came meanwhile wait in their
/// queues.
struct KeptSockets: Sendable {
  private let sockets: [InheritedSocket]

  /// Takes those of `inherited` that sallyport named itself; the others are of socket units.
  init(_ inherited: [InheritedSocket]) { sockets = inherited.filter { KeptSocket.isName($0.name) } }

  /// Returns the sockets of an address; nil if there are none that serve as the settings want.
  ///
  /// Each worker gets one if there are as many as workers. Otherwise `worker_processes` has changed, and all workers share
  /// all of them: a closed socket would lose its queue.
  func socket(for listener: ListenerSettings, workers: Int) -> ListeningSocket? {
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

  /// Closes the sockets that no listener has taken.
  func closeUnused(besides used: ListeningSockets) {
    let taken = Set(used.byKeptName.flatMap(\.socket.all))
    for socket in sockets where !taken.contains(socket.descriptor) { close(socket.descriptor) }
  }
}
