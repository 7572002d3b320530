import Glibc
import Observability
package import Proxy
import Systemd
import Transport

/// Every socket of a generation, bound and listening: the second phase of a start or reload.
///
/// On reload, addresses that stay keep their sockets. A failure closes only sockets that were newly bound.
package struct ListeningSockets: Sendable {
  /// By index in `HTTPSettings.listeners`.
  private let sockets: [ListeningSocket]
  private let workers: Int

  /// Binds the addresses that `current` and `kept` do not have. Tries all of them, to report all faults at once.
  init(
    for listeners: [ListenerSettings], workers: Int, inherited: [InheritedSocket], kept: KeptSockets = KeptSockets([]),
    keeping current: ListeningSockets?, by opener: PrivilegedOpener? = nil
  ) throws(Refusal) {
    self.workers = workers
    var diagnostics: [Diagnostic] = []
    let kept = listeners.map { listener in
      current?.sockets.first { $0.address == listener.address } ?? kept.socket(for: listener, workers: workers)
    }
    let held = kept.compactMap { $0?.address }
    for (listener, socket) in zip(listeners, kept) where socket == nil {
      if let diagnostic = Self.probe(listener, beside: held, opener) { diagnostics.append(diagnostic) }
    }
    guard diagnostics.isEmpty else { throw Refusal(diagnostics, cause: .environment) }
    var cause = Refusal.Cause.environment
    var sockets: [ListeningSocket] = []
    for (listener, socket) in zip(listeners, kept) {
      do throws(ListenFailure) {
        if let socket {
          sockets.append(socket)
        } else {
          let sharesPort = listeners.contains {
            $0.address != listener.address && $0.address.overlaps(listener.address)
          }
          sockets.append(
            try Self.open(listener, workers: workers, sharesPort: sharesPort, inherited: inherited, opener))
        }
      } catch {
        diagnostics.append(error.diagnostic(listener))
        if case .notInherited = error { cause = .configuration }
      }
    }
    guard diagnostics.isEmpty else { throw Refusal(diagnostics, cause: cause) }
    self.sockets = sockets
    for (listener, socket) in zip(listeners, sockets) { socket.apply(listener.options) }
  }

  /// The sockets that one worker accepts from.
  package func sockets(worker: Int) -> [ListenerSocket] {
    sockets.enumerated().flatMap { $1.sockets(worker: worker, of: workers, listener: $0) }
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

  /// Removes the files of unix sockets at the end of the process.
  package func removeFiles() {
    for socket in sockets { socket.removeFile() }
  }

  // MARK: Opening

  /// Detects another process on the same port. With SO_REUSEPORT a second instance of the same user would share the
  /// port silently, so this first binds each address without it. Addresses that this process already holds are skipped.
  private static func probe(
    _ listener: ListenerSettings, beside held: [ListenAddress], _ opener: PrivilegedOpener?
  ) -> Diagnostic? {
    guard case .socket(let address) = listener.address, address.family != AF_UNIX,
      !held.contains(where: { $0.overlaps(listener.address) })
    else { return nil }
    do throws(SocketError) {
      close(try bind(listener, address, reuseport: false, opener))
      return nil
    } catch {
      return ListenFailure.socket(error).diagnostic(listener)
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
  func diagnostic(_ listener: ListenerSettings) -> Diagnostic {
    switch self {
    case .socket(let error):
      Diagnostic(
        .error, at: listener.location,
        "\(error.call)() to \(listener.address) failed (\(error.code): \(String(cString: strerror(error.code))))",
        hint: Self.hint(error.code))
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

  private static func hint(_ code: Int32) -> String? {
    switch code {
    case EADDRINUSE: "another process listens there: `ss -ltnp` shows which"
    case EACCES:
      "ports below 1024 need root or CAP_NET_BIND_SERVICE (with the unit: low-ports.conf or sallyport.socket); "
        + "after a start as root, a reload binds them if root alone can change the configuration; "
        + "a unix socket needs a folder that sallyport may write to"
    case EADDRNOTAVAIL: "no interface of this machine has the address"
    default: nil
    }
  }
}

extension ListenAddress {
  /// Whether binding both needs SO_REUSEPORT: family and port are the same, and so are the addresses, or one is a
  /// wildcard.
  func overlaps(_ other: ListenAddress) -> Bool {
    guard case .socket(let left) = self, case .socket(let right) = other, left.family == right.family,
      let port = left.port, port == right.port
    else { return false }
    return left == right || left.isWildcard || right.isWildcard
  }
}

extension SocketAddress {
  fileprivate var isWildcard: Bool {
    switch self {
    case .ipv4(let address, _): address == 0
    case .ipv6(let high, let low, _): high == 0 && low == 0
    case .unix: false
    }
  }
}

extension ListeningSocket {
  /// Applies the options that may change while the socket listens. Connections inherit SO_KEEPALIVE from their
  /// listener.
  fileprivate func apply(_ options: ListenOptions) {
    for descriptor in all {
      if options.backlog != self.options.backlog {
        _ = listen(descriptor, Int32(truncatingIfNeeded: options.backlog))
      }
      Sockets.tuneListener(
        descriptor, receiveBuffer: options.receiveBuffer, sendBuffer: options.sendBuffer,
        defers: options.isDeferred == self.options.isDeferred && !options.isDeferred ? nil : options.isDeferred,
        fastOpenQueue: options.fastOpenQueue ?? (self.options.fastOpenQueue == nil ? nil : 0))
      switch options.keepalive {
      case nil: break
      case .on: Sockets.setKeepalive(descriptor, on: true, idle: nil, interval: nil, count: nil)
      case .off: Sockets.setKeepalive(descriptor, on: false, idle: nil, interval: nil, count: nil)
      case .parameters(let idle, let interval, let count):
        Sockets.setKeepalive(descriptor, on: true, idle: idle, interval: interval, count: count)
      }
    }
  }
}
