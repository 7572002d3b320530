import Bytes
import TLS
import Transport

/// The bytes of a client's connection in `stream`: what the client sends goes to the handler as it comes, and what the
/// handler sends to the client.
package final class TCPStream: ClientStream {
  private unowned let connection: TCPConnection
  private let transport: ByteStream
  private var isPaused = true
  /// The client's side has ended, so that nothing more is read.
  package private(set) var hasEnded = false
  /// Our side ends behind the bytes that wait.
  private var endsWhenDrained = false
  /// Bytes that may be read before the handler gives more (`proxy_upload_rate`).
  package var allowance = Int.max
  /// What is passed to the upstream in place of the client's bytes, none of which is read (`TCPConnection.cancel`).
  package var onlyRequest: [UInt8]?
  package private(set) var receivedBytes: UInt64 = 0
  /// What the metrics have of the session.
  package var count = SessionCount()
  private var sent: UInt64 = 0
  /// When a byte came or went last, in milliseconds of the loop's clock.
  package private(set) var lastActivity: UInt64
  /// Bytes that one turn of the loop reads.
  private static let pumpLimit = 1 << 20

  package init(_ connection: TCPConnection, _ session: ClientSession) {
    self.connection = connection
    transport = session.transport
    lastActivity = session.transport.loop.now
    super.init(session, role: .session)
  }

  /// Whoever knows the mark and sends something has used the session.
  override var isHealthQuestion: Bool { receivedBytes == 0 && session.tls?.isHealthCheck == true }
  package override var hasClientLeft: Bool { hasEnded || transport.isClosed }

  /// The rules of the server let the client in, as far as its address tells.
  package override func didAdmit() { connection.rulesDidPass() }

  package func noteActivity() { lastActivity = loop.now }
  package func keepBuffers() { transport.keepBuffers() }
  package func releaseBuffers() { transport.releaseBuffers() }

  // MARK: The client's bytes

  package override func resumeBody() {
    guard isPaused else { return }
    isPaused = false
    pump()
  }

  package override func pauseBody() { isPaused = true }

  package func pump() {
    var taken = 0
    while !isPaused, !hasEnded, transport.isOpen, transport.mayHaveInput {
      guard taken < Self.pumpLimit else { return transport.loop.again(transport) }
      let room = min(allowance, loop.readBuffer.count)
      guard room > 0 else { return withExchange { $0.withHandler { $0.clientAllowanceDidEnd() } } ?? () }
      switch transport.read(into: UnsafeMutableRawBufferPointer(rebasing: loop.readBuffer[..<room])) {
      case .bytes(let count):
        taken += count
        receivedBytes &+= UInt64(count)
        if allowance != Int.max { allowance -= count }
        lastActivity = loop.now
        withExchange { exchange in
          exchange.withHandler { $0.tunnelBytes(UnsafeRawBufferPointer(rebasing: loop.readBuffer[..<count])) }
        }
      case .wouldBlock: return
      case .end: return inputDidEnd(inGoodOrder: true)
      case .failed: return inputDidEnd(inGoodOrder: false)
      }
    }
  }

  /// `inGoodOrder`: the client ended its side, and did not break off.
  package func inputDidEnd(inGoodOrder: Bool) {
    guard !hasEnded else { return }
    hasEnded = true
    withExchange { exchange in
      exchange.withHandler { inGoodOrder ? $0.tunnelClientDidEnd() : $0.tunnelClientDidBreak() }
    }
  }

  // MARK: Bytes for the client

  package override var waitingBytes: Int { transport.pendingCount }
  package override var sentBytes: UInt64 { sent }

  package override func send(body bytes: UnsafeRawBufferPointer) {
    // A client that has sent no more than a CancelRequest gets nothing.
    guard transport.isOpen else { return }
    sent &+= UInt64(bytes.count)
    transport.write(bytes)
    lastActivity = loop.now
  }

  /// Sends at once what was written.
  package func flush() { transport.loop.cork.flush() }

  /// Ends our side, behind the bytes that wait.
  package func endOutput() {
    flush()
    guard transport.pendingCount == 0 else {
      endsWhenDrained = true
      return
    }
    transport.endOutput()
  }

  func transportDidDrain() {
    lastActivity = loop.now
    if endsWhenDrained {
      endsWhenDrained = false
      transport.endOutput()
    }
    withExchange { $0.withHandler { $0.clientDidDrain() } }
  }

  package override func deadlinePassed() { withExchange { $0.withHandler { $0.deadlineDidPass() } } }

  // MARK: Ends

  package override func release() { connection.finish(.orderly) }

  package override func cut(_ reason: EndReason) {
    switch reason {
    case .complete, .silent, .clientTimedOut, .workerStops, .failed: connection.finish(.orderly)
    // What the client has got may not be all that the upstream had to say.
    case .upstreamBroke: connection.finish(.abrupt)
    case .clientLeft: connection.finish(.abrupt)
    }
  }
}

extension TCPStream {
  /// Counts the bytes that have passed since the last call.
  func countBytes() { count.take(received: receivedBytes, sent: sentBytes) }
}
