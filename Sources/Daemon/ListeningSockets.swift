import Features
import Forward
import Glibc
import Loading
import Observability
import Systemd
package import Traffic
import Transport

/// Every socket of a generation, bound and listening: the second phase of a start or reload.
///
/// On reload, addresses that stay keep their sockets. A failure closes only sockets that were newly bound.
package struct ListeningSockets: Sendable {
  /// By index in `HTTPSettings.listeners`.
  private let sockets: [ListeningSocket]
  private let workers: Int

  /// Binds the addresses that `current` and `kept` do not have. Tries all of them, to report all faults at once.
  ///
  /// What this process listens on itself is no obstacle: a socket of the former configuration shares its port with one
  /// whose address overlaps (SO_REUSEPORT), until it closes. `holders`: who has an address, as far as that is known.
  init(
    for listeners: [ListenerSettings], workers: Int, inherited: [InheritedSocket], kept: KeptSockets = KeptSockets([]),
    keeping current: ListeningSockets?, by opener: PrivilegedOpener? = nil, holders: [ListenAddress: String] = [:]
  ) throws(Refusal) {
    self.workers = workers
    var diagnostics: [Diagnostic] = []
    let held = HeldSockets((current?.held ?? []) + kept.held)
    let former = listeners.map { listener in
      current?.sockets.first { $0.serves(listener) } ?? kept.socket(for: listener, workers: workers)
    }
    for index in listeners.indices where former[index] == nil && !held.overlap(listeners[index]) {
      if let failure = Self.probe(listeners[index], opener) {
        diagnostics.append(failure.diagnostic(listeners[index], inherited, holders))
      }
    }
    guard diagnostics.isEmpty else { throw Refusal(diagnostics, cause: .environment) }
    var cause = Refusal.Cause.environment
    var sockets: [ListeningSocket] = []
    var shared: [Int32] = []
    for index in listeners.indices {
      let listener = listeners[index]
      do throws(ListenFailure) {
        if let socket = former[index] {
          sockets.append(socket)
        } else {
          let ours = held.sharePorts(with: listener)
          shared += ours.changed
          let sharesPort =
            ours.overlap
            || listeners.contains {
              guard $0.address != listener.address, let other = BoundAddress($0) else { return false }
              return BoundAddress(listener)?.overlaps(other) ?? false
            }
          sockets.append(
            try Self.open(listener, workers: workers, sharesPort: sharesPort, inherited: inherited, opener))
        }
      } catch {
        diagnostics.append(error.diagnostic(listener, inherited, holders))
        if case .notInherited = error { cause = .configuration }
      }
    }
    guard diagnostics.isEmpty else {
      for descriptor in shared { Sockets.sharePort(descriptor, false) }
      throw Refusal(diagnostics, cause: cause)
    }
    self.sockets = sockets
    for index in sockets.indices { sockets[index].apply(listeners[index].options) }
  }

  /// The sockets that one worker accepts from.
  package func sockets(worker: Int) -> [ListenerSocket] {
    sockets.indices.flatMap { sockets[$0].sockets(worker: worker, of: workers, listener: $0) }
  }

  package var addresses: [ListenAddress] { sockets.map(\.address) }

  /// For each listener the addresses that clients reach: those of the sockets themselves for sockets of systemd's.
  var boundAddresses: [[SocketAddress]] {
    sockets.map { socket in
      if case .socket(let address) = socket.address { return [address] }
      return socket.all.compactMap { Sockets.localAddress(of: $0) }
    }
  }

  /// The sockets that another process can take over, by the name under which it gets them.
  var byKeptName: [(name: String, socket: ListeningSocket)] {
    sockets.compactMap { socket in socket.keptName.map { ($0, socket) } }
  }

  /// The sockets that this process has bound itself, as far as others can overlap them.
  fileprivate var held: [HeldSockets.Held] {
    sockets.compactMap { socket in
      guard case .socket(let address) = socket.address, address.port != nil else { return nil }
      return HeldSockets.Held(
        bound: BoundAddress(address, isIPv6Only: socket.options.ipv6only), descriptors: socket.all)
    }
  }

  /// Those of `former` that are not among these, while one of these takes a part of their connections.
  func replaced(of former: ListeningSockets?) -> [ListeningSocket] {
    (former?.sockets ?? []).filter { old in
      guard !sockets.contains(where: { $0 === old }), case .socket(let address) = old.address else { return false }
      return overlap(BoundAddress(address, isIPv6Only: old.options.ipv6only))
    }
  }

  /// Whether one of these takes a part of the connections that a socket of this address takes.
  func overlap(_ bound: BoundAddress) -> Bool { held.contains { $0.bound.overlaps(bound) } }

  /// The listener that takes a connection whose own address this is: that of the address itself before one of all
  /// addresses.
  func listener(taking local: SocketAddress) -> Int? {
    let bound = sockets.map { socket -> BoundAddress? in
      guard case .socket(let address) = socket.address else { return nil }
      return BoundAddress(address, isIPv6Only: socket.options.ipv6only)
    }
    return bound.firstIndex { $0?.address == local } ?? bound.firstIndex { $0?.takes(local) ?? false }
  }

  /// Removes the files of unix sockets at the end of the process.
  package func removeFiles() {
    for socket in sockets { socket.removeFile() }
  }

  // MARK: Opening

  /// Detects another process on the same port. With SO_REUSEPORT a second instance of the same user would share the
  /// port silently, so this first binds each address without it. Addresses that this process already holds are skipped.
  private static func probe(_ listener: ListenerSettings, _ opener: PrivilegedOpener?) -> ListenFailure? {
    guard case .socket(let address) = listener.address, address.family != AF_UNIX else { return nil }
    do throws(SocketError) {
      close(try bind(listener, address, reuseport: false, opener))
      return nil
    } catch {
      return .socket(error)
    }
  }

  /// `opener`: binds in place of this process, which may have no right to ports below 1024 any more. It binds the others,
  /// too: sockets share a port only if one user has made them all, and root has made those of the start.
  private static func bind(
    _ listener: ListenerSettings, _ address: SocketAddress, reuseport: Bool, _ opener: PrivilegedOpener?
  ) throws(SocketError) -> Int32 {
    if let opener {
      do throws(OpenerRefusal) {
        let request = OpenerRequest(reuseport ? .listenShared : .listen, "\(listener.address)")
        if let descriptor = try opener.ask(request) { return descriptor }
      } catch {
        // What the opener does not do, this process tries itself.
        if error.reason == nil { throw SocketError("bind", error.code) }
      }
    }
    return try Sockets.listen(
      on: address, backlog: listener.options.backlog, reuseport: reuseport, ipv6only: listener.options.ipv6only)
  }

  private static func open(
    _ listener: ListenerSettings, workers: Int, sharesPort: Bool, inherited: [InheritedSocket],
    _ opener: PrivilegedOpener?
  ) throws(ListenFailure) -> ListeningSocket {
    switch listener.address {
    case .systemd(let name):
      let descriptors = inherited.filter { $0.name == name }.map(\.descriptor)
      guard !descriptors.isEmpty else {
        // Those that sallyport named itself are of no socket unit.
        throw .notInherited(name: name, passed: inherited.map(\.name).filter { !KeptSocket.isName($0) })
      }
      return ListeningSocket(
        address: listener.address, options: listener.options, descriptors: .shared(descriptors))
    case .socket(.unix(let path)):
      return try openUnix(path, listener)
    case .socket(let address):
      let usesReuseport = listener.options.reuseport || workers > 1 || sharesPort
      var opened: [Int32] = []
      do throws(SocketError) {
        for _ in 0..<(usesReuseport ? workers : 1) {
          opened.append(try bind(listener, address, reuseport: usesReuseport, opener))
        }
      } catch {
        for descriptor in opened { close(descriptor) }
        throw .socket(error)
      }
      return ListeningSocket(
        address: listener.address, options: listener.options,
        descriptors: usesReuseport ? .perWorker(opened) : .shared(opened))
    }
  }

  private static func openUnix(_ path: String, _ listener: ListenerSettings) throws(ListenFailure) -> ListeningSocket {
    UnixSocketFile.removeStale(at: path)
    do throws(SocketError) {
      let descriptor = try Sockets.listen(
        on: .unix(path: path), backlog: listener.options.backlog, reuseport: false, ipv6only: false)
      // Mode 0666 as in nginx; the directory's mode decides who may connect.
      if chmod(path, 0o666) != 0 {
        let code = errno
        close(descriptor)
        unlink(path)
        throw SocketError("chmod", code)
      }
      return ListeningSocket(
        address: listener.address, options: listener.options, descriptors: .shared([descriptor]),
        file: UnixSocketFile(at: path))
    } catch {
      throw .socket(error)
    }
  }
}

/// Why the process can't listen on an address.
enum ListenFailure: Error {
  case socket(SocketError)
  case notInherited(name: String, passed: [String])

  /// The diagnostic in nginx's words: `bind() to 0.0.0.0:80 failed (98: Address already in use)`.
  func diagnostic(
    _ listener: ListenerSettings, _ inherited: [InheritedSocket], _ holders: [ListenAddress: String]
  ) -> Diagnostic {
    switch self {
    case .socket(let error):
      Diagnostic(
        .error, at: listener.location,
        "\(error.call)() to \(listener.address) failed (\(error.code): \(String(cString: strerror(error.code))))",
        hint: error.code == EADDRINUSE
          ? holders[listener.address] ?? Self.holder(of: listener, inherited) : Self.hint(error.code))
    case .notInherited(let name, let passed):
      Diagnostic(
        .error, at: listener.location, "systemd handed over no socket of the name \"\(name)\"",
        hint: (passed.isEmpty ? "no socket was handed over" : "handed over were: \(passed.joined(separator: ", "))")
          + "; the name is FileDescriptorName= in the socket unit. " + Self.order)
    }
  }

  /// The order in which a service that runs gets the socket of a unit: systemd refuses to start the unit of a socket while
  /// its service runs, and hands sockets over only when it starts the service. The same order suits a start that failed.
  private static let order =
    "systemd starts a socket unit only while the service is stopped, and hands its socket over only at the service's start: "
    + "systemctl stop sallyport; systemctl enable --now sallyport.socket; systemctl start sallyport"

  /// Who listens there.
  private static func holder(of listener: ListenerSettings, _ inherited: [InheritedSocket]) -> String {
    let unknown = "another process listens there: `ss -ltnp` shows which"
    guard let bound = BoundAddress(listener) else { return unknown }
    let unit = inherited.first { BoundAddress(of: $0.descriptor)?.overlaps(bound) ?? false }
    if let unit, let address = Sockets.localAddress(of: unit.descriptor) {
      return "systemd's socket \"\(unit.name)\" listens on \(address): write \"listen systemd:\(unit.name)\" here, or "
        + "disable its unit"
    }
    guard let holder = SocketHolder.find(bound) else { return unknown }
    guard holder.process?.identifier != getpid() else {
      return "this process listens on \(holder.address), by the rights of another user: restart it"
    }
    return holder.words
  }

  private static func hint(_ code: Int32) -> String? {
    switch code {
    case EACCES:
      "ports below 1024 need root or CAP_NET_BIND_SERVICE (with the unit: low-ports.conf or sallyport.socket); "
        + "after a start as root, a reload binds them if root alone can change the configuration; "
        + "a unix socket needs a folder that sallyport may write to"
    case EADDRNOTAVAIL: "no interface of this machine has the address"
    default: nil
    }
  }
}

/// Sockets that this process has, with which others that it binds may share a port.
struct HeldSockets {
  struct Held: Sendable {
    let bound: BoundAddress
    let descriptors: [Int32]
  }

  private let all: [Held]

  init(_ all: [Held]) { self.all = all }

  func overlap(_ listener: ListenerSettings) -> Bool {
    guard let bound = BoundAddress(listener) else { return false }
    return all.contains { $0.bound.overlaps(bound) }
  }

  /// Lets those that overlap the listener share their ports. The kernel then lets this user bind the listener's address,
  /// although the others listen. Returns whether there are any, and the descriptors that didn't share before.
  func sharePorts(with listener: ListenerSettings) -> (overlap: Bool, changed: [Int32]) {
    guard let bound = BoundAddress(listener) else { return (false, []) }
    let ours = all.filter { $0.bound.overlaps(bound) }
    let changed = ours.flatMap(\.descriptors).filter { !Sockets.sharesPort($0) }
    for descriptor in changed { Sockets.sharePort(descriptor, true) }
    return (!ours.isEmpty, changed)
  }
}

extension ListeningSocket {
  /// Applies the options that may change while the socket listens. Connections inherit SO_KEEPALIVE from their
  /// listener.
  fileprivate func apply(_ options: ListenOptions) {
    let former = exchange(options)
    for descriptor in all {
      if options.backlog != former.backlog {
        _ = listen(descriptor, Int32(truncatingIfNeeded: options.backlog))
      }
      Sockets.tuneListener(
        descriptor, receiveBuffer: options.receiveBuffer, sendBuffer: options.sendBuffer,
        defers: options.isDeferred || former.isDeferred ? options.isDeferred : nil,
        fastOpenQueue: options.fastOpenQueue ?? (former.fastOpenQueue == nil ? nil : 0))
      switch options.keepalive {
      case nil where former.keepalive != nil, .off:
        Sockets.setKeepalive(descriptor, on: false, idle: nil, interval: nil, count: nil)
      case nil: break
      case .on: Sockets.setKeepalive(descriptor, on: true, idle: nil, interval: nil, count: nil)
      case .parameters(let idle, let interval, let count):
        Sockets.setKeepalive(descriptor, on: true, idle: idle, interval: interval, count: count)
      }
    }
  }
}
