import Bytes
import HTTP
import TLS
import Transport

/// A session that speaks HTTP/2, for many attempts at once.
///
///     opening ──► serving ──► leaving ──► closed      leaving: no further attempt, those in progress go on
///
/// Attempts that come while the session opens wait for it.
final class HTTP2UpstreamSession: UpstreamSession {
  enum Phase {
    case opening, serving, leaving, closed
  }

  private(set) var phase = Phase.opening
  let frames: UpstreamFrames
  private var streams: [HTTP2UpstreamStream] = []
  /// Streams whose request bytes have gone: they are told after libnghttp2 has returned.
  private var drained: [HTTP2UpstreamStream] = []
  private var isReceiving = false
  /// Into which the session reads. No bytes are left in it between two reads.
  private var input = ByteBuffer()
  /// When the upstream last sent something, in milliseconds of the loop's clock.
  private var heardAt: UInt64

  /// The upstream has refused a stream.
  var hasRefused = false

  /// Milliseconds since the upstream's last bytes, within which a session counts as alive.
  private static let provenTime: UInt64 = 1000
  private static let readSize = 16 * 1024, pumpLimit = 1 << 20
  /// While more bytes than this wait for the upstream, no stream is asked for more.
  private static let watermark = 64 * 1024
  /// Streams at a time, if the upstream allows them.
  private static let streamLimit = 128

  override init(transport: ByteStream, tls: TLSStream?, server: Int, trust: UpstreamTrust, group: UpstreamGroup) {
    frames = UpstreamFrames()
    heardAt = transport.loop.now
    super.init(transport: transport, tls: tls, server: server, trust: trust, group: group)
    frames.session = self
    transport.owner = self
  }

  /// Whether another attempt may begin.
  var hasRoom: Bool {
    let keepalive = group.settings.keepalive
    // A session that is never idle ends too: its attempts go on, and the next one begins another session.
    if isOfOneClient || requestsServed >= keepalive.requests || now &- openedAt >= UInt64(max(0, keepalive.time)) {
      return false
    }
    return switch phase {
    case .opening: streams.count < Self.streamLimit
    case .serving: streams.count < min(Self.streamLimit, frames.peerStreamLimit) && !transport.hasPeerEnd
    case .leaving, .closed: false
    }
  }

  /// Whether a request may go over this session that another one refused, or that was lost with another one.
  var isProven: Bool {
    phase == .opening || (!hasRefused && now &- heardAt < Self.provenTime)
  }

  var isIdle: Bool { streams.isEmpty }
  /// Whether the session is open, and the upstream has not said that it ends.
  var takesAttempts: Bool { phase == .serving && !transport.hasPeerEnd }
  /// Whether the session is kept without an attempt. A session that opens for one isn't.
  var isResting: Bool { streams.isEmpty && phase == .serving && idleSince > 0 }
  var isTLS: Bool { tls != nil }
  var now: UInt64 { transport.loop.now }

  // MARK: Attempts

  override func begin(_ observer: AttemptObserver, _ settings: AttemptSettings, on ticket: ServerTicket) {
    let stream = makeStream(observer, settings, on: ticket)
    observer.attemptDidBegin(stream)
    switch phase {
    case .opening: if streams.count == 1 { transport.setDeadline(in: settings.timeouts.connect) }
    case .serving, .leaving, .closed: if stream.hasObserver { stream.open() }
    }
  }

  /// `ticket`: nil if the stream goes on with another one's attempt.
  func makeStream(
    _ observer: AttemptObserver, _ settings: AttemptSettings, on ticket: ServerTicket?
  ) -> HTTP2UpstreamStream {
    requestsServed += 1
    if streams.isEmpty, phase == .serving {
      transport.setDeadline(in: nil)
      idleSince = 0
    }
    let stream = HTTP2UpstreamStream(self, isOnKeptSession: phase != .opening)
    streams.append(stream)
    stream.begin(observer, settings, on: ticket)
    return stream
  }

  /// A stream is over, by libnghttp2 or before it became one there.
  func remove(_ stream: HTTP2UpstreamStream) {
    streams.removeAll { $0 === stream }
    if streams.isEmpty { hasOutput() }
  }

  /// No attempt begins any more: the upstream said so, or seems dead, or the group has other settings now.
  func retire() {
    guard phase == .serving else { return }
    phase = .leaving
    group.forget(self)
    hasOutput()
  }

  /// As `retire`, also for a session without attempts, which closes.
  func leave() { if isIdle { end() } else { retire() } }

  /// A stream heard nothing for `proxy_read_timeout`. Where no other stream did either, the connection is dead.
  func streamDidTimeOut(after timeout: Int) {
    if now &- heardAt >= UInt64(max(0, timeout)) { retire() }
  }

  // MARK: Transport events

  override func streamDidOpen() {
    guard phase == .opening else { return }
    trustOutcome = tls?.trustResult?.outcome ?? .none
    guard streams.contains(where: \.hasObserver) else { return close() }
    // Without its word, an upstream of HTTP/1 would read frames, and bytes of bodies, as text (RFC 9113 §3.2).
    if let tls, !tls.speaksHTTP2 {
      let chosen = tls.applicationProtocol
      return failAll(.tls("upstream chose \(chosen.isEmpty ? "no protocol" : chosen) by ALPN, not h2"))
    }
    var announcement = HTTP2Announcement()
    announcement.concurrentStreams = 0
    announcement.streamWindow = 128 * 1024
    announcement.connectionWindow = 4 << 20
    guard frames.start(.client, announcement) else { return failAll(.broken("out of memory")) }
    phase = .serving
    heardAt = now
    transport.setDeadline(in: nil)
    for stream in streams where stream.hasObserver { stream.open() }
    hasOutput()
    pump()
  }

  override func streamIsReadable() {
    switch phase {
    case .serving, .leaving: pump()
    case .opening, .closed: break
    }
  }

  override func streamAgain() {
    streamIsReadable()
    sendOutput()
  }

  override func streamDidDrain() { sendOutput() }

  override func streamDidFail(_ failure: StreamFailure) {
    switch (phase, failure) {
    case (.opening, .socket(let error)): connectDidFail(error)
    case (.opening, .truncated): failAll(.tls("peer closed connection"))
    case (.opening, .protocolError(let reason)): failAll(.tls(reason))
    default: inputDidEnd()
    }
  }

  override func streamDeadlinePassed() {
    switch phase {
    case .opening: connectTimeDidPass()
    case .serving, .leaving: if streams.isEmpty { end() }
    case .closed: break
    }
  }

  override func openingDidFail(_ failure: AttemptFailure) { failAll(failure) }

  // MARK: Frames

  private func pump() {
    guard !isReceiving else { return }
    var taken = 0
    while phase != .closed, frames.failure == nil {
      guard taken < Self.pumpLimit else {
        transport.loop.again(transport)
        break
      }
      guard transport.mayHaveInput else { break }
      input.removeAll()
      input.reserve(Self.readSize)
      switch transport.read(into: input.writable) {
      case .bytes(let count):
        input.didWrite(count)
        taken += count
        heardAt = now
        isReceiving = true
        _ = frames.receive(input.readable)
        isReceiving = false
        continue
      case .wouldBlock: break
      case .end, .failed: return inputDidEnd()
      }
      break
    }
    if frames.hasOutput { hasOutput() }
    settle()
  }

  /// Has the frames sent that libnghttp2 has ready, after this batch of events.
  func hasOutput() { transport.loop.again(transport) }

  private func sendOutput() {
    guard phase == .serving || phase == .leaving, !isReceiving else { return }
    if transport.pendingCount < Self.watermark {
      _ = frames.pull { bytes in
        transport.write(bytes)
        return transport.pendingCount < Self.watermark
      }
    }
    settle()
  }

  func send(_ count: Int, of stream: HTTP2UpstreamStream, after frameHeader: UnsafeRawBufferPointer) {
    transport.write(frameHeader)
    if stream.write(count, to: transport) { drained.append(stream) }
  }

  /// The upstream ends the session. What libnghttp2 has not sent yet would wait for the other streams, and then fail.
  func peerDidGoAway() {
    retire()
    for stream in streams where !stream.isOnWire { stream.fail(.refusedStream) }
  }

  /// Tells the streams what libnghttp2 has reported, and ends the session if it is over.
  private func settle() {
    guard !isReceiving, phase != .closed else { return }
    while let stream = drained.popLast() { stream.didDrain() }
    guard phase != .closed else { return }
    if let limit = frames.exceeded {
      // The sentences of the limits have the client as their subject.
      return failAll(.broken("upstream" + "\(limit.reason)".dropFirst("client".count)))
    }
    if let failure = frames.failure {
      return failAll(.broken("upstream sent invalid HTTP/2: \(frames.broken ?? failure)"))
    }
    guard frames.isAlive else {
      return failAll(.broken(frames.broken.map { "upstream sent invalid HTTP/2: \($0)" } ?? "upstream ended HTTP/2"))
    }
    if streams.isEmpty { rest() }
  }

  /// No attempt is in progress: keeps the session, or closes it. It is kept without `keepalive` too, which limits the
  /// connections of HTTP/1: one session serves all attempts of a server.
  private func rest() {
    let keepalive = group.settings.keepalive
    guard phase == .serving, !isOfOneClient, trust.user == nil, trust.origin.header.isEmpty, !group.isClosed,
      requestsServed < keepalive.requests,
      now &- openedAt < UInt64(max(0, keepalive.time)), !transport.hasPeerEnd
    else { return end() }
    // What an upstream sends without a request, such as PINGs, doesn't begin the idle time anew.
    guard idleSince == 0 else { return }
    idleSince = now
    input.release()
    transport.setDeadline(in: keepalive.timeout)
  }

  // MARK: Ends

  /// The upstream has ended its side, or the transport is broken.
  private func inputDidEnd() {
    let reason: String? =
      switch transport.failure {
      case .protocolError(let reason): reason
      case .socket(let error): error.description
      case .truncated, nil: nil
      }
    failAll(reason.map { .broken($0) } ?? .closedBeforeHead)
  }

  /// Ends the session, and every attempt that is in progress.
  private func failAll(_ failure: AttemptFailure) {
    let streams = streams
    self.streams = []
    close()
    for stream in streams { stream.sessionDidEnd(failure) }
  }

  /// Says goodbye, and closes.
  private func end() {
    frames.goAway()
    _ = frames.pull { bytes in
      transport.write(bytes)
      return true
    }
    close()
  }

  override func close() {
    guard phase != .closed else { return }
    phase = .closed
    frames.session = nil
    group.forget(self)
    group.sessionDidClose(server)
    transport.close()
  }
}
