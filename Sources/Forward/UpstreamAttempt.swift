package import Bytes
package import HTTP
import Observability
import TLS
package import Traffic
import Transport
package import Upstream

/// The attempts of one exchange: the attempt in progress, the record of each, and what `RetryPolicy` needs to know.
/// Passes the upstream's events to the handler.
package final class UpstreamAttempt: AttemptObserver {
  // Not retained: the worker holds its handlers, and outlives them.
  private unowned(unsafe) let worker: Worker
  // Not retained: the handler owns its attempt, and sets this once.
  @exclusivity(unchecked) package var handler: Unmanaged<UpstreamHandler>?
  /// The request as it goes to the upstream.
  package let outgoing = OutgoingRequestHead()
  /// The stream of the attempt in progress; nil between two attempts.
  @exclusivity(unchecked) package private(set) var stream: UpstreamStream?
  /// Whether the attempt is in progress, so that `abandon` has an effect.
  @exclusivity(unchecked) package private(set) var isUnderWay = false
  @exclusivity(unchecked) package private(set) var records: [AttemptRecord] = []
  /// The servers that the exchange has tried, and what it brings to the choice of the next one.
  @exclusivity(unchecked) private var selection = Selection()
  /// Whether bytes of the request may have reached the server.
  @exclusivity(unchecked) private(set) var isRequestBegun = false
  private var callDeadline: OneShotTimer?
  /// Whether the response led to an internal redirect (`abandonForRedirect`).
  private(set) var hasLedElsewhere = false
  /// Of the last response that came whole.
  package private(set) var trailers: Trailers?
  /// Whether the upstream said of the last attempt that it has not processed the request.
  private var wasRefused = false
  /// Whether the attempt repeats one that the same upstream has refused so.
  private(set) var repeatsRefusal = false
  /// The number of kept sessions that this exchange found closed.
  @exclusivity(unchecked) private(set) var deadConnections = 0
  /// `$upstream_ssl_spki` of the last upstream that sallyport refused.
  private var refusedKey = ""
  /// The body of this attempt's request, if it isn't the client's.
  package var body: OwnBody?
  /// The worker counts the exchange among those that are about to need a connection.
  @exclusivity(unchecked) private var isExpecting = false
  @exclusivity(unchecked) private var placeWait: PlaceWait?
  /// The exchange has waited for a place in vain.
  private var hasWaited = false

  package init(_ worker: Worker) {
    self.worker = worker
    super.init()
  }

  /// Clears the object for another exchange.
  package func reset() {
    forgetAnswer()
    outgoing.reset(over: nil)
    if stream != nil { stream = nil }
    endExpectation()
    hasWaited = false
    if let callDeadline {
      callDeadline.cancel()
      self.callDeadline = nil
    }
    if body != nil { body = nil }
    isUnderWay = false
    while !records.isEmpty { records.removeLast() }
    selection = Selection()
    isRequestBegun = false
    hasLedElsewhere = false
    if trailers != nil { trailers = nil }
    deadConnections = 0
    if !refusedKey.isEmpty { refusedKey = "" }
  }

  package func expect() {
    isExpecting = true
    borrowing(worker) { $0.exchangeExpectsUpstream() }
  }

  private func endExpectation() {
    if placeWait != nil { endPlaceWait() }
    guard isExpecting else { return }
    isExpecting = false
    borrowing(worker) { $0.expectationDidEnd() }
  }

  // MARK: Calls of the handler

  /// Gives all attempts together `milliseconds`, which the client chose, so their end says nothing about the server: otherwise
  /// a client with tiny limits could take servers from all others (`max_fails`).
  package func limit(to milliseconds: Int, _ passed: @escaping () -> Void) {
    callDeadline = worker.loop.after(milliseconds) { [weak self] in
      guard let self else { return }
      abandon()
      passed()
    }
  }

  /// Tries the next server, or with `again` the same server over a new connection. The attempt reports the outcome to
  /// the handler, perhaps before this method returns.
  package func begin(_ group: UpstreamGroup, _ trust: UpstreamTrust, _ settings: AttemptSettings, again: Int?) {
    repeatsRefusal = again != nil && (wasRefused || repeatsRefusal)
    if group.asksRequest, records.isEmpty, let served = handler?._withUnsafeGuaranteedRef({ $0.transaction }) {
      GroupChoice.fill(&selection, for: served, group)
    }
    if worker.budget.isFull { return beginAtLimit(group, trust, settings, again: again) }
    begin(group, trust, settings, again: again, nil)
  }

  // Apart: a copy of the selection, even one that isn't made, costs each request 80 instructions.
  @inline(never)
  private func beginAtLimit(_ group: UpstreamGroup, _ trust: UpstreamTrust, _ settings: AttemptSettings, again: Int?) {
    begin(group, trust, settings, again: again, selection)
  }

  /// `before`: the choice as it was, to wait for a place with; nil: there are places.
  @inline(__always)
  private func begin(
    _ group: UpstreamGroup, _ trust: UpstreamTrust, _ settings: AttemptSettings, again: Int?, _ before: Selection?
  ) {
    guard let ticket = group.pick(&selection, again: again) else {
      endPlaceWait()
      records.append(AttemptRecord(server: nil, beganAt: now))
      AttemptCount.unopened(.noServer, nil, group)
      return attemptDidFail(.noServer)
    }
    records.append(AttemptRecord(server: ticket.index, beganAt: now))
    if let failure = group.begin(self, on: ticket, trust: trust, settings: settings, isRetry: again != nil) {
      if case .noRoom = failure, let before, waitsForPlace(group, trust, settings, again: again, before) { return }
      endPlaceWait()
      AttemptCount.unopened(failure, lastServer, group)
      attemptDidFail(failure)
    }
  }

  /// Waits for a place, as if no server had been chosen yet. Returns false if new clients don't wait either.
  private func waitsForPlace(
    _ group: UpstreamGroup, _ trust: UpstreamTrust, _ settings: AttemptSettings, again: Int?, _ before: Selection
  ) -> Bool {
    let patience = worker.queueTimeout
    guard patience > 0, !hasWaited else { return false }
    selection = before
    if !records.isEmpty { records.removeLast() }
    if placeWait == nil {
      worker.tellShortage(.attempt)
      placeWait = PlaceWait(worker.placeQueue, patience: patience) { [weak self] in
        self?.begin(group, trust, settings, again: again)
      } giveUp: { [weak self] in
        self?.placeDidNotCome()
      }
    }
    return true
  }

  /// The attempt waits no longer, because its connection begins or because the exchange is over.
  private func endPlaceWait() {
    guard let wait = placeWait else { return }
    placeWait = nil
    wait.stop()
  }

  private func placeDidNotCome() {
    endPlaceWait()
    hasWaited = true
    records.append(AttemptRecord(server: nil, beganAt: now))
    attemptDidFail(.noRoom)
  }

  /// Records that the request is being sent, so that the server may have seen it. A head without the request's body,
  /// which begins an authentication handshake, does not count.
  func requestBegins() { isRequestBegun = true }

  /// Overwrites the head that was sent, because it contains credentials.
  func wipeHead() {
    let upgrade = outgoing.upgrade
    outgoing.wipe()
    outgoing.upgrade = upgrade
  }

  /// Gives up the attempt and closes its session.
  package func abandon(isFailure: Bool = false) {
    if placeWait != nil { endPlaceWait() }
    guard let stream else { return }
    isUnderWay = false
    AttemptCount.abandoned(stream, records.last)
    endRecord()
    self.stream = nil
    stream.abandon(isFailure: isFailure)
  }

  /// Gives up the attempt after an X-Accel-Redirect. The head stays for `$upstream_http_…` until another handler starts.
  func abandonForRedirect() {
    hasLedElsewhere = true
    abandon()
  }

  /// The head of the response, for `$upstream_http_…`.
  var shownHead: ResponseHead? { stream == nil && !hasLedElsewhere ? nil : finalHead }

  /// Drops the stream, because its session is closed or can't carry the next request.
  package func leave() {
    endRecord()
    if stream != nil { stream = nil }
  }

  var lastServer: Int? { records.last.flatMap(\.server) }

  /// The address of the server that was tried last.
  package func serverName(in group: UpstreamGroup?) -> String? {
    guard let server = lastServer, let group, group.addressTexts.indices.contains(server) else { return nil }
    return String(decoding: group.addressTexts[server], as: UTF8.self)
  }

  /// Bytes of the last attempt.
  var byteCounts: (received: UInt64, sent: UInt64) {
    guard let last = records.last else { return (0, 0) }
    guard let stream, last.endedAt == nil else { return (last.bytesReceived, last.bytesSent) }
    return (stream.bytesReceived, stream.bytesSent)
  }

  /// `$upstream_ssl_spki`.
  package var keyHash: String { stream?.session.peer.keyHash ?? refusedKey }

  // MARK: Records

  private func note(_ change: (inout AttemptRecord) -> Void) {
    guard !records.isEmpty else { return }
    change(&records[records.count - 1])
  }

  private var now: UInt64 { worker.loop.now }

  /// Ends the record of the last attempt, once: whatever drops the stream later has nothing to add.
  func endRecord() {
    guard let last = records.indices.last, records[last].endedAt == nil else { return }
    let now = now
    guard let unheld = stream.map({ Unmanaged.passUnretained($0) }) else {
      records[last].endedAt = now
      return
    }
    // The property keeps the stream during the call.
    unheld._withUnsafeGuaranteedRef { stream in
      let (received, sent) = (stream.bytesReceived, stream.bytesSent)
      records[last].end(at: now, received: received, sent: sent)
      if let meter = stream.session.meter {
        let time = records[last].isCounted && records[last].status != nil ? now &- records[last].beganAt : nil
        meter.didMove(received: received, sent: sent, after: time)
      }
    }
  }

  // MARK: Events of the upstream

  package override func attemptDidBegin(_ stream: UpstreamStream) {
    self.stream = stream
    endExpectation()
    isUnderWay = true
    isRequestBegun = false
    wasRefused = false
    handler?._withUnsafeGuaranteedRef { $0.attemptDidBegin() }
  }

  package override func attemptDidOpen(_ stream: UpstreamStream) {
    let outcome = stream.session.trustOutcome
    if !records.isEmpty {
      records[records.count - 1].openedAt = now
      records[records.count - 1].trust = outcome
    }
    let end = stream.session.judgementEnd
    handler?._withUnsafeGuaranteedRef { handler in
      if end != .max { handler.note(end: end) }
      handler.attemptDidOpen(stream)
    }
  }

  package override func attemptHead(_ head: ResponseHead) -> Bool {
    if head.isInterim {
      handler?._withUnsafeGuaranteedRef { $0.interimHead(head) }
      return true
    }
    if !records.isEmpty {
      records[records.count - 1].headAt = now
      records[records.count - 1].isCounted = true
      records[records.count - 1].status = Int(head.status)
      if let meter = stream?.session.meter {
        meter.didRespond(Int(head.status), after: now &- records[records.count - 1].beganAt)
      }
    }
    return handler?._withUnsafeGuaranteedRef { $0.responseHead(head) } ?? false
  }

  package override func attemptBody(_ bytes: UnsafeRawBufferPointer) {
    if !records.isEmpty { records[records.count - 1].bodyBytes &+= UInt64(bytes.count) }
    handler?._withUnsafeGuaranteedRef { $0.responseBody(bytes) }
  }

  package override func attemptDidHear(_ text: UnsafeRawBufferPointer, from wire: UpstreamWire) -> Bool {
    handler?._withUnsafeGuaranteedRef { $0.upstreamDidSay(text, wire) } ?? true
  }

  package override func attemptDidExceed() { handler?._withUnsafeGuaranteedRef { $0.upstreamDidExceed() } }

  /// The client has taken all waiting bytes: reads on.
  package func resume() { stream?.resume() }

  package override func attemptDidPump() { handler?._withUnsafeGuaranteedRef { $0.responseDidPump() } }

  package override func attemptDidEnd(trailers: Trailers?) {
    isUnderWay = false
    endRecord()
    if let trailers { self.trailers = trailers }
    handler?._withUnsafeGuaranteedRef { $0.responseDidEnd(trailers) }
  }

  package override func attemptMayAskAgain(_ stream: UpstreamStream?) {
    handler?._withUnsafeGuaranteedRef { $0.mayAskAgain(stream) }
  }
  package override func attemptDidDrain() { handler?._withUnsafeGuaranteedRef { $0.upstreamDidDrain() } }
  package override func tunnelBytes(_ bytes: UnsafeRawBufferPointer) {
    handler?._withUnsafeGuaranteedRef { $0.tunnelFromUpstream(bytes) }
  }
  package override func tunnelDidEnd(inGoodOrder: Bool) {
    handler?._withUnsafeGuaranteedRef { $0.tunnelUpstreamDidEnd(inGoodOrder: inGoodOrder) }
  }

  package override func tunnelAllowanceDidEnd() { handler?._withUnsafeGuaranteedRef { $0.upstreamAllowanceDidEnd() } }

  /// The connection to an upstream in `stream` is open: the attempt has succeeded, whatever comes later.
  func noteConnected() {
    guard let last = records.indices.last else { return }
    records[last].isCounted = true
    stream?.session.meter?.didOpen(after: now &- records[last].beganAt)
  }

  /// The first byte of an upstream in `stream` has come.
  func noteFirstByte() {
    let now = now
    note { if $0.headAt == nil { $0.headAt = now } }
  }

  package override func attemptDidFail(_ failure: AttemptFailure) {
    isUnderWay = false
    AttemptCount.failed(stream, failure, records.last)
    endRecord()
    // The handler drops the stream later. If the exchange ends with this failure, the access record uses the stream.
    if case .tls = failure { noteRefusal(stream?.session.peer) }
    if case .refusedStream = failure { wasRefused = true } else { wasRefused = false }
    let isOfStream = if case .reset = failure { true } else { false }
    let wasKept = wasRefused || !isOfStream && (stream?.isOnKeptSession ?? false) && stream?.bytesReceived == 0
    if wasKept { deadConnections += 1 }
    handler?._withUnsafeGuaranteedRef { $0.attemptDidFail(failure, onKept: wasKept) }
  }

  /// For a connection that broke without a byte of a response: that it had served before, and how long it had idled. The
  /// server may end idle connections sooner than the group does.
  func keptWords(of failure: AttemptFailure) -> String {
    switch failure {
    case .closedBeforeHead, .broken: break
    default: return ""
    }
    guard let stream, stream.isOnKeptSession, stream.bytesReceived == 0 else { return "" }
    let since = stream.session.idleSince, began = records.last?.beganAt ?? 0
    // One of HTTP/2 may serve other requests meanwhile, and idles only between them.
    guard since > 0, since <= began else { return ", on a kept connection" }
    let idle = began - since
    return ", on a kept connection that had been idle for \(idle / 1000).\(idle % 1000 / 100) s"
  }

  private func noteRefusal(_ peer: UpstreamPeer?) {
    if let peer, peer.isRefused { refusedKey = peer.keyHash }
    note { $0.trust = peer.flatMap { $0.isRefused ? $0.outcome : nil } ?? .incompatible }
  }

  /// The input of `RetryPolicy`. `isReplayable`: the request's body can be sent again. `hasBegun`: a byte has gone to the
  /// client. `onKept`: the session had served before, and no byte of a response has arrived. `keepsBody`: all that was sent
  /// of a streamed body is at hand.
  func situation(
    _ method: HTTP.Method, isReplayable: Bool, hasBegun: Bool, onKept: Bool, keepsBody: Bool = false
  ) -> RetryPolicy.Situation {
    let isReplayable = isReplayable || wasRefused && keepsBody
    return RetryPolicy.Situation(
      method: method, requestBegun: isRequestBegun && !(wasRefused && isReplayable), bodyReplayable: isReplayable,
      responseBegun: hasBegun, onKeptConnection: onKept, attempts: selection.tried.count,
      deadConnections: deadConnections, elapsed: now &- (records.first?.beganAt ?? now))
  }

  /// Sets `$upstream_status` for a failure without a response.
  func noteStatus(of failure: AttemptFailure) { note { if $0.status == nil { $0.status = failure.status } } }

  /// Appends `, upstream: "https://127.0.0.1:443"` after a server was chosen. `prefix`: what stands before the address.
  func appendParticulars(_ prefix: String, _ group: UpstreamGroup, to text: inout ByteBuffer) {
    guard let server = lastServer, group.addressTexts.indices.contains(server) else { return }
    text.append(string: ", upstream: \"\(prefix)")
    text.append(group.addressTexts[server])
    text.append("\"")
  }

  // MARK: Variables

  /// Appends a time of each attempt since its begin. `isOver`: the session ends, and with it the last attempt.
  func appendTimes(_ moment: KeyPath<AttemptRecord, UInt64?>, isOver: Bool, to output: inout ByteBuffer) {
    for (index, record) in records.enumerated() {
      if index > 0 { output.append(", ") }
      let isLast = moment == \.endedAt && isOver
      if let time = record[keyPath: moment] ?? (isLast ? now : nil) {
        Transaction.append(milliseconds: time &- record.beganAt, to: &output)
      } else {
        output.append(0x2D)
      }
    }
  }

  /// Appends one value for each attempt, separated by commas, as nginx's `$upstream_…`.
  /// `isOver`: the exchange ends, so an attempt in progress does too.
  /// `group`: for $upstream_addr.
  package func append(_ variable: SimpleVariable, _ group: UpstreamGroup?, isOver: Bool, to output: inout ByteBuffer) {
    for index in records.indices {
      let record = records[index]
      if index > 0 { output.append(", ") }
      func time(_ moment: UInt64?) {
        if let moment {
          Transaction.append(milliseconds: moment &- record.beganAt, to: &output)
        } else {
          output.append(0x2D)
        }
      }
      // The last attempt may still be in progress.
      var running: UpstreamStream? { record.endedAt == nil && index == records.count - 1 ? stream : nil }
      switch variable {
      case .upstream_addr:
        // nginx shows the group's name where no server is live.
        if let server = record.server {
          output.append(group?.addressTexts[server] ?? [])
        } else {
          output.append(string: group?.settings.name ?? "")
        }
      case .upstream_status:
        if let status = record.status { output.append(decimal: UInt64(status)) } else { output.append(0x2D) }
      case .upstream_connect_time: time(record.openedAt)
      case .upstream_header_time: time(record.headAt)
      case .upstream_response_time: time(record.endedAt ?? (isOver ? now : nil))
      case .upstream_response_length: output.append(decimal: record.bodyBytes)
      case .upstream_bytes_received: output.append(decimal: running?.bytesReceived ?? record.bytesReceived)
      case .upstream_bytes_sent: output.append(decimal: running?.bytesSent ?? record.bytesSent)
      case .upstream_ssl_result: output.append(string: record.trust.rawValue)
      default: break
      }
    }
  }
}
