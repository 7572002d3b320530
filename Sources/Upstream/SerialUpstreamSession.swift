import TLS
import Transport

/// A session for one attempt at a time, in HTTP/1 or in a protocol that a feature brings.
///
///     opening ──► serving ──► idle ──► serving …     `SerialUpstreamStream` carries one attempt's request and response
///        │            └────────┴──► closed
///        └──► closed
final class SerialUpstreamSession: UpstreamSession {
  enum Phase: Equatable {
    case opening, idle, serving, closed
  }

  private(set) var phase = Phase.opening
  /// nil once the session is closed.
  private(set) var stream: SerialUpstreamStream?

  override init(transport: ByteStream, tls: TLSStream?, server: Int, trust: UpstreamTrust, group: UpstreamGroup) {
    super.init(transport: transport, tls: tls, server: server, trust: trust, group: group)
    stream =
      if case .wire(let wire) = trust.connection { WireUpstreamStream(self, transport, wire) } else {
        HTTP1UpstreamStream(self, transport)
      }
    transport.owner = self
  }

  // MARK: Attempts

  override func begin(_ observer: AttemptObserver, _ settings: AttemptSettings, on ticket: ServerTicket) {
    guard let stream else { return }
    requestsServed += 1
    stream.begin(observer, settings, on: ticket)
    observer.attemptDidBegin(stream)
    guard phase == .idle else { return transport.setDeadline(in: settings.timeouts.connect) }
    phase = .serving
    stream.open()
  }

  /// Counts one more request over the same session: the answer to a challenge.
  func beginAgain() { requestsServed += 1 }

  /// Returns the session to its group, unless unexpected bytes have come.
  func keep() {
    // The upstream knows the connection as that of one client.
    guard trust.origin.header.isEmpty else { return close() }
    if transport.mayHaveInput && hasUnsolicitedBytes() { return close() }
    phase = .idle
    group.keep(self)
  }

  // MARK: Transport events

  override func streamDidOpen() {
    guard phase == .opening else { return }
    guard let stream, stream.hasObserver else { return close() }
    trustOutcome = tls?.trustResult?.outcome ?? .none
    if hasUnsolicitedBytes() { return stream.fail(.unsolicitedBytes) }
    phase = .serving
    stream.open()
  }

  override func streamIsReadable() {
    switch phase {
    // After a FIN, an alert or unexpected bytes, the session can't serve another request.
    case .idle: if hasUnsolicitedBytes() || transport.hasPeerEnd { drop() }
    case .serving: stream?.pump()
    case .opening, .closed: break
    }
  }

  override func streamAgain() { streamIsReadable() }

  override func streamDidDrain() { stream?.transportDidDrain() }

  override func streamDidFail(_ failure: StreamFailure) {
    switch (phase, failure) {
    case (.idle, _): drop()
    case (.opening, .socket(let error)): connectDidFail(error)
    case (.opening, .truncated): stream?.fail(.tls("peer closed connection"))
    case (.opening, .protocolError(let reason)): stream?.fail(.tls(reason))
    default: stream?.inputDidEnd(inGoodOrder: false)
    }
  }

  override func streamDeadlinePassed() {
    switch phase {
    case .opening: connectTimeDidPass()
    case .idle: drop()
    case .serving: stream?.deadlinePassed()
    case .closed: break
    }
  }

  override func openingDidFail(_ failure: AttemptFailure) { stream?.fail(failure) }

  // MARK: Ends

  /// Closes an idle session that can't serve another attempt.
  private func drop() {
    group.forget(self)
    close()
  }

  override func close() {
    guard phase != .closed else { return }
    phase = .closed
    stream?.sessionDidClose()
    stream = nil
    group.sessionDidClose(server)
    transport.close()
  }
}
