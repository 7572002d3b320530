import Bytes
import HTTP
import Observability
import TLS
import Transport

/// One client's connection as a whole: the transport until its handshake is over, who the client is, whether it may ask
/// at all, and then the HTTP connection on it.
///
/// A session belongs to one generation. After a reload the worker moves idle sessions to the new one (`move`).
final class ClientSession: StreamOwner {
  let worker: Worker
  private(set) var live: LiveGeneration
  private(set) var servers: VirtualServers
  let transport: ByteStream
  let facts: ConnectionFacts
  private(set) var admission = Admission.undecided
  /// The server block that is meant before any Host is known: that of the SNI, or the default.
  private(set) var firstServer: LiveServer
  /// Which server block each Host means, as far as this client has asked.
  var hostChoice = HostChoice()
  /// Requests that the client has made.
  var requests = 0
  /// nil until the handshake is over, and again once the session is closed.
  private(set) var connection: HTTP1Connection?
  private(set) var isClosed = false
  private let tls: TLSStream?

  /// `tls`: the transport, where it is one with TLS.
  init(
    worker: Worker, live: LiveGeneration, servers: VirtualServers, transport: ByteStream, tls: TLSStream?,
    peer: SocketAddress, number: UInt64
  ) {
    self.worker = worker
    self.live = live
    self.servers = servers
    self.firstServer = servers.fallback
    self.transport = transport
    self.tls = tls
    self.facts = ConnectionFacts(number: number, peer: peer, transport: transport, tls: tls)
    super.init()
    transport.owner = self
  }

  /// The handshake is not over: what comes may be a replay (RFC 8470 §3).
  var isEarly: Bool { tls?.isEarly ?? false }

  /// The session is to end with the exchange that is under way.
  var isLeaving: Bool { worker.isDraining || live !== worker.live }

  func begin() {
    transport.setDeadline(in: servers.fallback.settings.head.timeout)
    transport.begin()
  }

  /// Settles who the client is, for the requests that come.
  private func admit() {
    firstServer = servers.fallback
    if let context = tls?.serverContext, context !== firstServer.context {
      firstServer = live.servers.first { $0.context === context } ?? firstServer
    }
    admission = Admission(tls)
  }

  // MARK: Transport events, until the handshake is over

  override func streamDidOpen() {
    admit()
    if let tls { worker.metrics.clients.count(ClientOutcome(tls.clientVerdict)) }
    let connection = HTTP1Connection(self, transport)
    self.connection = connection
    transport.owner = connection
    transport.setDeadline(in: firstServer.settings.head.timeout)
  }

  override func streamDidFail(_ failure: StreamFailure) {
    handshakeDidFail(failure, tls)
    close()
  }

  override func streamDeadlinePassed() {
    handshakeDidFail(nil, tls)
    close()
  }

  // MARK: What a request asks

  /// Who may ask at all, and whether the server block of the handshake may stand for the one that Host names.
  func admits(at server: LiveServer) -> Bool {
    guard case .granted = admission else { return false }
    guard let tls else { return true }
    guard let context = tls.serverContext else { return false }
    return server.admits(clientOf: context)
  }

  // MARK: Reload, room and ends

  /// Moves to the new generation, whose policy judges the client; or ends. A session in the midst of an exchange stays, and
  /// ends with the exchange.
  func move(to fresh: LiveGeneration) {
    guard !isClosed, connection?.isIdle ?? true else { return }
    let successor = fresh.listeners.first {
      $0.settings.address == servers.settings.address && $0.settings.isTLS == servers.settings.isTLS
    }
    guard let successor, tls?.move(to: successor) ?? true else {
      if let connection { connection.end(lingers: false) } else { close() }
      return
    }
    live.clients -= 1
    fresh.clients += 1
    live = fresh
    servers = successor
    firstServer = successor.fallback
    hostChoice = HostChoice()
    facts.forget()
    guard let connection else { return }
    admit()
    // A client that has just connected is told why; one that was served until now just sees the connection end.
    if case .refused = admission, requests > 0 { connection.end(lingers: false) }
  }

  /// The worker ends: an idle connection ends, a client that is about to ask may still do so.
  func endIfIdle() {
    if let connection, connection.hasNoRequest { connection.end(lingers: false) }
  }

  /// Whether nothing is under way: the client is between two requests, or has not sent a byte yet. The worker may close
  /// such a session for want of room (nginx's reusable connections).
  var isReusable: Bool {
    guard let connection else { return !isClosed && transport.wireBytesIn == 0 }
    return connection.hasNoRequest && transport.pendingCount == 0
  }

  /// Since when the session waits for a request, in milliseconds of the loop's clock.
  var idleSince: UInt64 { connection?.idleSince ?? facts.openedAt }

  /// Ends at once, whatever is under way.
  func cut() {
    if let connection { connection.cut() } else { close() }
  }

  func close(_ closing: ByteStream.Closing = .orderly) {
    guard !isClosed else { return }
    isClosed = true
    transport.close(closing)
    connection = nil
    worker.didClose(self)
  }
}
