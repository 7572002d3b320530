public import Bytes
import CLinux
import Glibc

/// The result of a read.
public enum ReadOutcome {
  case bytes(Int)
  /// No bytes now; the loop will call `streamIsReadable` again.
  case wouldBlock
  /// The peer ended its side in good order.
  case end
  /// The connection is broken; `ByteStream.failure` says how.
  case failed
}

/// Gets the events of a stream. A class for the same reason as EventTarget.
open class StreamOwner {
  public init() {}
  /// The stream is connected, and a subclass has finished its handshake. No byte of the owner goes out before this.
  open func streamDidOpen() {}
  /// Whether a subclass may begin its handshake, for which the peer's first bytes have come. If not, the owner calls
  /// `resumeOpening` later.
  open func streamMayBegin() -> Bool { true }
  /// Whether a subclass may do the next step of its handshake, which takes much time. If not, the owner calls
  /// `resumeOpening` later.
  open func streamMayAdvance() -> Bool { true }
  /// Whether the owner will write soon, and has written nothing that the peer waits for (`ByteStream.mayHold`).
  open var streamWillWrite: Bool { false }
  /// Bytes may have come for the header that the owner reads first (`ByteStream.awaitsHeader`).
  open func streamHeaderIsReadable() {}
  open func streamIsReadable() {}
  /// All waiting bytes have gone out.
  open func streamDidDrain() {}
  /// The stream failed, before or after opening. The owner must close the stream.
  open func streamDidFail(_ failure: StreamFailure) {}
  open func streamDeadlinePassed() {}
  open func streamAgain() {}
}

/// Why a stream ended without an orderly close.
public enum StreamFailure: Error, Sendable {
  case socket(SocketError)
  /// The peer's FIN came where bytes or a close_notify were due.
  case truncated
  /// The protocol that a subclass speaks below its owner failed, for this reason.
  case protocolError(String)
}

/// A connected (or connecting) stream socket in a loop. A subclass may speak a protocol of its own below its owner.
///
/// Reading: the owner reads until `wouldBlock`. The loop doesn't announce bytes again that the owner left unread.
/// Writing: `write` takes all bytes. The owner stops writing when `pendingCount` passes its watermark.
open class ByteStream: EventTarget {
  public enum Phase { case connecting, opening, open, closed }

  public final private(set) var phase: Phase
  public final let descriptor: Int32
  public final var owner: StreamOwner?
  public final private(set) var failure: StreamFailure?
  /// Counters for $bytes_sent, $upstream_bytes_received and the like; on the wire.
  public final private(set) var wireBytesIn: UInt64 = 0
  public final private(set) var wireBytesOut: UInt64 = 0
  /// A short read showed that the socket is empty, so no system call is needed until the next edge.
  private final var isDrained = false
  /// FIN seen by the kernel, perhaps with bytes before it still unread.
  public final private(set) var hasPeerEnd = false
  /// The connection is gone in both directions, as after the peer's reset. After a FIN alone, the peer may read on.
  public final private(set) var hasPeerReset = false
  /// A subclass has opened for its owner before its handshake was over (early data). Input goes to `advanceOpening`
  /// first.
  public final var keepsAdvancing = false
  /// The owner reads a header from the socket before the stream begins its own protocol: with `peek` and `endHeader`. Set
  /// before `begin`.
  public final var awaitsHeader = false
  /// What goes out when the socket is connected, before the stream's own protocol. Set before that.
  public final var preamble: [UInt8] = []
  /// Bytes at the head of the socket that the owner has looked at with `peek`, and left there.
  final var peeked = 0
  @usableFromInline final var waiting = ByteBuffer()
  /// The output so far is a subclass's own, and the peer doesn't wait for it. If the owner will write soon, that output
  /// is kept and leaves with what the owner writes.
  public final var mayHold = false
  /// `waiting` is such output, and not what the kernel did not take.
  @usableFromInline final var isHolding = false
  private final var hasAnnouncedEnd = false

  /// Takes the descriptor over. A connecting one becomes `open` with its first output edge.
  public init(loop: EventLoop, descriptor: Int32, isConnecting: Bool) throws(SocketError) {
    self.descriptor = descriptor
    self.phase = isConnecting ? .connecting : .opening
    super.init(loop: loop)
    do {
      try loop.add(self, descriptor: descriptor, interest: .stream)
    } catch {
      phase = .closed
      Glibc.close(descriptor)
      throw error
    }
  }

  /// A stream without a socket, for tests: a subclass overrides `read`, and `deliver`.
  package init(inMemory loop: EventLoop) {
    descriptor = -1
    phase = .opening
    isDrained = true
    super.init(loop: loop)
  }

  deinit {
    loop.cork.leave(Unmanaged.passUnretained(self).toOpaque())
    if phase != .closed, descriptor >= 0 { Glibc.close(descriptor) }
  }

  /// Bytes that wait for the kernel.
  @inlinable public final var pendingCount: Int { isHolding ? 0 : waiting.count }
  /// Whether unread bytes may exist that no edge will announce again.
  public final var mayHaveInput: Bool { !isDrained || hasBufferedInput }
  /// Has the next read ask the socket, although no edge has announced bytes: before an idle connection is closed.
  public final func expectInput() { isDrained = false }
  public final var isOpen: Bool { phase == .open }
  public final var isClosed: Bool { phase == .closed }

  // MARK: For subclasses

  /// Plain or decrypted bytes inside the stream that a read would give without a system call.
  open var hasBufferedInput: Bool { false }
  /// The socket is connected: a subclass begins its own opening.
  open func opened() { becomeOpen() }
  /// Bytes may have come while opening.
  open func advanceOpening() { becomeOpen() }
  /// Reads bytes for the owner.
  open func read(into target: UnsafeMutableRawBufferPointer) -> ReadOutcome { receive(into: target) }
  /// Writes all; what the kernel does not take waits.
  open func write(_ bytes: UnsafeRawBufferPointer) {
    guard phase == .open else { return }
    loop.cork.claim(self)
    loop.cork.wire.append(bytes)
    if loop.cork.wire.count >= OutputCork.limit { loop.cork.flush() }
  }
  /// The cork is about to send. A subclass that collects output turns that output into bytes for the wire now.
  open func willFlush() {}
  /// Writes the last bytes before an orderly close.
  open func writeEnd() {}
  /// Frees what only a live connection needs.
  open func released() {}
  /// Keeps buffers between reads and writes, for an owner that does both often; until `releaseBuffers`.
  open func keepBuffers() {}
  /// The owner reads and writes rarely: buffers that hold nothing are freed.
  open func releaseBuffers() {}

  /// For the owner of an accepted socket: starts the opening once the owner is set.
  public final func begin() {
    guard phase == .opening else { return }
    if awaitsHeader { return owner?.streamHeaderIsReadable() ?? () }
    opened()
    // No edge announces bytes again that were read during the handshake.
    if keepsAdvancing { resumeReading() }
  }

  /// Announces input that arrived before the stream opened.
  public final func resumeReading() {
    if phase == .open { owner?.streamIsReadable() }
  }

  /// Waits for the next edge, because the peer speaks first. For a stream that has read nothing since its socket is in
  /// the loop: the first edge tells of each byte that has come.
  public final func awaitInput() { isDrained = true }

  public final func becomeOpen() {
    guard phase == .opening else { return }
    phase = .open
    owner?.streamDidOpen()
  }

  /// Reports a failure to the owner, once. A failed read has only noted the reason (`noteFailure`).
  public final func fail(_ failure: StreamFailure) {
    guard phase != .closed, !hasToldFailure else { return }
    hasToldFailure = true
    noteFailure(failure)
    owner?.streamDidFail(failure)
  }
  private final var hasToldFailure = false

  /// Keeps the first reason of a failure, without a call to the owner.
  public final func noteFailure(_ failure: StreamFailure) {
    if self.failure == nil { self.failure = failure }
  }

  /// Reports a failure after this batch of events, because the owner is in the middle of a write.
  public final func failLater(_ failure: StreamFailure) {
    guard phase != .closed, laterFailure == nil else { return }
    laterFailure = failure
    loop.again(self)
  }
  private final var laterFailure: StreamFailure?
  /// A send has taken the error of the peer's reset from the socket, which from then on reads as ended in good order.
  private final var sendMetReset = false

  /// Calls recv, unless the last read emptied the socket.
  public final func receive(into target: UnsafeMutableRawBufferPointer) -> ReadOutcome {
    if isDrained || phase == .closed { return .wouldBlock }
    while true {
      let count = recv(descriptor, target.baseAddress, target.count, 0)
      if count > 0 {
        // After a FIN, a short read doesn't mean an empty socket, because the end is still to be read.
        if count < target.count && !hasPeerEnd { isDrained = true }
        wireBytesIn &+= UInt64(count)
        return .bytes(count)
      }
      if count == 0 {
        guard sendMetReset else { return .end }
        noteFailure(.socket(SocketError("send", ECONNRESET)))
        return .failed
      }
      if errno == EINTR { continue }
      if errno == EAGAIN || errno == EWOULDBLOCK {
        isDrained = true
        return .wouldBlock
      }
      noteFailure(.socket(SocketError("recv", errno)))
      return .failed
    }
  }

  /// Appends bytes for the wire to the cork: what a subclass has made of its owner's output.
  public final func transmitLater(_ bytes: UnsafeRawBufferPointer) {
    loop.cork.claim(self)
    loop.cork.wire.append(bytes)
    if loop.cork.wire.count >= OutputCork.limit {
      transmit(&loop.cork.wire)
      loop.cork.wire.removeAll()
    }
  }

  /// Sends a buffer; the rest waits in the stream. Called by the cork.
  final func transmit(_ bytes: inout ByteBuffer) {
    guard phase != .closed, !bytes.isEmpty else { return }
    if mayHold {
      mayHold = false
      isHolding = waiting.isEmpty && owner?.streamWillWrite == true
      if isHolding { return waiting.append(bytes.readable) }
    }
    if !waiting.isEmpty {
      waiting.append(bytes.readable)
      if isHolding { sendHeld() }
      return
    }
    let sent = deliver(bytes.readable)
    if sent < bytes.count {
      bytes.consume(sent)
      waiting.append(bytes.readable)
    }
  }

  private final func sendHeld() {
    isHolding = false
    waiting.consume(deliver(waiting.readable))
    if waiting.isEmpty { waiting.release() }
  }

  /// Sends bytes and returns how many the kernel took: all for a broken connection, whose failure comes with the next
  /// event.
  open func deliver(_ bytes: UnsafeRawBufferPointer) -> Int {
    var done = 0
    while done < bytes.count {
      let count = linux_send(descriptor, bytes.baseAddress.map { $0 + done }, bytes.count - done)
      if count > 0 {
        done += count
        wireBytesOut &+= UInt64(count)
        // A short send means a full kernel buffer: the output edge will come.
        if done < bytes.count { return done }
      } else if errno == EAGAIN || errno == EWOULDBLOCK {
        return done
      } else if errno != EINTR {
        let code = errno
        if code == ECONNRESET { sendMetReset = true }
        failLater(.socket(SocketError("send", code)))
        return bytes.count
      }
    }
    return done
  }

  // MARK: Events

  public final override func ready(_ readiness: Readiness) {
    guard phase != .closed else { return }
    if !readiness.isDisjoint(with: [.peerEnd, .hangUp]) {
      hasPeerEnd = true
      if !readiness.isDisjoint(with: [.hangUp, .error]) { hasPeerReset = true }
    }
    if !readiness.isDisjoint(with: [.input, .peerEnd, .hangUp, .error]) { isDrained = false }
    if phase == .connecting {
      guard !readiness.isDisjoint(with: [.output, .error, .hangUp]) else { return }
      return finishConnecting()
    }
    if readiness.contains(.output) && pendingCount > 0 { sendWaiting() }
    guard phase != .closed, !isDrained else { return }
    announceInput()
  }

  /// Bytes came together with the header that the owner has read.
  final func inputDidFollow() {
    guard phase == .opening else { return }
    isDrained = false
    advanceOpening()
  }

  /// Continues an opening for which bytes of the peer wait.
  public final func resumeOpening() {
    guard phase == .opening else { return }
    isDrained = false
    announceInput()
  }

  private final func announceInput() {
    if phase == .opening || keepsAdvancing {
      if awaitsHeader { return owner?.streamHeaderIsReadable() ?? () }
      let advanced = keepsAdvancing
      advanceOpening()
      // The client's first request often comes with its last handshake bytes, or has waited for the end of the
      // handshake.
      if phase == .open && (mayHaveInput || advanced) { owner?.streamIsReadable() }
    } else {
      owner?.streamIsReadable()
    }
  }

  public final override func again() {
    guard phase != .closed else { return }
    if let failure = laterFailure {
      laterFailure = nil
      // The peer may have sent a response and closed without reading the whole request. The owner reads that response
      // first.
      isDrained = false
      if phase == .open { owner?.streamIsReadable() }
      return fail(failure)
    }
    owner?.streamAgain()
  }

  public final override func deadlinePassed() {
    if phase != .closed { owner?.streamDeadlinePassed() }
  }

  private final func finishConnecting() {
    var code: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length)
    guard code == 0 else { return fail(.socket(SocketError("connect", code))) }
    phase = .opening
    if !preamble.isEmpty { sendPreamble() }
    if awaitsHeader { return owner?.streamHeaderIsReadable() ?? () }
    opened()
    if phase == .open && !isDrained { owner?.streamIsReadable() }
  }

  private final func sendPreamble() {
    var bytes = ByteBuffer()
    bytes.append(preamble)
    preamble = []
    transmit(&bytes)
  }

  private final func sendWaiting() {
    let sent = deliver(waiting.readable)
    waiting.consume(sent)
    if waiting.isEmpty {
      waiting.release()
      if phase == .open { owner?.streamDidDrain() }
    }
  }

  // MARK: Ends

  /// Appends what `writeEnd` writes, so that it leaves together with the output before it. The owner writes nothing
  /// after this, and ends its output or closes the stream.
  public final func announceEnd() {
    guard phase == .open, failure == nil, !hasAnnouncedEnd else { return }
    hasAnnouncedEnd = true
    writeEnd()
  }

  /// Sends waiting bytes, `writeEnd` and a FIN. Reading continues.
  public final func endOutput() {
    guard phase == .open else { return }
    announceEnd()
    loop.cork.flush()
    shutdown(descriptor, Int32(SHUT_WR))
  }

  public enum Closing: Sendable {
    /// `writeEnd`, FIN.
    case orderly
    /// FIN without `writeEnd`, so that the peer doesn't take the bytes before it for complete.
    case abrupt
    /// RST, for a peer that would take a FIN for the end of the message.
    case reset
  }

  /// Ends the connection. Bytes that still wait are lost.
  public final func close(_ closing: Closing = .orderly) {
    guard phase != .closed else { return }
    if case .orderly = closing { announceEnd() }
    loop.cork.flush(of: self)
    phase = .closed
    isOver = true
    if case .reset = closing { Sockets.setLingerZero(descriptor) }
    if descriptor >= 0 {
      loop.remove(self, descriptor: descriptor)
      Glibc.close(descriptor)
    } else {
      loop.forgetDeadline(of: self)
    }
    waiting.release()
    released()
    owner = nil
  }
}
