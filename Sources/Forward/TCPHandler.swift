package import Bytes
import Glibc
import HTTP
import Observability
import TLS
package import Traffic
import Transport
package import Upstream

/// `proxy_pass` in `stream`: connects to an upstream, and then passes bytes in both directions until a side ends.
///
///     start ─► target ─► attempt ─► open ─► bytes both ways ─► one side's end ─► end
///                 ▲         │ failure
///                 └─ retry ─┘
/// Each side is read only while the other one takes what it gets. A worker reuses its handlers, because a session can end
/// within each of their calls.
package final class TCPHandler: UpstreamHandler {
  /// Why a side isn't read now.
  private struct Hold: OptionSet {
    let rawValue: UInt8
    /// The other side takes no bytes.
    static let full = Hold(rawValue: 1)
    /// The rate allows none.
    static let rate = Hold(rawValue: 2)
  }

  /// How a side has ended.
  private enum End { case inOrder, broken }
  private enum Side: String { case client, upstream }

  private var settings = TCPPassSettings()
  private var uploadRate: CompiledTemplate?, downloadRate: CompiledTemplate?
  private var clientHold = Hold(), upstreamHold = Hold()
  private var clientEnd: End?, upstreamEnd: End?
  /// Whose end came last.
  private var lastEnd = Side.client
  private var upload: TCPRate?, download: TCPRate?
  private var uploadDelay: OneShotTimer?, downloadDelay: OneShotTimer?
  private var hasFirstByte = false
  /// Bytes pass now, so that both sides keep their buffers.
  private var isBusy = false
  /// Milliseconds of silence after which the buffers are freed.
  private static let busyTime = 2000

  // Not retained, as `transactionRef`, which is the same session.
  private var sessionRef: Unmanaged<StreamSession>?
  private var session: StreamSession? { sessionRef?.takeUnretainedValue() }
  private var client: TCPStream? { session?.stream }
  private var upstream: UpstreamStream? { attempt.stream }

  // MARK: The upstream

  func serve(_ session: StreamSession) {
    sessionRef = Unmanaged.passUnretained(session)
    assume(session)
  }

  package override func start(_ session: StreamSession) {
    serve(session)
    guard let pass else { return }
    settings = pass.settings.tcp ?? settings
    (uploadRate, downloadRate) = (pass.uploadRate, pass.downloadRate)
    if pass.group != nil { return tryNext(session, pass) }
    do throws(DynamicTarget.Refusal) { try settleTarget(session, pass) } catch { return error.answer(session) }
    let question = dynamic?.find(for: session) { [self] group in
      dynamic?.group = group
      tryNext(session, pass)
    }
    if let question { dynamic?.keep(question) }
  }

  private func tryNext(_ session: StreamSession, _ pass: CompiledPass) {
    if pass.begin(attempt, again: nil) { return }
    connect(session, pass, again: nil)
  }

  package override func attemptDidFail(_ failure: AttemptFailure, onKept: Bool) {
    guard let session, let pass else { return }
    attempt.noteStatus(of: failure)
    if case .tls = failure, let last = attempt.records.last { AttemptCount.judged(last, group, worker.counters) }
    UpstreamFailureLog.tell(failure, session, group, attempt.lastServer)
    attempt.leave()
    let situation = attempt.situation(.get, isReplayable: true, hasBegun: session.isPassing, onKept: false)
    switch RetryPolicy(settings: pass.settings.retry, servers: group?.usedServers ?? 0).decide(
      failure.condition, situation)
    {
    case .sameServer, .nextServer: tryNext(session, pass)
    // As in nginx, one status for each upstream that can't be reached.
    case .giveUp: session.refuse(failure.status == 500 ? .fault : .upstream)
    }
  }

  package override func attemptDidOpen(_ stream: UpstreamStream) {
    guard let session, let client else { return }
    if stream.session.trustOutcome != .none { UpstreamFailureLog.noteHandshake(stream.session, session) }
    UpstreamFailureLog.noteAnswer(session, group, attempt.lastServer)
    attempt.noteConnected()
    session.logAlone(.info, "proxy \(stream.session.localAddress) connected to \(attempt.serverName(in: group) ?? "")")
    session.beginPassing()
    upload = rate(uploadRate, session)
    download = rate(downloadRate, session)
    client.noteActivity()
    client.setDeadline(in: settings.timeout)
    if let upload { client.allowance = upload.allowance(now: worker.loop.now) }
    giveDownload()
    if let request = client.onlyRequest {
      request.withUnsafeBytes { stream.send(body: $0) }
      return stream.resume()
    }
    if settings.passesGreeting, let greeting = (stream as? TCPUpstreamStream)?.greeting, !greeting.isEmpty {
      greeting.withUnsafeBytes { client.send(body: $0) }
    }
    stream.resume()
    // The upstream may have ended the session within that call.
    if session.isUnderWay { client.resumeReading() }
  }

  private func rate(_ template: CompiledTemplate?, _ session: StreamSession) -> TCPRate? {
    guard let template, let rate = session.size(of: template.bytes(session)), rate > 0 else {
      return nil
    }
    return TCPRate(rate: rate, start: worker.loop.now)
  }

  // MARK: Bytes

  package override func tunnelBytes(_ bytes: UnsafeRawBufferPointer) {
    guard let upstream else { return }
    if !isBusy { becomeBusy() }
    upload?.take(bytes.count)
    upstream.send(body: bytes)
    if upstream.waitingBytes >= settings.bufferSize { hold(client: .full) }
  }

  override func tunnelFromUpstream(_ bytes: UnsafeRawBufferPointer) {
    guard let client else { return }
    if !isBusy { becomeBusy() }
    if !hasFirstByte {
      hasFirstByte = true
      attempt.noteFirstByte()
    }
    download?.take(bytes.count)
    client.send(body: bytes)
    if client.waitingBytes >= settings.bufferSize { hold(upstream: .full) }
  }

  // MARK: Buffers

  private func becomeBusy() {
    guard worker.busySessions < Worker.mostBusySessions, let client else { return }
    worker.busySessions += 1
    isBusy = true
    client.keepBuffers()
    upstream?.keepBuffers()
    client.setDeadline(in: min(Self.busyTime, settings.timeout))
  }

  private func becomeQuiet() {
    guard isBusy else { return }
    isBusy = false
    worker.busySessions -= 1
  }

  package override func clientDidDrain() {
    if upstreamEnd != nil { return finishIfDelivered() }
    release(upstream: .full)
  }

  override func upstreamDidDrain() {
    client?.noteActivity()
    if clientEnd != nil { return finishIfDelivered() }
    release(client: .full)
  }

  private func hold(client reason: Hold) {
    clientHold.insert(reason)
    client?.pauseReading()
  }

  private func hold(upstream reason: Hold) {
    upstreamHold.insert(reason)
    upstream?.pause()
  }

  private func release(client reason: Hold) {
    guard clientHold.contains(reason) else { return }
    clientHold.remove(reason)
    if clientHold.isEmpty { client?.resumeReading() }
  }

  private func release(upstream reason: Hold) {
    guard upstreamHold.contains(reason) else { return }
    upstreamHold.remove(reason)
    if upstreamHold.isEmpty { upstream?.resume() }
  }

  // MARK: Rates

  package override func clientAllowanceDidEnd() {
    guard let upload, let client else { return }
    let now = worker.loop.now
    client.allowance = upload.allowance(now: now)
    if client.allowance > 0 { return worker.loop.again(client.transport) }
    hold(client: .rate)
    uploadDelay = worker.loop.after(upload.wait(now: now)) { [weak self] in
      guard let self, let client = self.client, let upload = self.upload else { return }
      client.allowance = upload.allowance(now: worker.loop.now)
      release(client: .rate)
    }
  }

  /// Says how much of the upstream may be read.
  private func giveDownload() {
    guard let download, let stream = upstream as? TCPUpstreamStream else { return }
    stream.allowance = download.allowance(now: worker.loop.now)
  }

  override func upstreamAllowanceDidEnd() {
    guard let download, let stream = upstream as? TCPUpstreamStream else { return }
    let now = worker.loop.now
    stream.allowance = download.allowance(now: now)
    hold(upstream: .rate)
    let wait = stream.allowance > 0 ? 0 : download.wait(now: now)
    downloadDelay = worker.loop.after(wait) { [weak self] in
      guard let self, session != nil else { return }
      giveDownload()
      release(upstream: .rate)
    }
  }

  // MARK: Ends

  package override func tunnelClientDidEnd() { clientDidEnd(.inOrder) }
  package override func tunnelClientDidBreak() { clientDidEnd(.broken) }
  override func tunnelUpstreamDidEnd(inGoodOrder: Bool) { upstreamDidEnd(inGoodOrder ? .inOrder : .broken) }

  private func clientDidEnd(_ end: End) {
    clientEnd = end
    lastEnd = .client
    guard let upstream else {
      session?.end(.clientBroke)
      return
    }
    if settings.keepsHalfOpen, end == .inOrder, upstreamEnd == nil { return upstream.requestDidEnd() }
    upstream.flush()
    finishIfDelivered()
  }

  private func upstreamDidEnd(_ end: End) {
    upstreamEnd = end
    lastEnd = .upstream
    if settings.keepsHalfOpen, end == .inOrder, clientEnd == nil { return client?.endOutput() ?? () }
    client?.flush()
    finishIfDelivered()
  }

  /// Ends the session once each side has what the other one sent before its end. A side that broke off takes nothing.
  private func finishIfDelivered() {
    guard let session else { return }
    if settings.keepsHalfOpen, (clientEnd == nil) != (upstreamEnd == nil), clientEnd ?? upstreamEnd == .inOrder {
      return
    }
    if clientEnd != nil, upstreamEnd != .broken, upstream?.waitingBytes ?? 0 > 0 { return }
    if upstreamEnd != nil, clientEnd != .broken, client?.waitingBytes ?? 0 > 0 { return }
    session.logAlone(.info, "\(lastEnd.rawValue) disconnected\(byteCounts)")
    if upstreamEnd == .broken { upstream?.session.meter?.didTruncate() }
    endUpstream(isBroken: clientEnd == .broken)
    session.end(clientEnd == .broken ? .clientBroke : upstreamEnd == .broken ? .upstreamBroke : .ok)
  }

  /// Nothing has come or gone for `proxy_timeout`, or since the deadline was set last.
  package override func deadlineDidPass() {
    guard let session, let client else { return }
    let idle = worker.loop.now &- client.lastActivity
    let limit = UInt64(max(0, settings.timeout))
    if isBusy, idle >= UInt64(Self.busyTime) {
      becomeQuiet()
      client.releaseBuffers()
      upstream?.releaseBuffers()
    }
    let next = isBusy ? min(limit, UInt64(Self.busyTime)) : limit
    if idle < next { return client.setDeadline(in: Int(clamping: next - idle)) }
    session.log(.info, "connection timed out (110: Connection timed out) while proxying connection")
    endUpstream(isBroken: false)
    session.end(.timeout)
  }

  /// `isBroken`: the client broke off, and the upstream is told so.
  private func endUpstream(isBroken: Bool) {
    attempt.endRecord()
    (upstream as? TCPUpstreamStream)?.end(isBroken ? .reset : .orderly)
  }

  override func cut(_ refusal: UpstreamRefusal) { session?.end(.upstreamBroke) }

  package override func cancel() {
    uploadDelay.take()?.cancel()
    downloadDelay.take()?.cancel()
    attempt.abandon()
  }

  package override func recycle() {
    cancel()
    sessionRef = nil
    forget()
    (clientHold, upstreamHold) = (Hold(), Hold())
    (clientEnd, upstreamEnd) = (nil, nil)
    (upload, download) = (nil, nil)
    hasFirstByte = false
    becomeQuiet()
    borrowing(spares) { $0.giveBack(self) }
  }

  // MARK: The error log

  /// `, bytes from/to client:5/7, bytes from/to upstream:7/5`
  private var byteCounts: String {
    let (from, to) = attempt.byteCounts
    return ", bytes from/to client:\(client?.receivedBytes ?? 0)/\(client?.sentBytes ?? 0)"
      + ", bytes from/to upstream:\(from)/\(to)"
  }

  /// As nginx's `stream`, which names the upstream without a scheme, and says how much has passed.
  package override func appendParticulars(to text: inout ByteBuffer) {
    // nginx names the group where no server of it is live.
    if let server = attempt.serverName(in: group) ?? (attempt.records.isEmpty ? nil : group?.settings.name) {
      text.append(string: ", upstream: \"\(server)\"")
    }
    text.append(string: byteCounts)
  }

  package func appendTime(_ moment: KeyPath<AttemptRecord, UInt64?>, to output: inout ByteBuffer) {
    attempt.appendTimes(moment, isOver: session?.isOver ?? true, to: &output)
  }
}

/// `proxy_upload_rate` and `proxy_download_rate` with nginx's arithmetic: each second that has begun allows one rate more.
/// It saturates.
struct TCPRate: Equatable {
  /// Bytes per second, above 0.
  let rate: Int
  /// When the connection to the upstream was open, in milliseconds.
  let start: UInt64
  private(set) var taken = 0

  init(rate: Int, start: UInt64) {
    self.rate = max(1, rate)
    self.start = start
  }

  mutating func take(_ count: Int) {
    let (sum, overflow) = taken.addingReportingOverflow(max(0, count))
    taken = overflow ? Int.max : sum
  }

  /// How many bytes may be read now.
  func allowance(now: UInt64) -> Int {
    let seconds = Int(clamping: (now < start ? 0 : now - start) / 1000)
    let (allowed, overflow) = rate.multipliedReportingOverflow(by: seconds == Int.max ? seconds : seconds + 1)
    return overflow ? Int.max : max(0, allowed - taken)
  }

  /// Milliseconds until a byte may be read; at least 1.
  func wait(now: UInt64) -> Int {
    let elapsed = now < start ? 0 : now - start
    return Int(clamping: 1000 - elapsed % 1000)
  }
}
