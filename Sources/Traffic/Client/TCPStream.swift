import Bytes
import TLS
package import Transport

/// The bytes of a client's connection in `stream`: what the client sends goes to the handler as it comes, and what the
/// handler sends to the client.
package final class TCPStream: EventTarget {
  private unowned let connection: TCPConnection
  package let transport: ByteStream
  /// Kept as long as the stream, because the connection, which owns the stream, asks it even in calls that end it.
  private let client: ClientSession
  /// Kept to the end of the stream, because calls may be within it when it ends.
  private var begun: StreamSession?
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

  package init(_ connection: TCPConnection, _ client: ClientSession) {
    self.connection = connection
    self.client = client
    transport = client.transport
    lastActivity = client.transport.loop.now
    super.init(loop: client.transport.loop)
  }

  /// The session that the stream belongs to; nil before its begin and after its end.
  package var session: StreamSession? {
    get { if let begun, begun.isUnderWay { begun } else { nil } }
    set { begun = newValue }
  }

  /// Whether `sallyport health` asked, and no client: it leaves no line in an access log. Whoever knows the mark and sends
  /// something has used the session.
  var isHealthQuestion: Bool { receivedBytes == 0 && client.tls?.isHealthCheck == true }

  /// The rules of the server block let the client in, after one that has waited.
  func rulesDidAdmit() { connection.rulesDidAdmit() }

  package func noteActivity() { lastActivity = loop.now }
  package func keepBuffers() { transport.keepBuffers() }
  package func releaseBuffers() { transport.releaseBuffers() }

  // MARK: The client's bytes

  /// Reads the client's bytes from now on, perhaps before this returns.
  package func resumeReading() {
    guard isPaused else { return }
    isPaused = false
    pump()
  }

  package func pauseReading() { isPaused = true }

  package func pump() {
    var taken = 0
    while !isPaused, !hasEnded, transport.isOpen, transport.mayHaveInput {
      guard taken < Self.pumpLimit else { return transport.loop.again(transport) }
      let room = min(allowance, loop.readBuffer.count)
      guard room > 0 else { return begun?.withHandler { $0.clientAllowanceDidEnd() } ?? () }
      switch transport.read(into: UnsafeMutableRawBufferPointer(rebasing: loop.readBuffer[..<room])) {
      case .bytes(let count):
        taken += count
        receivedBytes &+= UInt64(count)
        if allowance != Int.max { allowance -= count }
        lastActivity = loop.now
        begun?.withHandler { $0.tunnelBytes(UnsafeRawBufferPointer(rebasing: loop.readBuffer[..<count])) }
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
    begun?.withHandler { inGoodOrder ? $0.tunnelClientDidEnd() : $0.tunnelClientDidBreak() }
  }

  // MARK: Bytes for the client

  package var waitingBytes: Int { transport.pendingCount }
  package var sentBytes: UInt64 { sent }

  package func send(body bytes: UnsafeRawBufferPointer) {
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
    begun?.withHandler { $0.clientDidDrain() }
  }

  package override func deadlinePassed() { begun?.withHandler { $0.deadlineDidPass() } }

  // MARK: Ends

  /// The session is over.
  func finish(_ result: SessionResult) { connection.finish(result) }
}

extension TCPStream {
  /// Counts the end of the session. `time`: how long it has lasted, in milliseconds.
  func countEnd(_ result: SessionResult, after time: UInt64) {
    countBytes()
    count.end(result, after: time)
  }

  /// Counts the bytes that have passed since the last call.
  func countBytes() { count.take(received: receivedBytes, sent: sentBytes) }
}
